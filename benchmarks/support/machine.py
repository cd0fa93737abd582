"""The machine and the versions that a result is true for."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_RESULTS: Final = (":!benchmarks/results", ":!docs/results.md", ":!tests/results")
PACKAGES = ("pyspark", "pyarrow", "numpy", "confluent-kafka", "aiokafka", "kafka-python")


def machine() -> dict[str, str]:
    """What a reader needs to know, by name."""
    from spark_kafka_native._records.arrow import kernel  # noqa: PLC0415  # brings numpy, which not every process needs

    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    return {
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load average": load,
        "Python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        "records": "compiled kernel" if kernel.is_compiled() else "plain Python, no compiled kernel",
    }


def commit() -> str:
    """The commit that is checked out, and whether other files than results differ from it."""
    head = _git("rev-parse", "--short=10", "HEAD")
    return f"{head} and changes to it" if _git("status", "--porcelain", "--", ".", *_RESULTS) else head


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return f"{platform.machine()}, {value.strip()}"
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
