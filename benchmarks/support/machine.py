"""The machine and the versions that a result is true for."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("pyspark", "pyarrow", "numpy", "confluent-kafka", "aiokafka", "kafka-python")


def machine() -> dict[str, str]:
    """What a reader needs to know, by name."""
    from spark_kafka_native.records import kernel  # noqa: PLC0415  # brings numpy, which not every process needs

    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    return {
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load average": load,
        "Python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        "records": "compiled kernel" if kernel.is_compiled() else "numpy, no compiled kernel",
    }


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
