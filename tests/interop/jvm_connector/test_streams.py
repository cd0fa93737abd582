"""Streams with Trigger.AvailableNow through both connectors: the same rows, batches, tasks and last offsets."""

from pathlib import Path

import pytest

from tests.support.features.feature import by_name
from tests.support.spark.connector_cases import STREAMS
from tests.support.spark.connector_differences import differing, meant
from tests.support.spark.hard_topics import HardTopics
from tests.support.spark.jvm_connector import BothConnectors
from tests.support.spark.session_functions import start_refused, stream

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.parametrize("case", by_name(STREAMS))
def test_streams_are_the_same(both: BothConnectors, topics: HardTopics, case: str, tmp_path: Path) -> None:
    theirs, ours = both.compare(stream, {"kafka.bootstrap.servers": topics.servers, **STREAMS[case].options}, tmp_path)
    assert theirs.error is None
    assert differing(ours, theirs, "rows", "batches", "partitions", "end", "error") == meant(case)


@pytest.mark.feature("run.metrics", "run.latestOffset", "run.rows", "more.listener")
def test_metrics_have_the_lag_that_the_jvm_connector_has(
    both: BothConnectors, topics: HardTopics, tmp_path: Path
) -> None:
    options = {"subscribe": "plain", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    theirs, ours = both.compare(stream, {"kafka.bootstrap.servers": topics.servers, **options}, tmp_path)
    reported = [own for own, _ in theirs.lags if own]
    assert len(reported) >= 2
    for own, found in theirs.lags:
        for name, number in own.items():  # the JVM connector rounds averages
            assert float(found[name]) == pytest.approx(float(number), abs=0.051)
    assert int(reported[0]["maxOffsetsBehindLatest"]) > 0
    assert [own for own, _ in ours.lags] == [{}] * len(ours.lags)
    assert ours.lags[-1][1] == reported[-1] == dict.fromkeys(reported[-1], "0") | {"avgOffsetsBehindLatest": "0.0"}


@pytest.mark.feature("rate.continuous")
def test_continuous_processing_is_refused_for_a_python_source(
    both: BothConnectors, topics: HardTopics, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": "plain"}
    theirs, ours = both.compare(start_refused, options, tmp_path, trigger={"continuous": "1 second"})
    assert theirs is None
    assert ours is not None
    assert "continuous" in ours
