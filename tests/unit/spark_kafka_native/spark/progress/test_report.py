"""Spark's progress -> reports; the numbers are those of the JVM connector's own suite."""

import json
from typing import Any

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.progress.report import (
    BYTES_OBSERVATION,
    Lag,
    QueryReport,
    count_bytes,
    lag_of,
    report_of,
)

P = [TopicPartition("t", partition) for partition in range(3)]


def source(reached: object, known: object, *, rows: int = 0, rate: object = 0.0) -> dict[str, Any]:
    found = {"description": "PythonMicroBatchStream@1", "endOffset": reached, "latestOffset": known}
    return found | {"numInputRows": rows, "processedRowsPerSecond": rate}


def report(*sources: dict[str, Any], **more: object) -> QueryReport:
    found = {"id": "q", "runId": "r", "name": "copy", "batchId": 7, "timestamp": "2026-01-01T00:00:00.000Z"}
    return report_of(json.dumps(found | {"durationMs": {"triggerExecution": 500}, "sources": sources} | more))


@pytest.mark.feature("run.metrics")
def test_custom_metrics_corner_cases() -> None:
    lag = lag_of({P[0]: 1, P[1]: 2}, {P[0]: 3, P[1]: 6})
    assert lag == Lag(min_offsets=2, max_offsets=4, avg_offsets=3.0, total_offsets=6, partitions=2)
    assert lag_of({P[0]: 1}, {}) is None
    uneven = lag_of({}, {P[0]: 1, P[1]: 1, P[2]: 2, TopicPartition("u", 0): 1})
    assert uneven is not None
    assert uneven.avg_offsets == 1.25


def test_lag_of_an_unread_partition_counts_from_offset_0() -> None:
    assert lag_of({}, {P[0]: 5}) == Lag(min_offsets=5, max_offsets=5, avg_offsets=5.0, total_offsets=5, partitions=1)
    assert lag_of({P[0]: 9}, {P[0]: 5}) == Lag(
        min_offsets=0, max_offsets=0, avg_offsets=0.0, total_offsets=0, partitions=1
    )


@pytest.mark.feature("more.listener")
def test_report_has_rows_rate_and_lag() -> None:
    found = report(source({"t": {"0": 4, "1": 1}}, {"t": {"0": 9, "1": 1}}, rows=12, rate=24.0))
    assert (found.query_id, found.run_id, found.name, found.batch_id) == ("q", "r", "copy", 7)
    assert (found.rows, found.rows_per_s, found.trigger_ms) == (12, 24.0, 500)
    assert found.lag == Lag(min_offsets=0, max_offsets=5, avg_offsets=2.5, total_offsets=5, partitions=2)
    assert found.size_bytes is None
    assert found.bytes_per_s is None


def test_report_sums_sources_and_other_sources_have_no_lag() -> None:
    other_topic = source({"u": {"0": 1}}, {"u": {"0": 3}}, rows=2, rate=1.5)
    rate_source = source(41, 42, rows=5, rate="NaN")
    files = source('{"logOffset":3}', '{"logOffset":4}', rows=1)
    found = report(source('{"t":{"0":4}}', '{"t":{"0":5}}'), other_topic, rate_source, files)
    assert found.lag == Lag(min_offsets=1, max_offsets=2, avg_offsets=1.5, total_offsets=3, partitions=2)
    assert found.rows == 8
    assert found.rows_per_s == 1.5


@pytest.mark.parametrize(
    ("reached", "known"), [(None, {"t": {"0": 1}}), ({"t": {"0": 1}}, None), ("null", "null"), ("x", "y")]
)
def test_unknown_offsets_give_no_lag(reached: object, known: object) -> None:
    assert report(source(reached, known)).lag is None


def test_report_has_the_observed_bytes() -> None:
    found = report(observedMetrics={BYTES_OBSERVATION: {"bytes": 3000}})
    assert found.size_bytes == 3000
    assert found.bytes_per_s == 6000.0
    assert report(observedMetrics={BYTES_OBSERVATION: {"bytes": None}}).size_bytes == 0
    instant = report(observedMetrics={BYTES_OBSERVATION: {"bytes": 1}}, durationMs=None)
    assert instant.bytes_per_s == 0.0


def test_invalid_progress_is_refused() -> None:
    with pytest.raises(ValueError, match="batchId"):
        report_of({"id": "q"})


def test_bytes_of_rows_without_key_and_value_cannot_be_counted() -> None:
    class Frame:
        columns = ("topic", "offset")

    with pytest.raises(ValueError, match="neither 'key' nor 'value' is among the columns topic, offset"):
        count_bytes(Frame())  # type: ignore[arg-type]  # stands in for a frame
