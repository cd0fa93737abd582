"""Settings with Kafka's names, each declared once, for parsing, validation, ``--help`` and documents.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class BrokerConfig:
        num_partitions: int = setting(1, "Partitions of a new topic.", at_least=1)

The field ``num_partitions`` is the key ``num.partitions``. Values come as text, from a file or a command line, or as
the Python value itself. A field of type ``tuple[str, ...]`` is one of Kafka's lists, ``a,b`` as text; one of type
``Secret`` is never shown.
"""

import dataclasses
import functools
import math
import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Self, Union, get_args, get_origin, get_type_hints

from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.nearest import did_you_mean

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class SettingError(ValueError):
    """An unknown setting of the broker, or an invalid value: its ``key``, and the ``problem`` with it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key: what it is called, what it may hold, and what it does.

    ``dynamic``: the value can change while the broker runs (KIP-226). ``per_broker``: it can do so for single brokers
    only. ``is_pool``: a number of threads, which one change can halve or double. ``is_hidden``: DescribeConfigs has the
    setting only where it is set. ``removed``: Kafka 4 does not have the setting. ``since``: the first release that has
    it. ``no_effect``: why this broker does not act on it. ``refused``: why it can only have its default.
    """

    key: str
    kind: str
    default: object
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    nullable: bool = False
    dynamic: bool = False
    per_broker: bool = False
    is_pool: bool = False
    is_hidden: bool = False
    removed: bool = False
    since: str = ""
    no_effect: str = ""
    refused: str = ""

    def parse(self, value: object) -> object:
        """The value that ``value``, text or already of the right type, stands for. Raises SettingError."""
        parsed = None if self.nullable and value in {None, ""} else self._parse(value)
        if self.refused and parsed not in {None, self.default}:
            raise SettingError(self.key, f"only the default is allowed, because {self.refused}")
        return parsed

    def with_default(self, text: str) -> Self:
        """The same setting with this default."""
        return dataclasses.replace(self, default=self._parse(text))

    def _parse(self, value: object) -> object:
        match self.kind:
            case "int":
                return self._int(value)
            case "bool":
                return self._bool(value)
            case "float":
                return self._float(value)
            case "list":
                return self._list(value)
            case "Secret":
                return value if isinstance(value, Secret) else Secret(self._str(value))
            case _:
                return self._str(value)

    @property
    def bounds(self) -> str:
        """The values allowed, for people: ``1..2147483647``, ``true|false``, or nothing to say."""
        if self.kind == "bool":
            return "true|false"
        if self.choices:
            return ("," if self.kind == "list" else "|").join(self.choices)
        if self.kind in {"int", "float"}:
            low = "" if self.at_least is None else self.at_least
            return f"{low}..{self.at_most}"
        return ""

    @property
    def full_doc(self) -> str:
        """What it does, and which values are refused, if some are, and why."""
        if not self.refused:
            return self.doc
        if self.kind == "bool":
            values = format_value(not self.default)
        else:
            values = f"Any value but {self.default_text}" if self.default_text else "Any value"
        return f"{self.doc} {values} is refused: {self.refused}."

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown."""
        return self.kind == "Secret"

    @property
    def default_text(self) -> str:
        """The default as it would be written in a file."""
        return format_value(self.default)

    def _int(self, value: object) -> int:
        try:
            number = int(str(value).strip()) if not isinstance(value, bool | float) else None
        except ValueError:
            number = None
        if number is None:
            raise SettingError(self.key, f"{value!r} is not a whole number")
        self._check_range(number)
        return number

    def _float(self, value: object) -> float:
        try:
            number = float(str(value).strip())
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise SettingError(self.key, f"{value!r} is not a number")
        self._check_range(number)
        return number

    def _check_range(self, number: float) -> None:
        too_small = self.at_least is not None and number < self.at_least
        if too_small or (self.at_most is not None and number > self.at_most):
            raise SettingError(self.key, f"{number} is out of range {self.bounds}")

    def _bool(self, value: object) -> bool:
        text = str(value).strip().lower()
        if text not in {"true", "false"}:
            raise SettingError(self.key, f"{value!r} is neither true nor false")
        return text == "true"

    def _str(self, value: object) -> str:
        if not isinstance(value, str):
            raise SettingError(self.key, f"{value!r} is not text")
        text = value.strip()
        if self.choices and text not in self.choices:
            raise SettingError(self.key, f"{text!r} is not one of {', '.join(self.choices)}")
        return text

    def _list(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, str | tuple | list) or not all(isinstance(item, str) for item in value):
            raise SettingError(self.key, f"{value!r} is not a list of texts")
        items = tuple(item.strip() for item in (value.split(",") if isinstance(value, str) else value))
        if items == ("",):
            return ()
        items = tuple(dict.fromkeys(items))
        for item in items:
            if self.choices and item not in self.choices:
                raise SettingError(self.key, f"{item!r} is not one of {', '.join(self.choices)}")
        return items


def setting(
    default: object,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float = INT_MAX,
    choices: tuple[str, ...] = (),
    dynamic: bool = False,
    is_pool: bool = False,
    removed: bool = False,
    refused: str = "",
) -> Any:
    """Declare a dataclass field that is a setting; its key is the field's name with dots.

    ``dynamic``: it can change at run time, with effect. ``removed``: Kafka 4 does not have it. ``refused``: why it can
    only have its default.
    """
    limits = {"at_least": at_least, "at_most": at_most, "choices": choices}
    flags = {"dynamic": dynamic, "is_pool": is_pool, "removed": removed, "refused": refused}
    extra = {"doc": doc, **limits, **flags}
    return dataclasses.field(default=default, metadata={"setting": extra})


def settings_of(cls: type) -> dict[str, Setting]:
    """Every setting that a dataclass declares, by key, in the order of declaration."""
    return dict(_declared(cls))


@functools.cache
def _declared(cls: type) -> dict[str, Setting]:
    hints = get_type_hints(cls)
    found: dict[str, Setting] = {}
    for item in dataclasses.fields(cls):
        extra = item.metadata.get("setting")
        if extra is not None:
            kind, nullable = _kind(hints[item.name])
            key = item.name.replace("_", ".")
            limits = extra if kind in {"int", "float"} else {**extra, "at_least": None, "at_most": None}
            found[key] = Setting(key=key, kind=kind, nullable=nullable, default=item.default, **limits)
    return found


def _kind(hint: object) -> tuple[str, bool]:
    if get_origin(hint) in {Union, types.UnionType}:
        (inner,) = (part for part in get_args(hint) if part is not type(None))
        return inner.__name__, True
    if get_origin(hint) is tuple:
        return "list", False
    assert isinstance(hint, type)
    return hint.__name__, False


def parse_settings(known: Mapping[str, Setting], given: Mapping[str, object]) -> dict[str, Any]:
    """The values of ``given``, checked, by field name. Raises SettingError: a bad value, or a key that is not known."""
    return {key.replace(".", "_"): known[key].parse(value) for key, value in given.items()}


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Raise SettingError for the first key that is not known, with the nearest that is."""
    for key in given:
        if key not in known:
            raise SettingError(key, no_such_setting(key, known))


def no_such_setting(key: str, known: Collection[str]) -> str:
    """The problem with a key that is not known, with the nearest that is."""
    return f"no such setting{did_you_mean(key, known)}"


def format_value(value: object) -> str:
    """The value as a properties file has it."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return str(value).replace("e+", "E").replace("e", "E")
    return str(value).lower() if isinstance(value, bool) else str(value)
