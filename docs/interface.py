"""Make the tables of docs/interface.md from the public names and their docstrings: ``python -m docs.interface``."""

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Final

import broker_embedded.testing
import spark_kafka_native.clients
import spark_kafka_native.confluent
from docs.build import table
from docs.marked import replace_between

PAGE: Final = Path(__file__).with_name("interface.md")
_MODULES: Final = (
    spark_kafka_native,
    spark_kafka_native.clients,
    spark_kafka_native.confluent,
    broker_embedded.testing,
)
_END: Final = "<!-- end of names -->"


def page(text: str) -> str:
    """The page with the tables of all public names. Raises ValueError: it has no marks for them."""
    for module in _MODULES:
        begin = f"<!-- names of {module.__name__}, made by make docs -->"
        rows = [(f"`{name}`", _meaning(module, name)) for name in sorted(module.__all__, key=str.lower)]
        text = replace_between(text, begin, _END, table(("Name", "Meaning"), rows))
    return text


def _meaning(module: ModuleType, name: str) -> str:
    """The first sentence of the docstring."""
    if name == "__version__":
        return "The version of the package, as text."
    doc = inspect.getdoc(getattr(module, name)) or ""
    first = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z])", first.replace("``", "`"))[0]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
