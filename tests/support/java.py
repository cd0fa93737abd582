"""How tests start a Java that does not run for long."""

from typing import Final

# One compiler and one thread that collects garbage; the classes of known jars are not verified.
QUICK_START: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Djava.awt.headless=true",
)
DRIVER_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable from which Spark takes options for the JVM of a driver."""
