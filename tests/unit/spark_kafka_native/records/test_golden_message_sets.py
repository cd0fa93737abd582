"""Message sets that Apache Kafka's classes wrote and converted."""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._records.batch import CompressionType, TimestampType
from spark_kafka_native._records.conversion import convert_down
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import OVERHEADS, read_message, read_messages
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.records.message_sets import messages_in

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "message_sets.json").read_text(encoding="utf-8")
)
WRITTEN = [golden for golden in GOLDEN if golden["made"] == "written"]
CONVERTED = [golden for golden in GOLDEN if golden["made"] == "converted"]
APPENDED = 1_700_000_099_000
RECORDS = [
    LogRecord(100, 1_700_000_000_000, b"key", b"value"),
    LogRecord(101, 1_700_000_000_007, None, b""),
    LogRecord(102, 1_699_999_999_999, b"", None),
    LogRecord(103, 1_700_000_060_000, bytes(3), b"abcdefgh" * 20),
]
WANTED = 102
"""The first offset of the conversions: uncompressed records before it are left out."""


def name(golden: dict[str, Any]) -> str:
    stamped = ", LogAppendTime" if golden["log_append_time"] else ""
    return f"v{golden['magic']}, codec {golden['codec']}{stamped}"


def expected(golden: dict[str, Any]) -> list[LogRecord]:
    """The records as the format has them: v0 without time, LogAppendTime the same for all."""
    time = APPENDED if golden["log_append_time"] else None
    time = time if golden["magic"] else -1
    return [record if time is None else record._replace(timestamp=time) for record in RECORDS]


@pytest.mark.parametrize("golden", WRITTEN, ids=name)
def test_kafkas_message_sets_are_read(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["bytes"])
    assert messages_in(raw) == expected(golden)
    headers = [header for _, header in iter_any(raw)]
    assert {header.compression for header in headers} == {CompressionType(golden["codec"])}
    wanted = TimestampType.LOG_APPEND_TIME if golden["log_append_time"] else TimestampType.CREATE_TIME
    assert {header.timestamp_type for header in headers} == {
        wanted if golden["magic"] else TimestampType.NO_TIMESTAMP_TYPE
    }
    assert headers[-1].max_timestamp == max(record.timestamp for record in expected(golden))


def lz4_header(raw: bytes) -> bytes:
    """The magic number, descriptor and checksum of the frame in a wrapper without a key."""
    value_at = 12 + OVERHEADS[read_message(raw).magic]
    return raw[value_at : value_at + 7]


def decompressed(raw: bytes) -> list[bytes]:
    """What two writers have in common though they compress differently: everything but the compressed bytes."""
    found = []
    for position, header in iter_any(raw):
        if header.compression:
            fields = header._replace(batch_length=0, crc=0)
            inner = read_messages(raw, position, header)
            found.append(repr((fields, inner)).encode())
        else:
            found.append(raw[position : position + header.size_in_bytes])
    return found


@pytest.mark.parametrize("golden", WRITTEN, ids=name)
def test_the_same_is_written(golden: dict[str, Any]) -> None:
    ours = write_message_set(
        expected(golden),
        magic=golden["magic"],
        compression=CompressionType(golden["codec"]),
        timestamp_type=TimestampType.LOG_APPEND_TIME if golden["log_append_time"] else TimestampType.CREATE_TIME,
    )
    theirs = bytes.fromhex(golden["bytes"])
    assert decompressed(bytes(ours)) == decompressed(theirs)
    if golden["codec"] == CompressionType.LZ4:
        assert lz4_header(bytes(ours)) == lz4_header(theirs)


@pytest.mark.parametrize("golden", CONVERTED, ids=lambda golden: f"{name(golden)} from {golden['from'][32:34]}")
def test_the_same_comes_of_converting_down(golden: dict[str, Any]) -> None:
    source = bytes.fromhex(golden["from"])
    converted = b"".join(
        convert_down(memoryview(source), position, header, magic=golden["magic"], from_offset=WANTED)
        for position, header in iter_any(source)
    )
    assert decompressed(converted) == decompressed(bytes.fromhex(golden["bytes"]))
    offsets = [message.offset for message in messages_in(converted)]
    assert offsets == ([100, 101, 102, 103] if golden["codec"] else [102, 103])


def test_the_lz4_header_differs_between_the_formats() -> None:
    headers = {
        golden["magic"]: lz4_header(bytes.fromhex(golden["bytes"]))
        for golden in WRITTEN
        if golden["codec"] == CompressionType.LZ4
    }
    assert headers == {0: bytes.fromhex("04224d1860401a"), 1: bytes.fromhex("04224d18604082")}
