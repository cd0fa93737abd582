"""Arrow to Avro: a column of structs -> a column of values, each with a header that names the schema."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from fastavro import schemaless_writer

from spark_kafka_native._records.confluent_header import SchemaRef
from spark_kafka_native._spark.confluent.errors import EncodeError
from spark_kafka_native._spark.confluent.schemas import AvroSchema
from spark_kafka_native._spark.confluent.wire import ArrowArray, ArrowType, join, pc


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroEncoder:
    """Encodes values with ``schema``, whose id or GUID in the header is ``ref``; None: no header. Picklable."""

    schema: AvroSchema
    ref: SchemaRef | None

    def encode(self, values: ArrowArray) -> ArrowArray:
        """Encode a column of the schema's type; null stays null.

        Raises EncodeError naming the row: a null where the schema allows none, an unknown value of an enum.
        """
        try:
            plain = _objects(values, self.schema.arrow, self.schema.raw)
        except (pa.ArrowException, ValueError) as error:
            raise EncodeError(f"the column is {values.type}, which does not fit the schema: {error}") from error
        encoded = pa.array([self._one(row, value) for row, value in enumerate(plain)], pa.binary())
        return encoded if self.ref is None else join(self.ref, encoded)

    def _one(self, row: int, value: Any) -> bytes | None:
        if value is None:
            return None
        stream = BytesIO()
        try:
            schemaless_writer(stream, self.schema.parsed, value)
        except Exception as error:  # fastavro raises different errors for invalid values
            raise EncodeError(f"value number {row} of its batch does not fit the schema: {error}") from error
        return stream.getvalue()


def _objects(values: ArrowArray, typed: ArrowType, raw: ArrowType) -> list[Any]:
    """``values`` as fastavro takes them: structs as dictionaries, times as the numbers of the wire format.

    Times are rounded down to their unit. A missing field has the schema's default.
    """
    kind = values.type
    if pa.types.is_struct(raw) and pa.types.is_struct(kind):
        return _structs(values, typed, raw)
    if pa.types.is_list(raw) and pa.types.is_list(kind):
        items = _objects(values.flatten(), typed.value_type, raw.value_type)
        return [None if span is None else items[span] for span in _slices(values)]
    if pa.types.is_map(raw) and pa.types.is_map(kind):
        lists = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        entries = lists.flatten()
        keys = pc.struct_field(entries, "key").cast(raw.key_type).to_pylist()
        items = _objects(pc.struct_field(entries, "value"), typed.item_type, raw.item_type)
        spans = _slices(lists)
        return [None if span is None else dict(zip(keys[span], items[span], strict=True)) for span in spans]
    if pa.types.is_timestamp(typed) and typed.unit == "ms" and pa.types.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        millis = np.floor_divide(np.asarray(micros.fill_null(0).to_numpy(zero_copy_only=False), np.int64), 1000)
        return _leaves(pa.array(millis, pa.int64(), mask=_nulls(values)))
    return _leaves(values.cast(typed).cast(raw))


def _structs(values: ArrowArray, typed: ArrowType, raw: ArrowType) -> list[Any]:
    names = [field.name for field in values.type]
    if unknown := [name for name in names if raw.get_field_index(name) < 0]:
        raise ValueError(f"the schema does not have the fields {', '.join(unknown)}")
    if not names:
        return [{} if valid else None for valid in values.is_valid().to_pylist()]
    columns = [
        _objects(values.field(index), typed.field(name).type, raw.field(name).type) for index, name in enumerate(names)
    ]
    rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for row in np.flatnonzero(_nulls(values)).tolist():
        rows[row] = None
    return rows


def _leaves(values: ArrowArray) -> list[Any]:
    numbers = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    found: list[Any] = values.to_numpy().tolist() if numbers and not values.null_count else values.to_pylist()
    return found


def _slices(lists: ArrowArray) -> Iterator[slice | None]:
    """The range of each list among the flattened items; None: it is null."""
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    ends = np.cumsum(lengths)
    for start, end, null in zip((ends - lengths).tolist(), ends.tolist(), _nulls(lists).tolist(), strict=True):
        yield None if null else slice(start, end)


def _nulls(column: ArrowArray) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
