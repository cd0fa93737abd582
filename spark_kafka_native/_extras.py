"""Packages that only some features need: the optional dependencies in ``pyproject.toml``."""

import importlib
import re
import sys
from types import ModuleType
from typing import Final

_OLDEST_SPARK: Final = (4, 2)


class SparkMissing(ImportError):
    """PySpark is not installed, or is too old."""


def install_hint(package: str, extra: str) -> str:
    """A package that is missing, and how to install it: the object of "needs" in an error message."""
    return f"the package {package}: run `pip install 'spark-kafka-native[{extra}]'`"


def import_with_spark(module: str, user: str) -> ModuleType:
    """Import a module that may need PySpark; ``user`` needs the module. Raises SparkMissing."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark" or (needed := _missing_spark()) is None:
            raise
        raise SparkMissing(f"{user} needs {needed}", name=error.name) from error
    # A module may import with an older PySpark.
    if "pyspark" in sys.modules and (needed := _missing_spark()) is not None:
        raise SparkMissing(f"{user} needs {needed}", name="pyspark")
    return found


def _missing_spark() -> str | None:
    try:
        version: str = importlib.import_module("pyspark").__version__
    except (ModuleNotFoundError, AttributeError):  # a folder named pyspark has no version
        return install_hint("pyspark", "spark")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) >= _OLDEST_SPARK:
        return None
    return f"PySpark {'.'.join(map(str, _OLDEST_SPARK))} or later; {version} is installed"
