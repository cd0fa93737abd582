"""A fetcher with a wakeup, which reads partitions without an end."""

import contextlib
import time

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.consumer.sources import Wakeup
from spark_kafka_native._net.alarm import Alarm
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import offsets_of
from tests.support.scripted.several_partitions import ranges, tp
from tests.support.scripted.steps import Respond


def test_the_leader_of_a_partition_without_records_is_looked_up_again_instead_of_a_timeout() -> None:
    with ScriptedCluster(brokers=2, topics={"t": 1}) as brokers:
        log = brokers.partition("t", 0)
        log.append(batch_of([b"0"]))

        def answer_as_earlier_leader(request: FetchRequest) -> FetchResponse:
            log.leader = 2
            (topic,) = request.topics
            part = PartitionData(partition_index=0, high_watermark=0)
            return FetchResponse(
                responses=(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=(part,)),)
            )

        brokers.script(FetchRequest, *[Respond(answer_as_earlier_leader)] * 10_000, broker=1)
        config = brokers.config(**{"metadata.max.age.ms": 1, "fetch.max.wait.ms": 50})
        with Cluster(config) as cluster, contextlib.closing(Alarm()) as alarm:
            wakeup = Wakeup(alarm, at=time.monotonic() + 60)
            with row_fetcher(cluster, ranges([0], end=9), timeout_ms=3_000, wakeup=wakeup) as fetcher:
                partition, records = next(iter(fetcher))
                assert (partition, offsets_of([records])) == (tp(0), [0])
