"""Messages in which every field has a value of its own, and every list two items."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar
from uuid import UUID

import pytest

from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.schema import FieldSpec, Request, Struct, fields_of

StructT = TypeVar("StructT", bound=Struct)

APIS: list[type[Request[Any]]] = [request for _, request in sorted(all_requests().items())]

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.api_name)


def versions_of(api: type[Request[Any]]) -> range:
    """All versions of an API."""
    return range(api.min_version, api.max_version + 1)


def sample(cls: type[StructT], version: int, numbers: Iterator[int] | None = None) -> StructT:
    """A message or struct of a version."""
    counted = numbers or itertools.count(1)
    values: dict[str, Any] = {}
    for spec in fields_of(cls):
        if version in spec.versions:
            one = _value(spec, version, counted)
            values[spec.name] = (one, _value(spec, version, counted)) if spec.is_array else one
    return cls(**values)


def _value(spec: FieldSpec, version: int, numbers: Iterator[int]) -> Any:
    if spec.struct is not None:
        return sample(spec.struct, version, numbers)
    number = next(numbers)
    match spec.primitive:
        case "string":
            return f"{spec.name}-{number}"
        case "uuid":
            return UUID(int=number)
        case "bytes" | "records":
            return b"%d" % number
        case "bool":
            return bool(number % 2)
        case "float64":
            return float(number)
        case _:
            return number % 127


def structs_in(value: Struct, version: int) -> Iterator[Struct]:
    """A message and all structs in it that the version has."""
    yield value
    for spec in fields_of(type(value)):
        if spec.struct is None or version not in spec.versions:
            continue
        inner = getattr(value, spec.name)
        for item in inner if spec.is_array else (inner,):
            if item is not None:
                yield from structs_in(item, version)
