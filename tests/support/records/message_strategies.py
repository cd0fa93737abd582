"""Hypothesis strategies for messages, made from their field types."""

from typing import Any

from hypothesis import strategies as st

from spark_kafka_native._protocol.schema import FieldSpec, Struct, fields_of

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def _primitive(kind: str) -> st.SearchStrategy[Any]:
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return st.integers(low, high)
    if kind == "bool":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False)
    if kind == "string":
        return st.text(st.characters(codec="utf-8"), max_size=12)
    if kind == "uuid":
        return st.uuids()
    return st.binary(max_size=40)


def _value(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    one = messages(spec.struct, version) if spec.struct is not None else _primitive(spec.primitive or "")
    whole = st.lists(one, max_size=3).map(tuple) if spec.is_array else one
    return st.none() | whole if version in spec.nullable else whole


def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances of a message or struct whose fields fit ``version``."""
    present = {spec.name: _value(spec, version) for spec in fields_of(cls) if version in spec.versions}
    return st.builds(cls, **present)
