"""Finding all error codes in a response: one generated function per response class."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

from spark_kafka_native._protocol.schema import FieldSpec, Response, Struct, fields_of

AddErrors: TypeAlias = Callable[[Response, Callable[[int], None]], None]
"""Calls its second argument with each error code in the first that is not 0."""


_FINDERS: Final[dict[type[Response], AddErrors]] = {}


def error_finder(cls: type[Response]) -> AddErrors:
    """The function for a response class."""
    found = _FINDERS.get(cls)
    if found is None:
        found = _FINDERS[cls] = _made(cls)
    return found


def _made(cls: type[Response]) -> AddErrors:
    lines = ["def run(v0, add):", *_lines(cls, 0), "    return"]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<errors of {cls.__name__}>", "exec"), names)  # noqa: S102  # our own text, made from our own declarations
    return cast("AddErrors", names["run"])


def _lines(cls: type[Struct], depth: int) -> Iterator[str]:
    indent = "    " * (depth + 1)
    for spec in fields_of(cls):
        path = f"v{depth}.{spec.name}"
        if spec.primitive == "int16" and not spec.is_array and spec.name.endswith("error_code"):
            yield f"{indent}if {path}: add({path})"
        elif spec.struct is not None:
            inner = list(_lines(spec.struct, depth + 1))
            if inner:
                yield f"{indent}{_loop(spec, depth, path)}"
                yield from inner


def _loop(spec: FieldSpec, depth: int, path: str) -> str:
    values = f"{path} or ()" if spec.is_array else f"({path},) if {path} else ()"
    return f"for v{depth + 1} in {values}:"
