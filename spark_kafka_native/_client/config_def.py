"""Types of properties, as in Kafka's ConfigDef: a string, or a plain Python value -> the value of a field.

A field's name is its property's with ``_`` for ``.``; its default, bounds and meaning stand together in the metadata
that the functions below put on the dataclass field.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spark_kafka_native._net.address import parse_addresses
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.nearest import nearest_name

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class ValueType:
    """A type of values: the legal ones, for the documentation, and how a string or a plain Python value is read."""

    legal: str
    parse: Callable[[Any], Any]
    """Raises ValueError with the reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One honoured Kafka client property."""

    name: str
    type: ValueType
    default: Any
    doc: str


def define(value_type: ValueType, default: Any, doc: str) -> Any:
    """A dataclass field that is a property; its name is the field's with dots. MISSING: it has no default."""
    metadata = {"type": value_type, "doc": doc}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def properties_of(config_class: type) -> Mapping[str, Property]:
    """The properties that the fields of a configuration dataclass define, by their Kafka names."""
    found: dict[str, Property] = {}
    for item in dataclasses.fields(config_class):
        if "type" in item.metadata:
            name = item.name.replace("_", ".")
            default = None if item.default is dataclasses.MISSING else item.default
            found[name] = Property(name=name, default=default, **item.metadata)
    return found


# --- types -----------------------------------------------------------------------------------------------------------


def integer(*, at_least: int = 0, at_most: int = INT32_MAX, besides: frozenset[int] = frozenset()) -> ValueType:
    """Integers with inclusive bounds; ``besides`` are legal values outside of them."""
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

    return ValueType(legal, parse)


def boolean() -> ValueType:
    """``true`` or ``false``, in any case."""

    def parse(value: object) -> bool:
        text = str(value).strip().lower()
        if text not in {"true", "false"}:
            raise ValueError(f"{value!r} is neither true nor false")
        return text == "true"

    return ValueType("true or false", parse)


def choice(options: Mapping[str, Any] | Sequence[str]) -> ValueType:
    """A few names, case-insensitive. A mapping has their values; otherwise a name is its own value."""
    values = options if isinstance(options, Mapping) else {name: name for name in options}
    legal = ", ".join(values)

    def parse(value: object) -> Any:
        text = str(value).strip().lower()
        for name, meaning in values.items():
            if name.lower() == text:
                return meaning
        raise ValueError(f"{value!r} is not one of {legal}")

    return ValueType(legal, parse)


def text(legal: str = "", *, may_be_empty: bool = True) -> ValueType:
    """Strings, without white space at their ends."""

    def parse(value: object) -> str:
        stripped = str(value).strip()
        if not stripped and not may_be_empty:
            raise ValueError("is empty")
        return stripped

    return ValueType(legal or ("any string" if may_be_empty else "any string but the empty one"), parse)


def number(*, at_least: float, at_most: float) -> ValueType:
    """Fractions with inclusive bounds."""
    legal = f"{at_least} to {at_most}"

    def parse(value: object) -> float:
        try:
            fraction = float(str(value).strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
        if not at_least <= fraction <= at_most:
            raise ValueError(f"{fraction} is out of bounds; expected {legal}")
        return fraction

    return ValueType(legal, parse)


def names(legal: str) -> ValueType:
    """Lists of names, separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))

    return ValueType(legal, parse)


def password(legal: str = "any string") -> ValueType:
    """Strings that are never shown."""

    def parse(value: object) -> Secret:
        return value if isinstance(value, Secret) else Secret(str(value))

    return ValueType(legal, parse)


def function_or_class() -> ValueType:
    """Python functions: themselves, or ``module:function``; names of Java classes pass."""

    def parse(value: object) -> Any:
        if callable(value):
            return value
        stripped = str(value).strip()
        if not re.fullmatch(r"[\w.$]+(:[\w.]+)?", stripped):
            raise ValueError(f"{stripped!r} is neither module:function nor the name of a class")
        return stripped

    return ValueType("module:function", parse)


def servers() -> ValueType:
    """Lists of ``host:port`` addresses."""
    return ValueType("host:port[,host:port...]", lambda value: parse_addresses(str(value)))


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


def named_function(known: Mapping[str, Callable[..., Any]]) -> ValueType:
    """Functions: as objects, by the names of ``known``, which are classes of Kafka's, or as ``module:function``."""

    def parse(value: object) -> Callable[..., Any]:
        if callable(value):
            return value
        name = str(value).strip()
        if (found := known.get(name)) is not None:
            return found
        if not re.fullmatch(r"[\w.]+:[\w.]+", name):
            classes = {**{each: each for each in known}, **{each.rpartition(".")[2]: each for each in known}}
            near = nearest_name(name, classes)
            hint = "" if near is None else f"; did you mean {classes[near]}?"
            raise ValueError(f"{value!r:.100} is neither a function, module:function nor a class of Kafka's{hint}")
        try:
            return find_function(name)
        except (LookupError, TypeError) as error:
            raise ValueError(f"{name} cannot be used: {error}") from error

    return ValueType("a function, module:function, or a class of Kafka's", parse)
