"""``pykafka lag``."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.__main__ import main
from spark_kafka_native._tools.groups import lag as lag_module
from tests.support.clients.topics import Topics
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.tools import Tool, ToolResult, calling


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    """A topic with six records, of which the group of its name has read four, and an empty partition."""
    on_broker("kafka-topics", "--create", "--topic", name, "--replica-assignment", "1,1")
    on_broker("kafka-console-producer", "--topic", name, stdin=b"1\n2\n3\n4\n5\n6\n")
    on_broker("kafka-console-consumer", "--topic", name, "--from-beginning", "--group", name, "--max-messages", "4")
    return name


@pytest.fixture
def lag(any_broker: AnyBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    tool = calling(main, capfd, monkeypatch)

    def call(*arguments: str) -> ToolResult:
        return tool("lag", "--bootstrap-server", any_broker.bootstrap_servers, *arguments)

    return call


def write_checkpoint(directory: Path, *sources: str, batch: int = 10, committed: int = 10, version: str = "v1") -> Path:
    """As Spark writes one: two lines, and one for each source."""
    for folder in ("offsets", "commits"):
        (directory / folder).mkdir(parents=True)
    (directory / "commits" / f".{committed}.crc").touch()
    (directory / "commits" / str(committed)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for number in range(min(batch, committed) - 1, batch + 1):
        lines = [version, '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}', *sources]
        text = "\n".join(lines) if number == committed else "v1\n{}\n-"
        (directory / "offsets" / str(number)).write_text(text)
    return directory


def test_lag_of_a_group(lag: Tool, topic: str) -> None:
    title, *rows = [line.split() for line in lag("--group", topic).lines if line]
    assert title == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert sorted(row[3:] for row in rows) == [["0", "0", "0"], ["4", "6", "2"]]


def test_the_age_is_that_of_the_next_record(
    lag: Tool, any_broker: AnyBroker, new_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = new_topic(2)
    two_hours_ago, an_hour_ago = (int(time.time() * 1000) - hours * 3_600_000 for hours in (2, 1))
    with Topics(any_broker.bootstrap_servers) as topics:
        topics.write(topic, ["a", "b"], timestamps=[two_hours_ago, an_hour_ago])
    checkpoint = write_checkpoint(tmp_path / "c", json.dumps({topic: {"0": 1, "1": 0}}))
    title, *rows = [line.split() for line in lag("--checkpoint", str(checkpoint), "--age").lines if line]
    assert (title[-2:], [row[1:6] for row in rows]) == (["AGE", "(S)"], [[topic, "0", "1", "2", "1"], [topic, *"1000"]])
    assert (3600 <= int(rows[0][6]) < 7200, rows[1][6]) == (True, "-")


def test_status_3_is_that_of_too_much_lag(lag: Tool, topic: str) -> None:
    assert lag("--group", topic, "--max-lag", "2").status == 0
    assert lag("--group", topic, "--max-lag", "1").status == 3


def test_the_lag_is_printed_again_until_it_is_too_much(
    lag: Tool, on_broker: Tool, any_broker: AnyBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = on_broker("kafka-get-offsets", "--topic", topic, "--json").lines
    (number,) = [each["partition"] for each in map(json.loads, offsets) if each["offset"] == 6]

    def write(_: float) -> None:
        with Topics(any_broker.bootstrap_servers) as topics:
            topics.write(topic, ["7", "8", "9", "10"], partition=[number] * 4)

    monkeypatch.setattr(lag_module, "time", SimpleNamespace(sleep=write, time=time.time))
    response = lag("--group", topic, "--max-lag", "5", "--interval", "1", "--json")
    lags = [each["lag"] for each in map(json.loads, response.lines) if each["partition"] == number]
    assert (response.status, lags) == (3, [2, 6]), response.err


def test_lag_of_queries(lag: Tool, topic: str, tmp_path: Path) -> None:
    stored = json.dumps({topic: {"0": 1, "1": 1}})
    first = write_checkpoint(tmp_path / "first", "-", '{"logOffset":3}', stored, "0", batch=11)
    named = ("rates:3", *(f"visits:{json.dumps({topic: {'0': offset}})}" for offset in (6, 2, 5)), "new:-")
    second = write_checkpoint(tmp_path / "second", *named, version="v2")
    response = lag("--checkpoint", f"file:{first}", "--checkpoint", str(second), "--age", "--json")
    assert response.status == 0, response.err
    found = [json.loads(line) for line in response.lines]
    assert [each["checkpoint"] for each in found] == [f"file:{first}"] * 2 + [str(second)]
    full = next(each for each in found if each["logEndOffset"] == 6 and each["currentOffset"] == 1)
    assert (full["topic"], full["lag"], full["ageSeconds"] is None) == (topic, 5, False)
    assert found[2]["currentOffset"] == 2, "the lowest of the three sources"
    (empty,) = [each for each in found if each["logEndOffset"] == 0 and each["currentOffset"] == 1]
    assert (empty["lag"], empty["ageSeconds"]) == (None, None)
    number = empty["partition"]
    assert f"file:{first}: {topic}-{number} ends at 0, before offset 1: was its topic recreated?" in response.err


def test_records_that_were_deleted_before_they_were_read_are_named(
    lag: Tool, on_broker: Tool, topic: str, tmp_path: Path
) -> None:
    offsets = [json.loads(line) for line in on_broker("kafka-get-offsets", "--topic", topic, "--json").lines]
    (number,) = [each["partition"] for each in offsets if each["offset"] == 6]
    file = tmp_path / "offsets.json"
    for before, left in ((5, True), (6, False)):
        file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": number, "offset": before}]}))
        assert on_broker("kafka-delete-records", "--offset-json-file", str(file)).status == 0
        response = lag("--group", topic, "--age", "--json")
        assert (
            f"{topic}: {topic}-{number}: offsets 4 to {before - 1} were deleted before they were read" in response.err
        )
        (unread,) = [each for each in map(json.loads, response.lines) if each["partition"] == number]
        assert (unread["lag"], unread["ageSeconds"] is not None) == (2, left)


def test_partitions_that_do_not_exist_have_no_lag(lag: Tool, topic: str, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "c", json.dumps({topic: {"0": 0}, "deleted": {"0": 5}}))
    response = lag("--checkpoint", str(checkpoint), "--json")
    assert f"{checkpoint}: deleted-0 does not exist, or has no leader" in response.err
    (deleted,) = [each for each in map(json.loads, response.lines) if each["topic"] == "deleted"]
    assert (response.status, deleted["logEndOffset"], deleted["lag"]) == (0, None, None)
    assert lag("--checkpoint", str(checkpoint), "--max-lag", "1000").status == 3, "the lag is unknown"


def test_a_partition_that_cannot_be_read_has_a_lag_and_no_age(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = calling(main, capfd, monkeypatch)
    checkpoint = write_checkpoint(tmp_path / "c", json.dumps({"t": {"0": 0, "1": 0}}))
    with EmbeddedBroker(tmp_path / "data", topics={"t": 2}) as broker:
        with Topics(broker.bootstrap_servers) as topics:
            topics.write("t", ["a", "b"], partition=[0, 1])
        log = tmp_path / "data" / "t-0" / "00000000000000000000.log"
        damaged = bytearray(log.read_bytes())
        damaged[-2] ^= 1
        log.write_bytes(damaged)
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        response = command("lag", *servers, "--checkpoint", str(checkpoint), "--age", "--json")
    found = {each["partition"]: each for each in map(json.loads, response.lines)}
    assert (response.status, f"{checkpoint}: no age: t-0: " in response.err) == (0, True), response.err
    assert (found[0]["lag"], found[0]["ageSeconds"], found[1]["ageSeconds"] is None) == (1, None, False)


def test_ages_of_many_partitions_take_few_requests(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = calling(main, capfd, monkeypatch)
    checkpoint = write_checkpoint(tmp_path / "c", json.dumps({"t": {str(number): 0 for number in range(500)}}))
    with EmbeddedBroker(topics={"t": 500}) as broker:
        with Topics(broker.bootstrap_servers) as topics:
            topics.write("t", ["a"] * 500, partition=range(500))
        before = fetches(broker)
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        response = command("lag", *servers, "--checkpoint", str(checkpoint), "--age", "--json")
        assert fetches(broker) - before < 20
    assert [json.loads(line)["ageSeconds"] is None for line in response.lines] == [False] * 500


def fetches(broker: EmbeddedBroker) -> int:
    """How many Fetch requests the broker has answered."""
    return len(broker.requests("Fetch"))


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://key:geheim@127.0.0.1:1/x", "s3://...@127.0.0.1:1/x"),
        ("s3a://key:geheim@[/x", "s3a://...@[/x"),
        ("s3://key:+/geheim@[/x", "s3://...@[/x"),
        ("s3://key:1/geheim@[/x", "s3://...@[/x"),
        ("s3://key/geheim:x@[/x", "s3://...@[/x"),
        ("s3://key:1@geheim@[/x", "s3://...@[/x"),
        ("abfs://:geheim/2@[/x", "abfs://...@[/x"),
        ("s3://key:gehe?im@127.0.0.1:1/x", "s3://...@127.0.0.1:1/x"),
        ("s3://key:geheim?x@[/x", "s3://...@[/x"),
        ("abfs://:geheim?2@[/x", "abfs://...@[/x"),
        ("s3://key:geheim@[/x?token=geheim-prod-2024", "s3://...@[/x?..."),
        ("s3://s3@[/x", "s3://...@[/x"),
        ("s3://key:geheim-12345\r@bucket/x", "s3://...@bucket/x"),
        ("abfs://:geheim-12345\r\n@bucket/x", "abfs://...@bucket/x"),
        ("s3://b/x?secret=geheim-12345\r", "s3://b/x?..."),
        ("s3a:/key:geheim-1@b/x", "s3a:/...@b/x"),
        ("s3://b/x?ge%68eim1", "s3://b/x?..."),
        ("abfs://acc:Z2VoZWlt@127.0.0.1:1/c/x?enable_tls=false", "abfs://...@127.0.0.1:1/c/x?..."),
        ("abfs://c@account?client_secret=geheim", "abfs://c@account?..."),
        ("nope://geheim@a/b", "nope://...@a/b"),
        ("nope://bucket/a@b", "nope://bucket/a@b"),
        ("hdfs://[:8020/a@b", "hdfs://[:8020/a@b"),
        ("file:///no/such:day/a@b", "file:///no/such:day/a@b"),
    ],
)
def test_credentials_in_a_url_are_not_printed(lag: Tool, location: str, shown: str) -> None:
    response = lag("--checkpoint", location)
    assert (response.status, re.findall("gehe|Z2Vo|2024", response.err)) == (1, [])
    assert f"--checkpoint {shown}: " in response.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "one of --group, --checkpoint is required"),
        (("--group", "g", "--checkpoint", "c"), 2, "--group and --checkpoint cannot be used together"),
        (("--group", "no-such-group"), 1, "--group no-such-group: the group has no committed offsets"),
        (("--checkpoint", "{}/none"), 1, "--checkpoint {}/none: there is no such directory"),
        (
            ("--checkpoint", "{}"),
            1,
            "--checkpoint {}: not the checkpoint of a streaming query: it has no directory commits",
        ),
        (("--checkpoint", "{}/file"), 1, "--checkpoint {0}/file: Cannot list directory '{0}/file/commits'"),
        (("--checkpoint", "dbfs:/ck"), 1, "--checkpoint dbfs:/ck: Unrecognized filesystem type in URI: dbfs:/ck"),
        (
            ("--checkpoint", "gs://anonymous@b/c?endpoint_override=127.0.0.1:1&scheme=http&retry_limit_seconds=1"),
            1,
            "--checkpoint gs://...@b/c?...: google::cloud::Status(UNAVAILABLE: ",
        ),
        (("--checkpoint", "{}/new"), 1, "--checkpoint {}/new: the query has no completed batch"),
        (("--checkpoint", "{}/other"), 1, "--checkpoint {}/other: batch 10 has no offsets of a Kafka source"),
        (("--checkpoint", "{}/newer"), 1, "--checkpoint {}/newer: the version of its offsets is 'v3', not v1 or v2"),
        (
            ("--checkpoint", "{}/lost"),
            1,
            "--checkpoint {}/lost: the file offsets/10 is missing, and commits/10 is there",
        ),
        (("--checkpoint", "{}/binary"), 1, "--checkpoint {}/binary: "),
        (("--checkpoint", "no-such-scheme://a/b"), 1, "--checkpoint no-such-scheme://a/b: "),
        (("--group", "g", "--interval", "0"), 2, "Invalid value for '--interval'"),
        (("--group", "g", "--interval", "inf"), 2, "Invalid value for '--interval'"),
        (("--checkpoint", "{}/cut"), 1, "--checkpoint {}/cut: a line of its offsets is damaged: '{{\"t\":'"),
        (("--checkpoint", "{}/deep"), 1, "--checkpoint {}/deep: batch 10 has no offsets of a Kafka source"),
    ],
)
def test_errors(lag: Tool, tmp_path: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    (tmp_path / "new" / "commits").mkdir(parents=True)
    (tmp_path / "file").touch()
    write_checkpoint(tmp_path / "other", '{"logOffset":3}', "7")
    write_checkpoint(tmp_path / "cut", '{"t":')
    write_checkpoint(tmp_path / "deep", "[" * 200_000)
    write_checkpoint(tmp_path / "newer", '{"t":{"0":1}}', version="v3")
    (write_checkpoint(tmp_path / "lost", "-") / "offsets" / "10").unlink()
    (write_checkpoint(tmp_path / "binary", "-") / "offsets" / "10").write_bytes(b"v1\n{}\n\xff")
    response = lag(*(each.format(tmp_path) for each in arguments))
    assert (response.status, response.out) == (status, "")
    assert f"pykafka lag: {said.format(tmp_path)}" in response.err
