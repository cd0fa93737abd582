"""Files that hold records: from Arrow batches to bytes, one writer per format.

=========  =======================  ==============================================================================
Format     Compression (* default)  Columns
=========  =======================  ==============================================================================
parquet    snappy*, zstd, gzip,     as they are
           lz4, none
orc        snappy*, zstd, zlib,     as they are
           lz4, none
avro       deflate*, snappy, none   as they are; timestamps in microseconds. Needs the package fastavro
json       none*, gzip              one object a line; binary in Base64, as Spark writes and reads it
csv        none*, gzip              with a header line; binary in Base64, headers as JSON; null is empty, "" is quoted
text       none*, gzip              the column ``value`` alone, a line each; a null or a line break in it is refused
=========  =======================  ==============================================================================
"""

import base64
import contextlib
import importlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

import crc32c
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_native._extras import install_hint
from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A format and its compression; picklable."""

    name: str
    compression: str

    @property
    def suffix(self) -> str:
        """The suffix of file names, from which Spark derives the compression."""
        around = ".gz" if self.compression == "gzip" and self.name in _LINES else ""
        return {"text": ".txt"}.get(self.name, f".{self.name}") + around


COMPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("snappy", "zstd", "gzip", "lz4", "none"),
    "orc": ("snappy", "zstd", "zlib", "lz4", "none"),
    "avro": ("deflate", "snappy", "none"),
    "json": ("none", "gzip"),
    "csv": ("none", "gzip"),
    "text": ("none", "gzip"),
}
"""File formats, and the compressions of each; the first is the default."""
_LINES: Final = ("json", "csv", "text")


def file_format(name: str, compression: str | None) -> FileFormat:
    """A format by name. Raises UsageError: no such compression, or a package is missing."""
    known = COMPRESSIONS[name]
    if compression is not None and compression not in known:
        raise UsageError(f"--compression: {name} has {', '.join(known)}; not {compression}")
    if name == "avro":
        try:
            importlib.import_module("fastavro")
        except ImportError:
            raise UsageError(f"--format avro needs {install_hint('fastavro', 'avro')}") from None
    return FileFormat(name=name, compression=compression or known[0])


class Writer(Protocol):
    """Takes batches of one schema and makes one file of them."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        ...

    def close(self) -> None:
        """End the file; the stream stays open."""
        ...


class CountingStream(io.RawIOBase):
    """A stream into another one, which counts the bytes and computes their CRC-32C."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.bytes = 0
        self.crc32c = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes to the stream."""
        view = memoryview(data).cast("B")
        self.crc32c = crc32c.crc32c(view, self.crc32c)
        self.bytes += len(view)
        self._stream.write(view)
        return len(view)

    def tell(self) -> int:
        """Bytes so far."""
        return self.bytes


@contextlib.contextmanager
def open_writer(form: FileFormat, schema: pa.Schema, stream: io.RawIOBase) -> Iterator[Writer]:
    """A writer of files of one schema; the file is whole when the block is left without an error."""
    compressed = form.name in _LINES and form.compression == "gzip"
    sink: Any = pa.CompressedOutputStream(pa.PythonFile(stream, mode="w"), "gzip") if compressed else stream
    writer = _WRITERS[form.name](sink, schema, form.compression)
    yield writer
    writer.close()
    if compressed:
        sink.close()


def _parquet(stream: Any, schema: pa.Schema, compression: Any) -> Writer:
    import pyarrow.parquet as pq  # noqa: PLC0415  # only one of the formats is needed, and they take time

    writer: Writer = pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression=compression)
    return writer


class _Orc:
    def __init__(self, stream: Any, _: pa.Schema, compression: str) -> None:
        from pyarrow import orc  # noqa: PLC0415  # takes time, and few loads need it

        codec: Any = "UNCOMPRESSED" if compression == "none" else compression.upper()
        self._writer = orc.ORCWriter(pa.PythonFile(stream, mode="w"), compression=codec)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_batches([batch]))

    def close(self) -> None:
        self._writer.close()


class _Avro:
    def __init__(self, stream: Any, schema: pa.Schema, compression: str) -> None:
        described = {"type": "record", "name": "record", "fields": [_avro_field(field) for field in schema]}
        codec = "null" if compression == "none" else compression
        self._writer: Any = importlib.import_module("fastavro.write").Writer(stream, described, codec=codec)

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._writer.write(row)

    def close(self) -> None:
        self._writer.flush()


class _Json:
    def __init__(self, stream: Any, schema: pa.Schema, _: str) -> None:
        self._stream = stream
        self._names = schema.names

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [_plain(batch.column(name)) for name in self._names]
        lines = [json.dumps(dict(zip(self._names, row, strict=True))) for row in zip(*columns, strict=True)]
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing to end a file with."""


class _Csv:
    def __init__(self, stream: Any, schema: pa.Schema, _: str) -> None:
        from pyarrow import csv  # noqa: PLC0415  # takes time, and few loads need it

        self._schema = pa.schema([pa.field(name, pa.string()) for name in schema.names])
        sink: Any = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="w")
        self._writer = csv.CSVWriter(sink, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [_as_text(batch.column(name)) for name in self._schema.names]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _Text:
    def __init__(self, stream: Any, schema: pa.Schema, _: str) -> None:
        self._stream = stream
        if schema.names != ["value"]:
            raise UsageError("--format text has only the column value; use --columns value")

    def write(self, batch: pa.RecordBatch) -> None:
        values = batch.column(0).cast(pa.string(), safe=False)
        breaks = pc.match_substring_regex(values, "[\r\n]")
        if values.null_count or pc.any(breaks).as_py():
            what = "a record without a value" if values.null_count else "a value with a line break in it"
            raise ReloadError(f"{what} cannot be written to a text file; use --format json, csv or another one")
        self._stream.write("".join(f"{value}\n" for value in values.to_pylist()).encode())

    def close(self) -> None:
        """Nothing to end a file with."""


_WRITERS: Final[Mapping[str, Callable[[Any, pa.Schema, str], Writer]]] = {
    "parquet": _parquet,
    "orc": _Orc,
    "avro": _Avro,
    "json": _Json,
    "csv": _Csv,
    "text": _Text,
}


def _plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [None if text is None else text.replace(" ", "T") for text in column.cast(pa.string()).to_pylist()]
    return [_plain_value(value) for value in column.to_pylist()]


def _plain_value(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_plain_value(item) for item in value]
        case dict():
            return {key: _plain_value(item) for key, item in value.items()}
        case _:
            return value


def _as_text(column: Any) -> Any:
    if pa.types.is_binary(column.type):
        return pa.array(_plain(column), pa.string())
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else json.dumps(value) for value in _plain(column)], pa.string())
    return column.cast(pa.string())


def _avro_field(field: "pa.Field[Any]") -> dict[str, Any]:
    return {"name": field.name, "type": ["null", _avro_type(field.type, field.name)]}


def _avro_type(kind: Any, name: str) -> Any:
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, name)]}
    if pa.types.is_struct(kind):
        fields = [_avro_field(kind.field(index)) for index in range(kind.num_fields)]
        return {"type": "record", "name": f"{name}_item", "fields": fields}
    names = {pa.binary(): "bytes", pa.string(): "string", pa.int32(): "int", pa.int64(): "long"}
    return names[kind]
