import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.cursor import Cursor, PartitionRange, PreferredReplica
from spark_kafka_native._net.connection import MAX_THROTTLE_MS
from spark_kafka_native._protocol.topic import TopicPartition

MAX_AGE_MS = 5_000
replicas = pytest.mark.feature("client.rack")


@replicas
def test_the_leader_is_read_until_it_names_a_replica() -> None:
    replica = PreferredReplica("rack", MAX_AGE_MS)
    assert (replica.node_id, replica.rack(0)) == (None, "rack")
    assert not replica.give_up(0)
    assert not replica.expire(0)
    replica.follow(7, now=1)
    assert (replica.node_id, replica.rack(1)) == (7, "rack")
    assert not replica.expire(5.9), "metadata.max.age.ms is not over"
    assert replica.node_id == 7


@replicas
def test_a_replica_that_failed_is_not_read_again_before_metadata_max_age() -> None:
    replica = PreferredReplica("rack", MAX_AGE_MS)
    replica.follow(7, now=1)
    assert replica.give_up(2)
    assert (replica.node_id, replica.rack(2), replica.rack(6.9)) == (None, "", "")
    assert replica.rack(7) == "rack"


@replicas
def test_after_metadata_max_age_the_leader_is_read_again() -> None:
    replica = PreferredReplica("rack", MAX_AGE_MS)
    replica.follow(7, now=1)
    assert replica.expire(6)
    assert (replica.node_id, replica.rack(6)) == (None, "rack")


def cursor(timeout_ms: float = 1_000) -> Cursor:
    config = ClientConfig.parse({"bootstrap.servers": "b:9092"})
    wanted = PartitionRange(partition=TopicPartition("t", 0), from_offset=5, until_offset=9)
    return Cursor(wanted, config, timeout_ms=timeout_ms, jitter=1.0, now=10.0)


def test_the_timeout_begins_again_with_progress_only() -> None:
    reading = cursor()
    assert reading.remaining_ms(10.4) == pytest.approx(600)
    reading.advance(5, 0, 10.5)
    assert reading.remaining_ms(10.5) == pytest.approx(500)
    reading.advance(6, 0, 10.5)
    assert reading.remaining_ms(10.5) == pytest.approx(1_000)
    assert reading.remaining_ms(99) == 0


def test_throttles_extend_the_timeout_up_to_a_bound() -> None:
    reading = cursor()
    reading.extend_for_throttle(5_000)
    assert reading.remaining_ms(10.0) == pytest.approx(6_000)
    for _ in range(3):
        reading.extend_for_throttle(MAX_THROTTLE_MS)
    assert reading.remaining_ms(10.0) == pytest.approx(MAX_THROTTLE_MS + 1_000)


def test_rewinding_fetches_what_is_not_decoded_again() -> None:
    reading = cursor()
    reading.next_offset, reading.next_epoch = 8, 3
    reading.advance(6, 2, 10.0)
    reading.rewind()
    assert (reading.next_offset, reading.next_epoch) == (6, 2)
