import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.assignment import select_existing, select_partitions
from tests.support.spark.fake_offsets import FakeCluster, ManualClock


def options(**given: str) -> SourceOptions:
    return parse_source_options({"kafka.bootstrap.servers": "one:1,two:2"} | given, Query.BATCH)


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster().add("t", 1, 1)
    fake.add("__consumer_offsets", 1)
    return fake


def test_pattern_leaves_internal_topics_out(cluster: FakeCluster) -> None:
    selection = select_partitions(options(subscribePattern=".*"), cluster)
    assert {tp.topic for tp in selection.partitions} == {"t"}


def test_existing_topics_are_found_at_once(cluster: FakeCluster) -> None:
    clock = ManualClock()
    selection = select_existing(options(assign='{"t":[1]}'), cluster, clock)
    assert selection.partitions == (TopicPartition("t", 1),)
    assert (cluster.requests, clock.slept_ms) == (["topics"], 0)


def test_missing_topics_are_looked_for_as_the_options_say(cluster: FakeCluster) -> None:
    clock = ManualClock()
    patient = options(subscribe="t,a,b", **{"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "7"})
    with pytest.raises(
        PlanError, match="these topics of option subscribe do not exist in the cluster at one:1,two:2: a, b"
    ):
        select_existing(patient, cluster, clock)
    assert (cluster.requests, clock.slept_ms) == (["topics"] * 3, 14)
