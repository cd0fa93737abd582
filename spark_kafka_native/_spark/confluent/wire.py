"""Columns of values in Confluent's wire format: a header that names a schema, then the data.

All functions work on whole columns and do not read the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from spark_kafka_native._records.arrow.views import byte_spans
from spark_kafka_native._records.confluent_header import (
    GUID_HEADER_BYTES,
    GUID_MAGIC,
    ID_HEADER_BYTES,
    ID_MAGIC,
    SchemaRef,
    build_header,
)

ArrowArray = Any
"""``pa.Array``, which the stubs define for each type."""
ArrowType = Any
"""``pa.DataType``, which the stubs define for each type."""
pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True)
class Framed:
    """The headers and the data of a column.

    ``codes``: int64[n], each row's index in ``refs``, -1 for null and for rows without a header. ``payloads``: the data
    after the header, null if there is none.
    """

    refs: Sequence[SchemaRef]
    codes: npt.NDArray[np.int64]
    payloads: ArrowArray


def split(values: ArrowArray, in_headers: ArrowArray | None = None) -> Framed:
    """Split a binary column. ``in_headers``: references in record headers, which take precedence; null: none."""
    values = values.cast(pa.binary())
    heads = _heads(values)
    payloads = _without_heads(values, heads.sizes)
    if in_headers is not None and in_headers.null_count < len(in_headers):
        named = _heads(in_headers.cast(pa.binary()))
        elsewhere = (named.sizes > 0) & _bools(values.is_valid())
        payloads = pc.if_else(pa.array(elsewhere), values, payloads)
        heads.sizes[elsewhere], heads.content[elsewhere] = named.sizes[elsewhere], named.content[elsewhere]
    refs, codes = _named_schemas(heads)
    return Framed(refs, codes, payloads)


def join(ref: SchemaRef, payloads: ArrowArray) -> ArrowArray:
    """The header of a schema, then the value, for each value; null stays null."""
    head = pa.scalar(build_header(ref), pa.binary())
    return pc.binary_join_element_wise(head, payloads.cast(pa.binary()), pa.scalar(b"", pa.binary()))


def from_record_headers(headers: ArrowArray, name: str) -> ArrowArray:
    """The value of each record's last header ``name``: binary, or null.

    ``headers`` is list<struct<key: string, value: binary>>, as of the source and of Spark.
    """
    parents = np.asarray(pc.list_parent_indices(headers).to_numpy(zero_copy_only=False), np.int64)
    entries = pc.list_flatten(headers)
    if not len(entries):
        return pa.nulls(len(headers), pa.binary())
    matches = pc.equal(pc.struct_field(entries, "key"), name).fill_null(False)
    found = np.flatnonzero(_bools(matches))
    positions = np.full(len(headers), -1, np.int64)
    positions[parents[found]] = found  # the last of several
    taken = pc.struct_field(entries, "value").take(pa.array(positions, mask=positions < 0))
    return taken.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class _Heads:
    """Each value's header: ``content`` is uint8[n, 17]; ``sizes``, int64[n], are the bytes of each, 0 for none."""

    sizes: npt.NDArray[np.int64]
    content: npt.NDArray[np.uint8]


def _heads(values: ArrowArray) -> _Heads:
    data, starts, lengths = byte_spans(values)
    rows = len(starts)
    sizes, content = np.zeros(rows, np.int64), np.zeros((rows, GUID_HEADER_BYTES), np.uint8)
    valid = _bools(values.is_valid())
    for magic, size in ((ID_MAGIC, ID_HEADER_BYTES), (GUID_MAGIC, GUID_HEADER_BYTES)):
        long_enough = np.flatnonzero(valid & (lengths >= size))
        found = long_enough[data[starts[long_enough]] == magic[0]]
        sizes[found] = size
        content[found, :size] = data[starts[found, np.newaxis] + np.arange(size)]
    return _Heads(sizes, content)


def _without_heads(values: ArrowArray, sizes: npt.NDArray[np.int64]) -> ArrowArray:
    """The bytes of each value after its header; null if there is none."""
    data, starts, lengths = byte_spans(values)
    if not len(starts):
        return values
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    kept = np.ones(last - first, np.bool_)
    for size in (ID_HEADER_BYTES, GUID_HEADER_BYTES):
        found = np.flatnonzero(sizes == size)
        kept[starts[found, np.newaxis] - first + np.arange(size)] = False
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths - sizes, out=offsets[1:])
    valid = np.packbits(sizes > 0, bitorder="little")
    buffers: list[Any] = [
        pa.py_buffer(valid.tobytes()),
        pa.py_buffer(offsets.tobytes()),
        pa.py_buffer(data[first:last][kept].data),
    ]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def _named_schemas(heads: _Heads) -> tuple[list[SchemaRef], npt.NDArray[np.int64]]:
    """The different schemas in the headers, and the index of each row's schema; -1: none."""
    refs: list[SchemaRef] = []
    codes = np.full(len(heads.sizes), -1, np.int64)
    with_id, with_guid = (np.flatnonzero(heads.sizes == size) for size in (ID_HEADER_BYTES, GUID_HEADER_BYTES))
    if len(with_id):
        ids: Any = heads.content[with_id, 1:ID_HEADER_BYTES].copy().view(">u4").astype(np.int64).ravel()
        encoded: Any = pa.array(ids).dictionary_encode()
        refs += [int(number) for number in encoded.dictionary.to_pylist()]
        codes[with_id] = np.asarray(encoded.indices)
    if len(with_guid):
        guids = pa.py_buffer(heads.content[with_guid, 1:].tobytes())
        column = pa.Array.from_buffers(pa.binary(GUID_HEADER_BYTES - 1), len(with_guid), [None, guids])
        encoded = column.dictionary_encode()
        codes[with_guid] = np.asarray(encoded.indices) + len(refs)
        refs += [UUID(bytes=guid) for guid in encoded.dictionary.to_pylist()]
    return refs, codes


def _bools(column: ArrowArray) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
