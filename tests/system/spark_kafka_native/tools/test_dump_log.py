from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.system.spark_kafka_native.tools.conftest import Tool

LOG = "t-0/00000000000000000000.log"


def written(tool: Tool, data_dir: Path, *, as_version: str = "4.3", **configs: str) -> Path:
    """The segment of a topic with two batches of a record each."""
    with EmbeddedBroker(data_dir, settings={"as.version": as_version}) as broker:
        broker.create_topic("t", configs=configs)
        for line in (b"k1\tv1\n", b"k2\tv2\n"):
            servers = ("--bootstrap-server", broker.bootstrap_servers)
            keyed = ("--property", "parse.key=true", "--producer-property", "enable.idempotence=false")
            assert tool("kafka-console-producer", *servers, "--topic", "t", *keyed, stdin=line).status == 0
    return data_dir / LOG


def test_batches_and_records(tool: Tool, tmp_path: Path) -> None:
    log = written(tool, tmp_path)
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log")
    first, start, *lines = dumped.lines
    assert (dumped.status, first, start) == (0, f"Dumping {log}", "Log starting offset: 0")
    batches, records = lines[::2], lines[1::2]
    assert [line.split(" count: ")[0] for line in batches] == [
        "baseOffset: 0 lastOffset: 0",
        "baseOffset: 1 lastOffset: 1",
    ]
    assert all(line.endswith("isvalid: true") for line in batches)
    assert [line.split(" headerKeys: ")[1] for line in records] == ["[] key: k1 payload: v1", "[] key: k2 payload: v2"]
    assert tool("kafka-dump-log", "--files", str(log)).lines == [first, start, *batches]
    deep = tool("kafka-dump-log", "--files", str(log), "--deep-iteration").lines
    assert deep == [first, start, *(line.split(" key: ")[0] for line in lines)]
    short = tool("kafka-dump-log", "--files", str(log), "--print-data-log", "--skip-record-metadata").lines
    assert short[3::2] == ["| key: k1 payload: v1", "| key: k2 payload: v2"]


def test_messages_of_format_v1(tool: Tool, tmp_path: Path) -> None:
    log = written(tool, tmp_path, as_version="2.8", **{"message.format.version": "0.10.2"})
    lines = tool("kafka-dump-log", "--files", str(log), "--print-data-log").lines
    assert lines[2].startswith("offset: 0 position: 0 CreateTime: ")
    assert " magic: 1 compresscodec: none crc: " in lines[2]
    assert lines[2].endswith("isvalid: true")
    assert lines[3].startswith("| offset: 0 CreateTime: ")
    assert lines[3].endswith(" keySize: 2 valueSize: 2 key: k1 payload: v1")


def test_a_batch_with_a_wrong_crc_and_one_that_is_cut_off(tool: Tool, tmp_path: Path) -> None:
    log = written(tool, tmp_path)
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2 - 2] ^= 1  # within the value of the first record
    log.write_bytes(raw[:-3])
    dumped = tool("kafka-dump-log", "--files", str(log))
    batch, end = dumped.lines[2:]
    assert batch.endswith("isvalid: false")
    assert end == f"Found {len(raw) // 2 - 3} invalid bytes at the end of {log.name}"
    assert (dumped.status, str(log) in dumped.err) == (0, True)


def test_entries_of_indexes(tool: Tool, tmp_path: Path) -> None:
    log = written(tool, tmp_path, **{"index.interval.bytes": "1"})
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    with index.open("ab") as file:
        file.write(bytes(16))  # a broker that was killed leaves it so
    size = log.stat().st_size // 2
    dumped = tool("kafka-dump-log", "--files", f"{index},{times}").lines
    assert dumped[:3] == [f"Dumping {index}", f"offset: 1 position: {size}", f"Dumping {times}"]
    assert [line.split(" offset: ")[1] for line in dumped[3:]] == ["1"]
    index.write_bytes(b"")
    assert tool("kafka-dump-log", "--files", str(index)).lines[1:] == [f"{index} is empty."]


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("leader-epoch-checkpoint", 0, "Ignoring unknown file"),
        ("00000000000000000000.log", 1, "00000000000000000000.log"),
        ("first.log", 2, "--files: first.log does not begin with an offset"),
    ],
)
def test_files_that_cannot_be_dumped(tool: Tool, tmp_path: Path, name: str, status: int, words: str) -> None:
    dumped = tool("kafka-dump-log", "--files", str(tmp_path / name))
    assert (dumped.status, words in dumped.err) == (status, True)
