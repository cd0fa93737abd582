import time

import pyarrow as pa
import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.batch import plan_batch_query
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from tests.support.clients.native import config_of
from tests.support.servers.brokers import AnyBroker, TopicMaker

HOUR_MS = 3_600_000
RECORDS = 10


class Planned:
    """Plans batch queries over a topic with two partitions: a record for each of the last ten hours, and nothing."""

    def __init__(self, broker: AnyBroker, topic: str) -> None:
        self.topic = topic
        self._servers = broker.bootstrap_servers
        now_ms = int(time.time() * 1000)
        # Half an hour off, so that a slow test looks for the same records.
        times = [now_ms - hours * HOUR_MS + HOUR_MS // 2 for hours in range(RECORDS, 0, -1)]
        rows = pa.RecordBatch.from_pydict(
            {
                "value": pa.array([b"value"] * RECORDS, pa.binary()),
                "timestamp": pa.array(times, pa.int64()),
                "partition": pa.array([0] * RECORDS, pa.int32()),
            }
        )
        with Cluster(config_of(self._servers)) as cluster, Producer(cluster) as producer:
            producer.send(topic, rows)
        self.source = ClusterOffsets(config_of(self._servers))

    def __call__(self, **options: str) -> list[tuple[int, int, int]]:
        given = {"kafka.bootstrap.servers": self._servers, "subscribe": self.topic} | options
        tasks = plan_batch_query(parse_source_options(given, Query.BATCH), self.source, Clock())
        return [(piece.partition, piece.from_offset, piece.until_offset) for (piece,) in tasks]


@pytest.fixture
def planned(any_broker: AnyBroker) -> Planned:
    return Planned(any_broker, TopicMaker(any_broker)(2))


@pytest.mark.feature("more.lastN")
def test_last_offsets(planned: Planned) -> None:
    assert planned(startingOffsets="latest-3") == [(0, 7, -1), (1, 0, -1)]
    assert planned(startingOffsets="latest-300", endingOffsets="latest-4") == [(0, 0, 6)]


@pytest.mark.feature("more.partialOffsets", "more.topicOffsets")
def test_a_default_for_partitions_that_are_not_named(planned: Planned) -> None:
    some = f'{{"{planned.topic}":{{"0":4}}}}'
    assert planned(startingOffsets=some, startingOffsetsDefault="earliest") == [(0, 4, -1), (1, -2, -1)]
    assert planned(endingOffsets=some, endingOffsetsDefault="latest") == [(0, -2, 4), (1, -2, -1)]
    assert planned(startingOffsets=f'{{"{planned.topic}":"earliest"}}') == [(0, -2, -1), (1, -2, -1)]
    with pytest.raises(PlanError, match="KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        planned(startingOffsets=some)


@pytest.mark.feature("more.relativeTimes", "offsets.byTimestamp")
def test_times_before_now(planned: Planned) -> None:
    since = {"startingTimestamp": "-5h", "startingOffsetsByTimestampStrategy": "latest"}
    assert planned(**since) == [(0, 5, -1), (1, 0, -1)]
    assert planned(**since, endingTimestamp="-2 hours") == [(0, 5, 8), (1, 0, -1)]
    with pytest.raises(PlanError, match="KAFKA_NO_OFFSET_FOR_TIMESTAMP"):
        planned(startingTimestamp="-5h")


@pytest.mark.feature("more.startCommitted")
def test_where_a_group_has_got_to(planned: Planned) -> None:
    group = f"group-of-{planned.topic}"
    committed = {"startingOffsets": "committed", "kafka.group.id": group}
    assert planned(**committed) == [(0, -2, -1), (1, -2, -1)]
    planned.source.commit(group, {TopicPartition(planned.topic, 0): OffsetAndMetadata(offset=6)})
    assert planned(**committed) == [(0, 6, -1), (1, -2, -1)]
    assert planned(**committed, startingOffsetsWithoutCommit="latest") == [(0, 6, -1), (1, 0, -1)]
