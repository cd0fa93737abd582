"""Types of properties, as in Kafka's ConfigDef: a string, or a plain Python value -> the value of a field.

A field's name is its property's with ``_`` for ``.``; its default, bounds and meaning stand together in the metadata
that the functions below put on the dataclass field.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_kafka_native.net.address import parse_addresses
from spark_kafka_native.net.secret import Secret
from spark_kafka_native.protocol.errors import PicklableError


class ConfigError(PicklableError, ValueError):
    """An invalid client property; ``option`` is its Kafka name, ``message`` what is wrong with it."""

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        self.message = message
        super().__init__(f"{option}: {message}")


INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One honoured Kafka client property: its name, default, legal values in words, and meaning."""

    name: str
    default: Any
    legal: str
    doc: str
    parse: Callable[[object], Any]
    """From the given value to the field's. Raises ValueError saying what is wrong."""


def properties_of(config_class: type) -> Mapping[str, Property]:
    """The properties that the fields of a configuration dataclass declare, by their Kafka names."""
    found: dict[str, Property] = {}
    for item in dataclasses.fields(config_class):
        if "parse" in item.metadata:
            name = item.name.replace("_", ".")
            default = None if item.default is dataclasses.MISSING else item.default
            found[name] = Property(name=name, default=default, **item.metadata)
    return found


def integer(
    default: int, doc: str, *, at_least: int = 0, at_most: int = INT32_MAX, besides: frozenset[int] = frozenset()
) -> Any:
    """An integer field with inclusive bounds; ``besides`` are legal values outside of them."""
    legal = f"at least {at_least}" if at_most in {INT32_MAX, INT64_MAX} else f"{at_least} to {at_most}"
    legal += "".join(f" or {value}" for value in sorted(besides))

    def parse(value: object) -> int:
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(f"{value!r} is not an integer")
        number = int(text)
        if number not in besides and not at_least <= number <= at_most:
            largest = f", at most {at_most}" if number > at_most and legal.startswith("at least") else ""
            raise ValueError(f"{number} is out of bounds; expected {legal}{largest}")
        return number

    return _declare(default, legal, doc, parse)


def boolean(default: bool, doc: str) -> Any:
    """A field that is ``true`` or ``false``, in any case."""

    def parse(value: object) -> bool:
        text = str(value).strip().lower()
        if text not in {"true", "false"}:
            raise ValueError(f"{value!r} is neither true nor false")
        return text == "true"

    return _declare(default, "true or false", doc, parse)


def choice(default: Any, doc: str, options: Mapping[str, Any]) -> Any:
    """A field with a few legal names, read in any case; ``options`` maps them to the field's values."""
    legal = ", ".join(options)

    def parse(value: object) -> Any:
        text = str(value).strip().lower()
        for name, meaning in options.items():
            if name.lower() == text:
                return meaning
        raise ValueError(f"{value!r} is not one of {legal}")

    return _declare(default, legal, doc, parse)


def text(default: str | None, doc: str, *, may_be_empty: bool = True) -> Any:
    """A string field, blanks at its ends removed."""

    def parse(value: object) -> str:
        stripped = str(value).strip()
        if not stripped and not may_be_empty:
            raise ValueError("is empty")
        return stripped

    return _declare(default, "any string" if may_be_empty else "any string but the empty one", doc, parse)


def number(default: float, doc: str, *, at_least: float, at_most: float) -> Any:
    """A field that is a fraction with inclusive bounds."""
    legal = f"{at_least} to {at_most}"

    def parse(value: object) -> float:
        try:
            fraction = float(str(value).strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
        if not at_least <= fraction <= at_most:
            raise ValueError(f"{fraction} is out of bounds; expected {legal}")
        return fraction

    return _declare(default, legal, doc, parse)


def optional_integer(doc: str, *, at_least: int = 0) -> Any:
    """An integer field without a default."""

    def parse(value: object) -> int:
        stripped = str(value).strip()
        if not re.fullmatch(r"[0-9]+", stripped) or not at_least <= int(stripped) <= INT32_MAX:
            raise ValueError(f"{value!r} is not an integer of at least {at_least}")
        return int(stripped)

    return _declare(None, f"at least {at_least}", doc, parse)


def names(default: tuple[str, ...] | None, doc: str, legal: str) -> Any:
    """A field that lists names, separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))

    return _declare(default, legal, doc, parse)


def password(doc: str, legal: str = "any string") -> Any:
    """A field that is never shown."""

    def parse(value: object) -> Secret:
        return value if isinstance(value, Secret) else Secret(str(value))

    return _declare(None, legal, doc, parse)


def function_or_class(doc: str) -> Any:
    """A field for a Python function: itself, or ``module:function``; names of Java classes pass."""

    def parse(value: object) -> Any:
        if callable(value):
            return value
        stripped = str(value).strip()
        if not re.fullmatch(r"[\w.$]+(:[\w.]+)?", stripped):
            raise ValueError(f"{stripped!r} is neither module:function nor the name of a class")
        return stripped

    return _declare(None, "module:function", doc, parse)


def servers(doc: str) -> Any:
    """A required field that lists ``host:port`` addresses."""

    def parse(value: object) -> Any:
        return parse_addresses(str(value))

    return _declare(dataclasses.MISSING, "host:port[,host:port...]", doc, parse)


def _declare(default: Any, legal: str, doc: str, parse: Callable[[object], Any]) -> Any:
    metadata = {"legal": legal, "doc": doc, "parse": parse}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def find_function(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; it may stand in a class or another object of the module.

    Raises LookupError: it is not there, and why. TypeError: it is no function.
    """
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise LookupError(str(error)) from error
    if not callable(found):
        raise TypeError(f"{name} is no function")
    return found  # type: ignore[no-any-return]  # callable, and no more is known of a user's function
