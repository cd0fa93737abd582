"""Avro to Arrow: a column of framed values -> a column of structs.

Avro is row by row: fastavro reads every value into Python objects, which takes most of the time. The steps before
(``wire``) and after (dates and times) work on whole columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.types import Schema

from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._records.confluent_header import SchemaRef
from spark_kafka_native._spark.confluent.errors import BadRow, NoSuchSchema, SchemaError
from spark_kafka_native._spark.confluent.registry import Registry
from spark_kafka_native._spark.confluent.schemas import AvroSchema, writer_schema
from spark_kafka_native._spark.confluent.wire import ArrowArray, ArrowType, split

_NO_HEADER: Final = "no schema header: the value does not begin with magic byte 0 or 1"


class BadRows(StrEnum):
    """The result for a value that cannot be decoded: a failed task, null, or null with an error text."""

    FAIL = "fail"
    NULL = "null"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """``values`` have the schema's Arrow type for Spark. ``errors``: the reason why a row is null, by row number."""

    values: ArrowArray
    errors: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroDecoder:
    """Decodes values to ``schema``, from the schemas that their headers name. Picklable.

    Without a ``registry`` all values were written with ``schema``; without ``framed`` they have no header.
    """

    schema: AvroSchema
    registry: Registry | None
    framed: bool = True
    bad_rows: BadRows = BadRows.FAIL

    def decode(self, values: ArrowArray, in_headers: ArrowArray | None = None) -> DecodedValues:
        """Decode a binary column; null stays null.

        Raises BadRow; RegistryError: the registry is unavailable, which is no error of a row.
        """
        objects: list[Any] = [None] * len(values)
        errors: dict[int, str] = {}
        if self.framed:
            framed = split(values, in_headers)
            payloads, codes, refs = framed.payloads.to_pylist(), framed.codes, framed.refs
            headless = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_) & (codes < 0)
            errors |= dict.fromkeys(np.flatnonzero(headless).tolist(), _NO_HEADER)
        else:
            payloads, refs = values.to_pylist(), [0]
            codes = np.where(values.is_valid().to_numpy(zero_copy_only=False), 0, -1)
        for code, ref in enumerate(refs):
            rows: list[int] = np.flatnonzero(codes == code).tolist()
            try:
                writer = self._writer(ref)
            except (NoSuchSchema, SchemaError) as error:
                errors |= dict.fromkeys(rows, str(error))
            else:
                _read(payloads, rows, writer, self.schema.parsed, objects, errors)
        self._complain(errors)
        return DecodedValues(self._column(objects, errors), errors)

    def _writer(self, ref: SchemaRef) -> Schema:
        if self.registry is None:
            return self.schema.parsed
        return _writer_schema(self.registry, ref)

    def _column(self, objects: list[Any], errors: dict[int, str]) -> ArrowArray:
        wanted = spark_arrow_type(self.schema.arrow)
        try:
            return pa.array(objects, self.schema.arrow).cast(wanted)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            # A value is out of range for its type, such as a time in the year 300,000: find its row.
            column = [self._one(row, value, errors) for row, value in enumerate(objects)]
            self._complain(errors)
            return pa.chunked_array([pa.array([], wanted), *column]).combine_chunks()

    def _one(self, row: int, value: Any, errors: dict[int, str]) -> ArrowArray:
        try:
            return pa.array([value], self.schema.arrow).cast(spark_arrow_type(self.schema.arrow))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            errors[row] = f"{type(error).__name__}: {error}"
            return pa.nulls(1, spark_arrow_type(self.schema.arrow))

    def _complain(self, errors: dict[int, str]) -> None:
        if errors and self.bad_rows is BadRows.FAIL:
            row, text = min(errors.items())
            raise BadRow(
                f"{counted(len(errors), 'value')} cannot be decoded, the first is number {row} of its batch: {text}. "
                "on_bad='keep' gives such rows an error text, on_bad='null' makes them null"
            )


def _read(
    payloads: Sequence[bytes],
    rows: list[int],
    writer: Schema,
    reader: Schema,
    objects: list[Any],
    errors: dict[int, str],
) -> None:
    """Read the payloads of ``rows`` into ``objects``, or their errors into ``errors``."""
    same = None if writer == reader else reader  # compared once, not by fastavro for each value
    for row in rows:
        data = payloads[row]
        stream = BytesIO(data)
        try:
            objects[row] = schemaless_reader(stream, writer, same)
        except Exception as error:  # fastavro raises different errors for invalid bytes
            ended = isinstance(error, (EOFError, IndexError)) and stream.tell() == len(data)
            short = f"its {len(data)} bytes are too short for the schema"
            errors[row] = short if ended else f"{type(error).__name__}: {error}"
            continue
        if stream.tell() != len(data):
            objects[row] = None
            errors[row] = f"{len(data) - stream.tell()} bytes are left after the value"


_writers: dict[tuple[Registry, SchemaRef], Schema] = {}


def _writer_schema(registry: Registry, ref: SchemaRef) -> Schema:
    found = _writers.get((registry, ref))
    if found is None:
        registered = registry.schema(ref)
        found = _writers[registry, ref] = writer_schema(registered.text, registered.references)
    return found


def spark_arrow_type(kind: ArrowType) -> ArrowType:
    """An Arrow type with Spark's unit of time, microseconds."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_arrow_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(spark_arrow_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, spark_arrow_type(kind.item_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind
