"""Topics that were deleted and created again between the plan and its tasks, on the bundled broker as several releases.

Brokers before 3.1 have topic ids, and Fetch requests without them.
"""

from collections.abc import Iterator, Mapping

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.shared import close_shared_clusters
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.batch import bind_batch_query, plan_batch_query
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.planning.packing import Task
from spark_kafka_native._spark.planning.ranges import range_of
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.reader import read_task
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.clients.topics import Topics

LAYOUT = layout_of(source_schema(include_headers=False))


class RecreatedTopic:
    """A topic of one name that is created again and again."""

    def __init__(self, broker: EmbeddedBroker, topics: Topics, partitions: int) -> None:
        self._broker = broker
        self._topics = topics
        self._partitions = partitions
        self._exists = False

    def options(self, given: Mapping[str, str] | None = None, **more: str) -> SourceOptions:
        known = {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "subscribe": "t",
            "kafka.retry.backoff.ms": "5",
        }
        return parse_source_options({**known, **(given or {}), **more}, Query.BATCH)

    def create(self, value: str, records: int) -> None:
        """Create the topic again, with ``records`` in each partition."""
        if self._exists:
            self._broker.delete_topic("t")
        self._exists = True
        self._broker.create_topic("t", self._partitions)
        for number in range(self._partitions):
            self._topics.write("t", [value] * records, partition=number)


@pytest.fixture(params=[1, 2], ids=["1 partition", "2 partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=["2.8", "3.0", "3.1", "4.3"])
def recreated(request: pytest.FixtureRequest, partitions: int) -> Iterator[RecreatedTopic]:
    with EmbeddedBroker(settings={"as.version": request.param}) as broker, Topics(broker.bootstrap_servers) as topics:
        yield RecreatedTopic(broker, topics, partitions)
    close_shared_clusters()


def plan(options: SourceOptions) -> list[Task]:
    return plan_batch_query(options, ClusterOffsets(options.client), Clock())


def values(options: SourceOptions, *tasks: Task) -> list[str]:
    batches = [batch for task in tasks for batch in read_task(options, LAYOUT, task)]
    return [str(row["value"], "utf-8") for batch in batches for row in batch.to_pylist()]


def test_a_topic_created_again_after_the_plan_is_not_read(recreated: RecreatedTopic, partitions: int) -> None:
    parsed = recreated.options()
    recreated.create("planned", 5)
    bound = bind_batch_query(parsed, ClusterOffsets(parsed.client), Clock())
    assert values(parsed, bound) == ["planned"] * 5 * partitions
    recreated.create("another", 5)
    with pytest.raises(DataLossError, match=r"TOPIC_RECREATED\] offsets \[0, 5\) of t-0 are gone"):
        values(parsed, bound)
    assert values(recreated.options(failOnDataLoss="false"), bound) == []


def test_range_bound_by_the_task_is_of_the_present_topic(recreated: RecreatedTopic, partitions: int) -> None:
    """The worker process has the id of the earlier topic in memory; nothing was planned in that one."""
    parsed = recreated.options()
    task = tuple(range_of(TopicPartition("t", number), -2, -1) for number in range(partitions))
    for value in ("earlier", "now"):
        recreated.create(value, 5)
        assert values(parsed, task) == [value] * 5 * partitions


@pytest.mark.parametrize("sizes", [{"maxPartitions": "1"}, {"minPartitions": "6"}], ids=str)
def test_planned_end_is_of_the_planned_topic(recreated: RecreatedTopic, partitions: int, sizes: dict[str, str]) -> None:
    worker, driver = recreated.options(sizes), recreated.options(sizes | {"kafka.client.id": "driver"})
    recreated.create("earlier", 6)
    assert values(worker, *plan(driver)) == ["earlier"] * 6 * partitions
    recreated.create("now", 6)
    driver = recreated.options(sizes | {"kafka.client.id": "another driver"})
    assert values(worker, *plan(driver)) == ["now"] * 6 * partitions


@pytest.mark.parametrize("age_ms", ["0", "300000"])
def test_a_start_that_was_looked_up_is_not_an_offset_of_a_topic_created_again(
    recreated: RecreatedTopic, partitions: int, age_ms: str
) -> None:
    """Although the task looks up the end, in a process that has not read the planned topic."""
    given = {"startingOffsets": "latest-2", "maxPartitions": "1", "kafka.metadata.max.age.ms": age_ms}
    parsed = recreated.options(given)
    recreated.create("planned", 5)
    (planned,) = plan(parsed)
    assert values(parsed, planned) == ["planned"] * 2 * partitions
    recreated.create("another", 9)
    close_shared_clusters()
    with pytest.raises(DataLossError, match=r"TOPIC_RECREATED\] offsets \[3, 9\) of t-0 are gone"):
        values(parsed, planned)
    assert values(recreated.options(given, failOnDataLoss="false"), planned) == []


@pytest.mark.parametrize("partitions", [2], indirect=True)
@pytest.mark.parametrize("led", [0, 1])
def test_partitions_of_a_task_that_are_of_different_topics_of_a_name(
    recreated: RecreatedTopic, partitions: int, led: int
) -> None:
    """One from earliest, which is of the topic of now, and one from an offset of the planned topic."""
    starts = {str(number): 3 if number == led else -2 for number in range(partitions)}
    given = {"startingOffsets": str({"t": starts}).replace("'", '"'), "maxPartitions": "1"}
    parsed = recreated.options(given)
    recreated.create("planned", 5)
    (planned,) = plan(parsed)
    recreated.create("another", 9)
    close_shared_clusters()
    with pytest.raises(DataLossError, match=rf"TOPIC_RECREATED\] offsets \[3, 9\) of t-{led} are gone"):
        values(parsed, planned)
    assert values(recreated.options(given, failOnDataLoss="false"), planned) == ["another"] * 9
