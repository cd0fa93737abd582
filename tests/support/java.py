"""Options for JVMs of short tests."""

from typing import Final

# C1 only, the serial collector, no verification of bytecode.
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
