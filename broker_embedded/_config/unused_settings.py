"""Settings of Apache Kafka that this broker does not act on, read from ``unused_settings.txt``.

They are those of Kafka 4.3's brokers, and of ZooKeeper in Kafka 0.8 to 3.9.

Each is known by its name, type, default, bounds and documentation. A section of the file says what becomes of its
settings:

``no effect``  the setting is accepted, validated, stored and described, and changes nothing
``refused``    the setting can only have its default, because the broker does not have what another value turns on
``since 3.6``  releases before this one do not have the setting, as far as the settings of 3.9 and 4.3 show

The columns are key, type, default, values, change at run time and documentation. A blank default is null. Values are
``LEAST..MOST`` or names separated by commas. ``broker`` can change at run time for a single broker, ``cluster`` for all
brokers too. ``pool`` is as ``cluster``, for a number of threads. ``hidden`` is as ``cluster``, for a setting that
DescribeConfigs has only where it is set.
"""

import functools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from broker_embedded._config.settings import INT_MAX, LONG_MAX, SHORT_MAX, Setting

_FILE: Final = Path(__file__).with_suffix(".txt")
_SECTION: Final = re.compile(r"\[(?P<what>no effect|refused)(?:, since (?P<since>[0-9.]+))?: (?P<reason>.+)\]")
_KINDS: Final = {
    "boolean": "bool",
    "class": "class",
    "double": "float",
    "int": "int",
    "list": "list",
    "long": "int",
    "password": "Secret",
    "short": "int",
    "string": "str",
}
_MOST: Final = {"short": SHORT_MAX, "int": INT_MAX, "long": LONG_MAX}


@functools.cache
def unused_settings() -> Mapping[str, Setting]:
    """Every setting of the file, by its key."""
    found: dict[str, Setting] = {}
    section: dict[str, Any] = {}
    for line in filter(None, _FILE.read_text(encoding="utf-8").splitlines()):
        match = _SECTION.fullmatch(line)
        if match is not None:
            section = {match["what"].replace(" ", "_"): match["reason"], "since": match["since"] or ""}
        else:
            setting = _setting(line, section)
            assert setting.key not in found, setting.key
            found[setting.key] = setting
    return MappingProxyType(found)


def _setting(line: str, section: Mapping[str, Any]) -> Setting:
    key, kind, default, values, change, doc = (cell.strip() for cell in line.split(" | "))
    declared = Setting(
        key=key,
        kind=_KINDS[kind],
        default=None,
        doc=doc,
        nullable=not default,
        dynamic=bool(change),
        per_broker=change == "broker",
        is_pool=change == "pool",
        is_hidden=change == "hidden",
        **_limits(kind, values),
        **section,
    )
    return declared if declared.nullable else declared.with_default(default.strip('"'))


def _limits(kind: str, values: str) -> dict[str, Any]:
    if kind in _MOST:
        least, _, most = values.partition("..")
        most_of_kind = _MOST[kind]
        return {"at_least": int(least or -most_of_kind - 1), "at_most": int(most or most_of_kind)}
    if kind == "double":
        return {"at_least": -math.inf, "at_most": math.inf}
    return {"choices": tuple(values.split(",")) if values else ()}
