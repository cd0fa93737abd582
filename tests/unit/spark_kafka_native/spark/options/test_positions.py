"""Positions in options that the JVM connector does not have."""

import pytest

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.offsets import (
    Ago,
    BeforeLatest,
    Committed,
    Earliest,
    GlobalTimestamp,
    Latest,
    NoMatch,
    PartitionTimestamps,
    SpecificOffsets,
)
from spark_kafka_native.spark.options.parsing import Query, SourceOptions, parse_source_options

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
T0 = TopicPartition("t", 0)


def batch(**options: str) -> SourceOptions:
    return parse_source_options(BASE | options, Query.BATCH)


def stream(**options: str) -> SourceOptions:
    return parse_source_options(BASE | options, Query.STREAM)


@pytest.mark.feature("more.lastN")
def test_last_offsets_of_every_partition() -> None:
    assert stream(startingOffsets="latest-100").starting == BeforeLatest(100)
    options = batch(startingOffsets="Latest - 100", endingOffsets="latest-50")
    assert (options.starting, options.ending) == (BeforeLatest(100), BeforeLatest(50))


@pytest.mark.feature("more.relativeTimes")
def test_timestamps_in_options() -> None:
    assert stream(startingTimestamp="-10m").starting == GlobalTimestamp(
        timestamp_ms=Ago(duration_ms=600_000), no_match=NoMatch.ERROR
    )
    options = batch(startingTimestamp="2026-11-20T10:00:00+01:00", endingTimestamp="-2 hours")
    assert options.starting == GlobalTimestamp(timestamp_ms=1_795_165_200_000, no_match=NoMatch.ERROR)
    assert options.ending == GlobalTimestamp(timestamp_ms=Ago(duration_ms=7_200_000), no_match=NoMatch.LATEST)


@pytest.mark.feature("more.partialOffsets")
def test_offsets_default_applies_to_unnamed_partitions() -> None:
    assert stream(startingOffsets='{"t":{"0":5}}', startingOffsetsDefault="latest").starting == SpecificOffsets(
        offsets={T0: 5}, default=-1
    )
    options = batch(
        startingOffsetsByTimestamp='{"t":{"0":5}}',
        startingOffsetsDefault="latest-3",
        endingOffsets='{"u":"latest"}',
        endingOffsetsDefault="latest-1",
    )
    assert options.starting == PartitionTimestamps(timestamps={T0: 5}, no_match=NoMatch.ERROR, default=BeforeLatest(3))
    assert options.ending == SpecificOffsets(topics={"u": -1}, default=BeforeLatest(1))


@pytest.mark.feature("more.startCommitted", "source.groupId")
def test_starts_at_committed_offsets() -> None:
    group = {"startingOffsets": "Committed", "kafka.group.id": "g"}
    assert stream(**group).starting == Committed(group_id="g", otherwise=Latest())
    assert batch(**group).starting == Committed(group_id="g", otherwise=Earliest())
    otherwise = batch(**group, startingOffsetsWithoutCommit="latest-5").starting
    assert otherwise == Committed(group_id="g", otherwise=BeforeLatest(5))
    # A time goes before offsets, wherever these come from.
    assert stream(**group, startingTimestamp="5").starting == GlobalTimestamp(timestamp_ms=5, no_match=NoMatch.ERROR)
    assert "group_id" not in {name.replace(".", "_") for name in stream(**group).client.given}
