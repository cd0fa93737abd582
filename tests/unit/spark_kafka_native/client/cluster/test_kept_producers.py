from uuid import UUID

from spark_kafka_native._client.cluster.kept_producers import (
    MAX_IDLE_S,
    MAX_KEPT,
    MAX_PARTITIONS,
    KeptProducer,
    KeptProducers,
    SequencePosition,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition


def producer(producer_id: int, *, partitions: int = 1) -> KeptProducer:
    identity = ProducerIdAndEpoch(producer_id, 0)
    positions = {TopicPartition("t", number): SequencePosition(identity, 1) for number in range(partitions)}
    return KeptProducer(cluster_id="c", identity=identity, positions=positions, topic_ids={"t": UUID(int=1)})


def test_a_producer_id_is_taken_once() -> None:
    kept = KeptProducers()
    assert kept.take(0.0) is None
    one = producer(1)
    kept.keep(one, 0.0)
    assert kept.take(1.0) is one
    assert kept.take(1.0) is None


def test_the_last_used_one_is_taken_first_and_the_oldest_ones_give_way() -> None:
    kept = KeptProducers()
    for number in range(MAX_KEPT + 2):
        kept.keep(producer(number), float(number))
    taken = [kept.take(10.0) for _ in range(MAX_KEPT + 1)]
    assert [each and each.identity.producer_id for each in taken] == [*reversed(range(2, MAX_KEPT + 2)), None]


def test_an_id_that_was_idle_for_too_long_is_dropped() -> None:
    kept = KeptProducers()
    kept.keep(producer(1), 0.0)
    kept.keep(producer(2), 1.0)
    found = kept.take(MAX_IDLE_S + 1)
    assert found is not None
    assert found.identity.producer_id == 2
    assert kept.take(MAX_IDLE_S + 1) is None


def test_an_id_with_too_many_partitions_is_not_kept() -> None:
    """Nor is a part of its partitions: their sequence numbers would begin at 0 again in the same epoch."""
    kept = KeptProducers()
    kept.keep(producer(1, partitions=MAX_PARTITIONS + 1), 0.0)
    assert kept.take(0.0) is None
    kept.keep(producer(2, partitions=MAX_PARTITIONS), 0.0)
    assert kept.take(0.0) is not None


def test_clear_drops_all_producer_ids() -> None:
    kept = KeptProducers()
    kept.keep(producer(1), 0.0)
    kept.clear()
    assert kept.take(0.0) is None
