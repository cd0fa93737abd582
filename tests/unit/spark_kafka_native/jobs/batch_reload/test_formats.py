import csv
import gzip
import io
import json
from datetime import UTC, datetime
from typing import Any

import crc32c
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.formats import COMPRESSIONS, CountingStream, file_format, open_writer
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema

SCHEMA = layout_of(source_schema(include_headers=True)).arrow_schema
AT = datetime(2026, 11, 20, 10, 0, 0, 123000, UTC)


def row(**columns: Any) -> dict[str, Any]:
    plain = {"key": None, "value": b"v", "topic": "t", "partition": 0, "offset": 0, "timestamp": AT, "timestampType": 0}
    return {**plain, "headers": None, **columns}


ROWS = [
    row(),
    row(key=b"", value=b"\xff\x00\r\n,\"'", offset=1),
    row(key=b"k", value=None, offset=2**40, headers=[{"key": "a", "value": b"\xfe"}, {"key": "b", "value": None}]),
    row(headers=[], partition=2**31 - 1, timestamp=datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
]
EVERY = [(name, compression) for name, known in COMPRESSIONS.items() for compression in known if name != "text"]


def written(name: str, compression: str | None, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> bytes:
    stream = io.BytesIO()
    counting = CountingStream(stream)
    with open_writer(file_format(name, compression), schema, counting) as writer:
        for part in (rows[:1], rows[1:]):
            if part:
                writer.write(pa.RecordBatch.from_pylist(part, schema=schema))
    assert (counting.bytes, counting.tell()) == (len(stream.getvalue()),) * 2
    assert counting.crc32c == crc32c.crc32c(stream.getvalue())
    return stream.getvalue()


def rows_in(name: str, compression: str, data: bytes) -> list[dict[str, Any]]:
    if name in {"json", "csv", "text"} and compression == "gzip":
        data = gzip.decompress(data)
    match name:
        case "parquet":
            return pq.read_table(io.BytesIO(data)).to_pylist()
        case "orc":
            return orc.read_table(io.BytesIO(data)).cast(SCHEMA).to_pylist()
        case "avro":
            return [dict(item) for item in fastavro.reader(io.BytesIO(data)) if isinstance(item, dict)]
        case "json":
            return [json.loads(line) for line in data.splitlines()]
        case _:
            return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize(("name", "compression"), EVERY)
def test_every_format_and_compression(name: str, compression: str) -> None:
    found = rows_in(name, compression, written(name, compression, ROWS))
    if name in {"parquet", "orc", "avro"}:
        assert found == ROWS
        return
    assert [int(each["offset"]) for each in found] == [each["offset"] for each in ROWS]
    if name == "json":
        assert found[2]["headers"] == [{"key": "a", "value": "/g=="}, {"key": "b", "value": None}]
        assert (found[0]["key"], found[0]["value"], found[0]["timestamp"]) == (
            None,
            "dg==",
            "2026-11-20T10:00:00.123000Z",
        )
        assert found[1]["key"] == ""
    else:
        assert json.loads(found[2]["headers"]) == [{"key": "a", "value": "/g=="}, {"key": "b", "value": None}]
        assert found[1]["value"] == "/wANCiwiJw=="


def test_csv_distinguishes_null_and_empty() -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])
    data = written("csv", None, [{"key": None, "value": ""}, {"key": 'a"\n', "value": "b,c"}], schema)
    assert data == b'"key","value"\n,""\n"a""\n","b,c"\n'


VALUE = pa.schema([("value", pa.string())])


def test_text_is_a_line_a_record() -> None:
    rows = [{"value": "a"}, {"value": ""}, {"value": "ü"}]
    assert written("text", None, rows, VALUE).decode() == "a\n\nü\n"
    assert gzip.decompress(written("text", "gzip", rows, VALUE)).decode() == "a\n\nü\n"


@pytest.mark.parametrize(
    ("value", "said"), [(None, "a record without a value"), ("a\nb", "a line break"), ("a\r", "a line break")]
)
def test_text_format_refuses_nulls_and_line_breaks(value: str | None, said: str) -> None:
    with pytest.raises(ReloadError, match=said):
        written("text", None, [{"value": "x"}, {"value": value}], VALUE)


def test_file_suffixes_and_compressions() -> None:
    suffixes = {name: file_format(name, None).suffix for name in COMPRESSIONS}
    assert suffixes == {
        "parquet": ".parquet",
        "orc": ".orc",
        "avro": ".avro",
        "json": ".json",
        "csv": ".csv",
        "text": ".txt",
    }
    assert file_format("json", "gzip").suffix == ".json.gz"
    assert file_format("parquet", "gzip").suffix == ".parquet"
    with pytest.raises(UsageError, match="--compression: orc has snappy, zstd, zlib, lz4, none; not brotli"):
        file_format("orc", "brotli")


def test_avro_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(
        UsageError, match=r"^--format avro needs the package fastavro: run `pip install 'spark-kafka-native\[avro\]'`"
    ):
        file_format("avro", None)


def test_text_of_other_columns_is_refused() -> None:
    with pytest.raises(UsageError, match="only the column value"):
        written("text", None, [], SCHEMA)
