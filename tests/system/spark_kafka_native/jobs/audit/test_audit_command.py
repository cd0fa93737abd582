import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._jobs.audit.command import main
from spark_kafka_native.clients import Producer, ProducerRecord

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000
Audit = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    """A source, and a target that lacks a record, has another value in one and has one more."""
    with (
        EmbeddedBroker(topics={"t": 2, "u": 1}) as source,
        EmbeddedBroker(topics={"m.t": 2, "m.u": 1, "m.v": 1}) as target,
    ):
        records = [
            ProducerRecord("t", b"v%d" % number, b"k%d" % number, number % 2, START_MS + number * HOUR_MS // 10)
            for number in range(40)
        ]
        send(source, [*records, ProducerRecord("u", b"v", b"k", 0, START_MS)])
        copies = [each for number, each in enumerate(records) if number != 10]
        copies[5] = ProducerRecord("t", b"other", b"k5", 1, records[5].timestamp_ms)
        copies += [
            ProducerRecord("t", b"new", b"k", 0, START_MS + 5 * HOUR_MS),
            ProducerRecord("u", b"v", b"k", 0, START_MS),
        ]
        for each in copies:
            each.topic = f"m.{each.topic}"
        send(target, copies)
        yield source, target


def send(broker: EmbeddedBroker, records: Sequence[ProducerRecord]) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for record in records:
            producer.send(
                record.topic, record.value, key=record.key, partition=record.partition, timestamp_ms=record.timestamp_ms
            )


@pytest.fixture
def audit(clusters: tuple[EmbeddedBroker, EmbeddedBroker], capfd: pytest.CaptureFixture[str]) -> Audit:
    source, target = clusters

    def call(*arguments: str) -> tuple[int, str, str]:
        names = "--source-bootstrap-servers", "--target-bootstrap-servers", "--target-prefix"
        values = source.bootstrap_servers, target.bootstrap_servers, "m."
        chosen = [part for pair in zip(names, values, strict=True) if pair[0] not in arguments for part in pair]
        capfd.readouterr()
        status = main([*chosen, *arguments])
        return status, *capfd.readouterr()

    return call


def objects(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.spark
def test_differences_are_counted_shown_and_written(spark: SparkSession, audit: Audit, tmp_path: Path) -> None:
    output = tmp_path / "differences"
    status, printed, _ = audit("--topic-pattern", "^[tu]$", "--json", "--output", str(output))
    assert status == 3
    counts, differences = objects(printed)[:3], objects(printed)[3:]
    same = {"lost": 0, "extra": 0, "different": 0, "reordered": 0}
    assert counts == [
        {**same, "topic": "t", "partition": 0, "source": 20, "target": 20, "lost": 1, "extra": 1},
        {**same, "topic": "t", "partition": 1, "source": 20, "target": 20, "different": 1},
        {**same, "topic": "u", "partition": 0, "source": 1, "target": 1},
    ]
    at = {"topic": "t", "source": None, "target": None}
    assert differences == [
        {**at, "difference": "lost", "source": {"partition": 0, "offset": 5}, "keyBase64": "azEw"},
        {**at, "difference": "extra", "target": {"partition": 0, "offset": 19}, "keyBase64": "aw=="},
        {
            **at,
            "difference": "different",
            "source": {"partition": 1, "offset": 2},
            "target": {"partition": 1, "offset": 2},
            "keyBase64": "azU=",
        },
    ]
    assert spark.read.parquet(str(output)).count() == 3
    status, printed, _ = audit("--topics", "t", "--examples", "0")
    assert (status, printed.splitlines()[-1]) == (3, "3 differences in 40 records of the source")


@pytest.mark.spark
def test_equal_topics_and_ranges_are_reported_as_equal(
    spark: SparkSession, audit: Audit, clusters: tuple[EmbeddedBroker, EmbeddedBroker]
) -> None:
    status, printed, _ = audit("--topics", "u")
    assert (status, printed.splitlines()[-1]) == (0, "no difference in 1 records of the source")
    before = [len(broker.requests("Fetch")) for broker in clusters]
    until = str(START_MS + HOUR_MS // 2)
    status, printed, _ = audit("--topics", "t", "--until", until)
    assert (status, printed.splitlines()[-1]) == (0, "no difference in 5 records of the source")
    after = [len(broker.requests("Fetch")) for broker in clusters]
    assert [end - start for start, end in zip(before, after, strict=True)] == [2, 2], "each partition is read once"


def test_offsets_are_compared_without_reading_records(
    audit: Audit, clusters: tuple[EmbeddedBroker, EmbeddedBroker]
) -> None:
    before = [len(broker.requests("Fetch")) for broker in clusters]
    by_metadata = ("--topics", "t,u", "--by", "metadata")
    status, printed, _ = audit(*by_metadata)
    assert (status, printed.splitlines()[-1]) == (0, "no difference in 41 offsets of the source")
    hours = ("--from", str(START_MS), "--until", str(START_MS + 6 * HOUR_MS), "--bucket", "1h")
    status, printed, _ = audit(*by_metadata, *hours, "--json")
    assert status == 3
    found = objects(printed)
    assert len(found) == 3 * 7
    assert [each for each in found if each["source"] != each["target"]] == [
        {"topic": "t", "partition": 0, "fromTimestamp": START_MS + HOUR_MS, "source": 5, "target": 4},
        {"topic": "t", "partition": 0, "fromTimestamp": START_MS + 5 * HOUR_MS, "source": 0, "target": 1},
    ]
    status, printed, _ = audit(*by_metadata, *hours)
    assert (status, printed.splitlines()[-1]) == (3, "2 differences in 41 offsets of the source")
    assert printed.count("2026-01-01T0") == 2
    status, printed, _ = audit(*by_metadata, "--across-partitions", "--json")
    assert [(each["topic"], each["partition"], each["source"]) for each in objects(printed)] == [
        ("t", None, 40),
        ("u", None, 1),
    ]
    assert [len(broker.requests("Fetch")) for broker in clusters] == before


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        ("--topics nope", 2, "these topics of option --topics do not exist in the cluster at 127.0.0.1:"),
        ("--topic-pattern nope", 1, "--topic-pattern: no topic matches 'nope'"),
        ("--topic-pattern (", 2, "--topic-pattern: "),
        ("--topics t --target-prefix x.", 1, "the target cluster has no topic x.t"),
        ("--topics t --bucket 1h", 2, "--bucket needs --by metadata and --from"),
        ("--topics t --by metadata --from 0 --bucket 1", 2, "buckets of 4 partitions are more than"),
        ("--topics t --by metadata --from 0 --bucket 0", 2, "--bucket: '0' is not greater than 0"),
        ("--topics t --by metadata --from 0 --bucket x", 2, "--bucket: 'x' is not a duration"),
        ("--topics t --by metadata --from earliest --bucket 1h", 2, "--bucket needs times in --from"),
        ("--topics t --by metadata --output d", 2, "--output has no effect with --by metadata"),
        ("--topics t --from yesterday", 2, "--from: "),
        ("--topics t --from 2000 --until 1000", 2, "--until: 1000 ms since 1970 is before --from, 2000"),
        ("--topics t --source-bootstrap-servers nope", 2, "--source-bootstrap-servers: "),
        ("--topics t --source-properties-file {file}", 2, "--source-properties-file: fetch.min.bytes: "),
        ("--topics t --target-properties-file /nope", 1, "--target-properties-file /nope: No such file"),
    ],
)
def test_bad_options_are_named(audit: Audit, tmp_path: Path, arguments: str, status: int, problem: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("fetch.min.bytes=many\n")
    found, printed, error = audit(*arguments.replace("{file}", str(file)).split())
    assert (found, printed, error.count("\n")) == (status, "", 1), error
    assert problem in error
