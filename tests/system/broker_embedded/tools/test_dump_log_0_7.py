import json
from pathlib import Path

import pytest

from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.kafka_0_7 import encode_message, encode_messages
from tests.support.tools import Tool

COMPRESSED = encode_messages([b"b", b"\xff"], codec=CompressionType.GZIP)
CRC_OF_A = 0xE8B7BE43
"""CRC-32 of the letter a."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000100.kafka"
    path.write_bytes(encode_message(b"a", magic=0) + COMPRESSED)
    return path


def test_entries_and_messages(tool: Tool, log: Path) -> None:
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log")
    assert (dumped.status, dumped.err) == (0, "")
    title, start, first, message, second, *inside = dumped.lines
    assert (title, start) == (f"Dumping {log}", "Log starting offset: 100")
    assert first == f"offset: 100 position: 0 payloadsize: 1 magic: 0 compresscodec: none crc: {CRC_OF_A} isvalid: true"
    assert message == "| offset: 100 index: 0 valueSize: 1 payload: a"
    size = len(COMPRESSED) - 10
    assert second.startswith(f"offset: 110 position: 10 payloadsize: {size} magic: 1 compresscodec: gzip crc: ")
    assert inside == [
        "| offset: 110 index: 0 valueSize: 1 payload: b",
        "| offset: 110 index: 1 valueSize: 1 payload: \ufffd",
    ]
    assert tool("kafka-dump-log", "--files", str(log)).lines == [title, start, first, second]
    deep = tool("kafka-dump-log", "--files", str(log), "--deep-iteration").lines
    assert deep == [line.partition(" payload: ")[0] for line in dumped.lines]
    assert tool("kafka-dump-log", "--files", str(log), "--max-bytes", "15").lines == [title, start, first]


def test_json(tool: Tool, log: Path) -> None:
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log", "--json")
    batch, record, *_, last = [json.loads(line) for line in dumped.lines]
    assert (batch["type"], batch["offset"], batch["isvalid"]) == ("batch", 100, True)
    assert record == {
        "file": str(log), "type": "record", "offset": 100, "index": 0, "valueSize": 1, "key": None, "payload": "a"
    }  # fmt: skip
    assert (last["payloadBase64"], last["index"]) == ("/w==", 1)


@pytest.mark.parametrize(
    ("content", "status", "shown", "problem"),
    [
        (b"", 0, [], ""),
        (encode_message(b"a")[:-1], 0, ["Found 10 invalid bytes at the end of 0.kafka"], "is cut off after 10"),
        (b"\x00\x00\x00\x05\x07", 1, ["Found 5 invalid bytes at the end of 0.kafka"], "unknown magic 7"),
    ],
)
def test_bytes_that_are_no_entry(
    tool: Tool, tmp_path: Path, content: bytes, status: int, shown: list[str], problem: str
) -> None:
    (tmp_path / "0.kafka").write_bytes(content)
    dumped = tool("kafka-dump-log", "--files", str(tmp_path / "0.kafka"))
    assert (dumped.status, dumped.lines[2:]) == (status, shown)
    assert problem in dumped.err
    assert ("0.kafka, position 0, base offset 0)" in dumped.err) == bool(problem)


def test_a_wrong_checksum_is_reported_and_the_next_entry_read(tool: Tool, tmp_path: Path) -> None:
    whole = encode_message(b"a")
    (tmp_path / "0.kafka").write_bytes(whole[:-1] + b"?" + whole)
    dumped = tool("kafka-dump-log", "--files", str(tmp_path / "0.kafka"), "--deep-iteration")
    assert dumped.status == 1
    assert [line.rpartition(": ")[2] for line in dumped.lines[2:]] == ["false", "true", "1"]
    assert "the message has checksum" in dumped.err
