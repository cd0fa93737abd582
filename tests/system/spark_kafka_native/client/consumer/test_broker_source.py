import uuid

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import NO_EPOCH
from spark_kafka_native._client.consumer.broker_source import BrokerSource
from spark_kafka_native._client.consumer.cursor import Cursor, PartitionRange
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Versions
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.waiting import eventually

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


brokers = scripted_brokers(topics={"a": 2, "b": 1})


class Exchange:
    def __init__(
        self,
        brokers: ScriptedCluster,
        partitions: list[TopicPartition],
        *,
        ids: dict[TopicPartition, uuid.UUID] | None = None,
        max_partition_fetch_bytes: int = 100,
        cut_off_bytes: int = 0,
    ) -> None:
        config = brokers.config(
            fetch_max_wait_ms=7, fetch_max_bytes=900, max_partition_fetch_bytes=max_partition_fetch_bytes
        )
        with Cluster(config) as cluster:
            leaders = cluster.leaders(partitions)
            self.source = BrokerSource(cluster, leaders[partitions[0]].node, rack="r", isolation=1)
            for number, partition in enumerate(partitions):
                leader = leaders[partition]
                if ids and partition in ids:
                    leader = leader._replace(topic_id=ids[partition])
                wanted = PartitionRange(partition=partition, from_offset=0, until_offset=1, leader=leader)
                cursor = Cursor(wanted, config, timeout_ms=1_000, jitter=1.0, now=0)
                cursor.next_epoch = NO_EPOCH if partition == B0 else 0
                cursor.max_bytes = max(cursor.max_bytes + number, cut_off_bytes)
                self.source.cursors[cursor] = None
            eventually(lambda: self.source.connect(Deadline.after_ms(5_000)), True)
            self.response_timeout_ms = self.source.send(Deadline.after_ms(5_000))
            found: list[FetchResponse] = []

            def receive() -> int:
                response = self.source.receive()
                found.extend([] if response is None else [response])
                return len(found)

            eventually(receive, 1)
            self.source.close()
        (self.request,) = brokers.requests(FetchRequest)
        (self.response,) = found

    @property
    def parts(self) -> dict[TopicPartition, PartitionData | None]:
        return {cursor.partition: part for cursor, part in self.source.parts_of(self.response)}


def test_partitions_come_in_their_order_and_topics_once(brokers: ScriptedCluster) -> None:
    exchange = Exchange(brokers, [B0, A1, A0])
    request = exchange.request
    assert [[part.partition for part in topic.partitions] for topic in request.topics] == [[0], [1, 0]]
    assert [part.partition_max_bytes for topic in request.topics for part in topic.partitions] == [100, 101, 102]
    assert [part.last_fetched_epoch for topic in request.topics for part in topic.partitions] == [NO_EPOCH, 0, 0]
    assert (request.max_bytes, request.isolation_level, request.rack_id, request.max_wait_ms) == (900, 1, "r", 7)
    assert exchange.parts.keys() == {B0, A1, A0}


@pytest.mark.parametrize(("cut_off_bytes", "max_bytes"), [(0, 900), (5_000, 5_000)])
def test_only_a_batch_that_was_cut_off_raises_fetch_max_bytes(
    brokers: ScriptedCluster, cut_off_bytes: int, max_bytes: int
) -> None:
    exchange = Exchange(brokers, [A0], max_partition_fetch_bytes=2_000, cut_off_bytes=cut_off_bytes)
    assert exchange.request.max_bytes == max_bytes


def test_ids_of_a_topic_that_was_created_again_are_not_mixed_up(brokers: ScriptedCluster) -> None:
    exchange = Exchange(brokers, [A0, A1], ids={A1: uuid.uuid4()})
    assert len({topic.topic_id for topic in exchange.request.topics}) == len(exchange.request.topics) == 2
    assert {tp: part and part.error_code for tp, part in exchange.parts.items()} == {A0: 0, A1: 100}


def test_one_topic_without_an_id_makes_a_fetch_with_names(brokers: ScriptedCluster) -> None:
    exchange = Exchange(brokers, [A0, B0], ids={B0: ZERO_UUID})
    assert [topic.topic for topic in exchange.request.topics] == ["a", "b"]
    assert brokers.received[-1][2] == 12
    assert exchange.parts.keys() == {A0, B0}


@pytest.mark.parametrize(("versions", "names"), [(KAFKA_4_3, ["", ""]), (KAFKA_2_1, ["a", "b"])])
def test_old_brokers_get_names_and_no_last_fetched_epochs(versions: Versions, names: list[str]) -> None:
    with ScriptedCluster(topics={"a": 2, "b": 1}, versions=versions) as brokers:
        request = Exchange(brokers, [A0, B0]).request
    assert [topic.topic for topic in request.topics] == names
    assert request.topics[0].partitions[0].last_fetched_epoch == (0 if versions is KAFKA_4_3 else NO_EPOCH)


def test_a_response_for_an_outdated_offset_is_ignored(brokers: ScriptedCluster) -> None:
    exchange = Exchange(brokers, [A0, A1, B0])
    first, second, third = exchange.source.cursors
    first.next_offset += 1
    del exchange.source.cursors[third]
    assert exchange.parts.keys() == {second.partition}


def test_a_response_is_waited_for_a_moment_longer_than_the_broker_waits(brokers: ScriptedCluster) -> None:
    assert 5_000 < Exchange(brokers, [A0]).response_timeout_ms <= 6_000
