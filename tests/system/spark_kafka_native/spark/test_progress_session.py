from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_native._spark.progress.listener import LagListener
from spark_kafka_native._spark.progress.report import Lag, count_bytes, report_of
from spark_kafka_native._spark.progress.view import query_states
from tests.support.clients.topics import Topics
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[LagListener]:
    made = LagListener()
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)


@pytest.mark.feature("run.metrics", "more.listener", "more.progressView")
def test_lag_shrinks_batch_by_batch_to_nothing(
    read_stream: Callable[..., DataFrame], topics: Topics, listener: LagListener
) -> None:
    topic = topics.create(2)
    topics.write(topic, ["aa", "bb", "cc", "dd", "ee", "ff"], keys=["k"] * 6, partition=[0, 0, 0, 0, 1, 1])
    rows = count_bytes(read_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3))
    query = rows.writeStream.format("noop").queryName("lagging").trigger(availableNow=True).start()
    assert query.awaitTermination(60)

    assert query.lastProgress is not None
    last = report_of(query.lastProgress.json)
    eventually(lambda: listener.latest.get(str(query.runId)), last)
    first, second = (report for report in listener.reports(str(query.runId)) if report.rows)
    assert [first.rows, second.rows] == [3, 3]
    assert first.lag == Lag(min_offsets=1, max_offsets=2, avg_offsets=1.5, total_offsets=3, partitions=2)
    assert second.lag is not None
    assert second.lag.total_offsets == 0
    assert [first.size_bytes, second.size_bytes] == [9, 9]
    [state] = query_states([query])
    assert (state.name, state.status) == ("lagging", "ended")
