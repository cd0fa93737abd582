import random
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.shared import close_shared_clusters
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.planning.narrowing import Narrowing, narrow
from spark_kafka_native._spark.planning.ranges import range_of
from tests.support.clients.native import config_of
from tests.support.servers.brokers import Server, TopicMaker
from tests.system.integration.test_client_on_brokers import START_MS, on_brokers

RECORDS = 400
SPREAD_MS = 60_000


def write(cluster: Cluster, topic: str, times: list[int]) -> None:
    """Records in batches of a few, over several segments."""
    value = b"v" * 9_000
    for first in range(0, len(times), 10):
        some = times[first : first + 10]
        with Producer(cluster) as producer:
            columns: list[pa.Array[Any]] = [pa.array([value] * len(some), pa.binary()), pa.array(some, pa.int64())]
            producer.send(topic, pa.RecordBatch.from_arrays(columns, ["value", "timestamp"]))


@pytest.mark.feature("more.filters")
@on_brokers
def test_a_least_time_is_where_to_begin(server: Server, topic_on: TopicMaker, cluster: Cluster) -> None:
    topic = topic_on(segment_bytes=str(1 << 20), index_interval_bytes="1")
    some = random.Random(1)
    times = [START_MS + n * 100 + some.randrange(SPREAD_MS) for n in range(RECORDS)]
    write(cluster, topic, times)
    tp = TopicPartition(topic, 0)
    source = ClusterOffsets(config_of(server.bootstrap_servers))
    for time_ms in [*some.sample(times, 20), min(times), max(times), min(times) - 1, max(times) + 1]:
        pieces = narrow([range_of(tp, -2, -1)], Narrowing(from_timestamp_ms=time_ms), source)
        first = next((offset for offset, found in enumerate(times) if found >= time_ms), RECORDS)
        assert [piece.from_offset for piece in pieces] == [first or -2]
    assert source.latest_timestamps([tp]) == {tp: max(times)}
    close_shared_clusters()
