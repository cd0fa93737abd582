"""Packages that only some features need: the optional dependencies in ``pyproject.toml``."""


def install_hint(package: str, extra: str) -> str:
    """A package that is missing, and how to install it: the object of "needs" in an error message."""
    return f"the package {package}: run `pip install '.[{extra}]'` in a clone of spark-kafka-native"
