import json
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.kafka_0_7 import encode_message, encode_messages
from spark_kafka_native._tools import import_log
from tests.support.tools import Tool

COMPRESSED = encode_messages([b"x", b"\xff\x00"], codec=CompressionType.GZIP)


@pytest.fixture
def log(tmp_path: Path, name: str) -> Path:
    """A log.dir with two partitions."""
    for partition in (0, 1):
        directory = tmp_path / f"{name}-{partition}"
        directory.mkdir()
        first = encode_messages([b"%d-%d" % (partition, number) for number in range(3)])
        (directory / f"{100:020d}.kafka").write_bytes(first)
        (directory / f"{100 + len(first):020d}.kafka").write_bytes(COMPRESSED + encode_message(b"cut off")[:-1])
    return tmp_path


def values(on_broker: Tool, name: str, partition: int, expected: int) -> list[str]:
    read = on_broker(
        "kafka-console-consumer", "--topic", name, "--partition", str(partition), "--from-beginning", "--json",
        "--max-messages", str(expected),
    )  # fmt: skip
    assert read.status == 0
    return [record.get("value") or record["valueBase64"] for record in map(json.loads, read.lines)]


def test_partitions_are_imported(on_broker: Tool, name: str, log: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "3").status == 0
    tried = on_broker("kafka-import-log", "--log", str(log), "--dry-run")
    assert (tried.status, on_broker("kafka-get-offsets", "--topic", name).lines) == (
        0,
        [f"{name}:0:0", f"{name}:1:0", f"{name}:2:0"],
    )
    done = on_broker("kafka-import-log", "--log", str(log), "--json")
    assert done.status == 0
    end = 100 + 3 * 13 + len(COMPRESSED)
    assert [json.loads(line) for line in done.lines] == [
        {
            "log": f"{name}-{partition}",
            "topic": name,
            "partition": partition,
            "fromOffset": 100,
            "nextOffset": end,
            "records": 5,
        }
        for partition in (0, 1)
    ]
    assert tried.lines[1:] == on_broker("kafka-import-log", "--log", str(log), "--dry-run").lines[1:]
    assert str(end) in tried.lines[2]
    for partition in (0, 1):
        assert values(on_broker, name, partition, 5) == [*(f"{partition}-{each}" for each in "012"), "x", "/wA="]
    assert sum("the log ends before it" in text for text in caplog.messages) == 6


def test_an_import_continues_at_its_next_offset(on_broker: Tool, name: str, log: Path) -> None:
    other = f"{name}-of-2012"
    assert on_broker("kafka-topics", "--create", "--topic", other, "--partitions", "2").status == 0
    arguments = ("--log", str(log / f"{name}-1"), "--topic", other, "--from-offset")
    assert on_broker("kafka-import-log", *arguments, "126").status == 0
    assert values(on_broker, other, 1, 3) == ["1-2", "x", "/wA="]
    end = str(100 + 39 + len(COMPRESSED))
    assert on_broker("kafka-import-log", *arguments, end).lines[-1].split()[-2:] == [end, "0"]
    for offset, problem in (
        ("127", "--from-offset: no message begins at 127; the next one begins at 139"),
        ("99", "--from-offset: 99 is not an offset of the log, which has 100 to "),
        ("99999", "--from-offset: 99999 is not an offset of the log, which has "),
    ):
        refused = on_broker("kafka-import-log", *arguments, offset)
        assert (refused.status, problem in refused.err) == (2, True), refused.err
    assert on_broker("kafka-get-offsets", "--topic", other).lines == [f"{other}:0:0", f"{other}:1:3"]


def test_records_before_an_error_are_reported(on_broker: Tool, name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}-0").mkdir()
    whole = encode_message(b"whole")
    (tmp_path / f"{name}-0" / "0.kafka").write_bytes(whole)
    (tmp_path / f"{name}-0" / "15.kafka").write_bytes(whole[:-1] + b"?" + whole)
    on_broker("kafka-topics", "--create", "--topic", name)
    failed = on_broker("kafka-import-log", "--log", str(tmp_path))
    assert failed.status == 1
    assert "kafka-import-log: --log: the message has checksum " in failed.err
    assert f"{name}-0/15.kafka, position 0, base offset 15)" in failed.err


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (("--log", "{log}"), 1, "has 1 partitions, and the log has partition 1; create the topic with as many"),
        (("--log", "{log}", "--from-offset", "100"), 2, "--from-offset: --log has 2 partitions, not one"),
        (("--log", "{log}/nothing"), 1, "nothing: there is no such file or directory"),
    ],
)
def test_what_cannot_be_imported_is_refused_before_the_first_record(
    on_broker: Tool, name: str, log: Path, arguments: tuple[str, ...], status: int, problem: str
) -> None:
    on_broker("kafka-topics", "--create", "--topic", name)
    refused = on_broker("kafka-import-log", *(each.replace("{log}", str(log)) for each in arguments))
    assert (refused.status, problem in refused.err) == (status, True), refused.err
    assert on_broker("kafka-get-offsets", "--topic", name).lines == [f"{name}:0:0"]


def test_logs_of_several_topics_do_not_become_one(on_broker: Tool, tmp_path: Path) -> None:
    for directory in ("a-0", "b-0"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "0.kafka").write_bytes(encode_message(b"x"))
    refused = on_broker("kafka-import-log", "--log", str(tmp_path), "--topic", "c")
    assert (refused.status, "--topic: --log has logs of several topics" in refused.err) == (2, True)


def test_messages_are_flushed_while_a_log_is_read(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_log, "_FLUSH_BYTES", 1)
    (tmp_path / "t-0").mkdir()
    whole = encode_message(b"whole")
    (tmp_path / "t-0" / "0.kafka").write_bytes(whole)
    (tmp_path / "t-0" / "15.kafka").write_bytes(whole + encode_message(b"y" * 2_000_000))
    with EmbeddedBroker(topics={"t": 1}) as broker:
        done = tool("kafka-import-log", "--bootstrap-server", broker.bootstrap_servers, "--log", str(tmp_path))
        assert done.status == 1
        assert "the message at offset 30 of t-0 takes 2000" in done.err
        assert done.lines[-1].split() == ["t-0", "t", "0", "0", "15", "1"]
