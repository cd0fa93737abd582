import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._groups.offsets import OffsetCommit
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.coordinator_driver import T0, T1, TV_0, TV_2, Coordinated, committed, is_stable, markers
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.driver import BrokerDriver, fetch_request


@pytest.fixture
def broker() -> Iterator[BrokerDriver]:
    with BrokerDriver(Path("/data"), file_system=MemoryFileSystem()) as broker:
        broker.create("t", partitions=2)
        yield broker


def write(
    broker: BrokerDriver,
    producer: ProducerIdAndEpoch,
    *partitions: TopicPartition,
    commit: bool = True,
    coordinator_epoch: int = 0,
    version: TransactionVersion = TV_0,
) -> dict[TopicPartition, ErrorCode]:
    work = broker.broker.markers.write(
        partitions, producer, commit=commit, coordinator_epoch=coordinator_epoch, version=version
    )
    return dict(broker.run(work))


def opened(broker: BrokerDriver, *partitions: TopicPartition) -> ProducerIdAndEpoch:
    """A producer amid a transaction."""
    mine = Coordinated.begun(broker, version=TV_0)
    mine.write(b"a", *partitions)
    return mine.producer


@pytest.mark.parametrize("commit", [True, False])
def test_one_marker_in_each_partition(broker: BrokerDriver, commit: bool) -> None:
    producer = opened(broker, T0, T1)
    assert write(broker, producer, T0, T1, commit=commit) == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
    for partition in (T0, T1):
        assert markers(broker, partition) == [("COMMIT" if commit else "ABORT", producer.producer_id, producer.epoch)]
        assert committed(broker, partition) == ([b"a"] if commit else [])


def test_a_marker_that_comes_again_changes_nothing(broker: BrokerDriver) -> None:
    for version in (TV_0, TV_2):
        producer = opened(broker, T0)
        later = ProducerIdAndEpoch(producer_id=producer.producer_id, epoch=producer.epoch + 1)
        for _ in range(2):
            assert write(broker, later, T0, commit=False, version=version) == {T0: ErrorCode.NONE}
            assert (committed(broker), is_stable(broker)) == ([], True)


def test_write_txn_markers_has_an_error_code_for_each_partition(broker: BrokerDriver) -> None:
    producer = opened(broker, T0)
    nowhere = TopicPartition("nowhere", 0)
    assert write(broker, producer, nowhere, T0, coordinator_epoch=3) == {
        nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        T0: ErrorCode.NONE,
    }
    assert write(broker, producer, T0, coordinator_epoch=2) == {T0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    later = ProducerIdAndEpoch(producer_id=producer.producer_id, epoch=producer.epoch + 1)
    assert write(broker, later, T0, coordinator_epoch=3) == {T0: ErrorCode.NONE}
    assert write(broker, producer, T0, coordinator_epoch=3) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert len(markers(broker)) == 2


def test_the_present_epoch_does_not_end_a_transaction_that_has_one_of_its_own(broker: BrokerDriver) -> None:
    producer = opened(broker, T0)
    assert write(broker, producer, T0, version=TV_2) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert not is_stable(broker)


@pytest.mark.parametrize(
    "producer", [ProducerIdAndEpoch(producer_id=-1, epoch=0), ProducerIdAndEpoch(producer_id=1, epoch=-1)]
)
def test_a_marker_without_a_valid_producer_is_refused(broker: BrokerDriver, producer: ProducerIdAndEpoch) -> None:
    assert write(broker, producer, T0) == {T0: ErrorCode.INVALID_REQUEST}


def test_a_log_that_cannot_be_written() -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    with BrokerDriver(Path("/data"), file_system=faults) as broker:
        broker.create("t", partitions=2)
        producer = opened(broker, T0)
        faults.fail("write *.log")
        assert write(broker, producer, T0) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        faults.heal()
        assert write(broker, producer, T0) == {T0: ErrorCode.NONE}


def test_read_committed_fetches_continue_after_the_marker(broker: BrokerDriver) -> None:
    producer = opened(broker, T0)
    request = fetch_request("t", isolation_level=1, min_bytes=1, max_wait_ms=60_000)
    waiting = broker.pending(request, 11)
    write(broker, producer, T0)
    assert broker.response(waiting).responses[0].partitions[0].last_stable_offset == 2


def test_markers_of_many_partitions_yield_to_other_requests(broker: BrokerDriver) -> None:
    broker.create("many", partitions=120)
    partitions = [TopicPartition("many", index) for index in range(120)]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        task = asyncio.create_task(
            broker.broker.markers.write(
                partitions, ProducerIdAndEpoch(producer_id=7, epoch=0), commit=True, coordinator_epoch=0, version=TV_0
            )
        )
        while not task.done():
            turns += 1
            await asyncio.sleep(0)  # one turn of the loop
        assert set((await task).values()) == {ErrorCode.NONE}

    broker.run(count_turns())
    assert turns >= 3


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_group_count_with_the_marker_of_their_partition(
    broker: BrokerDriver, commit: bool, flush: bool
) -> None:
    if flush:
        broker.restart({"log.flush.interval.messages": 1})
    groups = broker.broker.groups
    broker.run(groups.make_ready())
    partition = groups.log.partition_of("g")
    mine = Coordinated(broker, version=TV_0)
    producer = mine.begin()
    mine.add(partition)
    request = TxnOffsetCommitRequest(
        transactional_id="id", group_id="g", producer_id=producer.producer_id, producer_epoch=producer.epoch
    )
    wanted = OffsetCommit(partition=T0, topic_id=broker.topic_id("t"), offset=5, leader_epoch=0, metadata="")
    assert set(broker.run(groups.commit_in_transaction(request, [wanted])).values()) == {ErrorCode.NONE}
    assert T0 not in groups.offsets.all_committed("g")
    write(broker, producer, partition, commit=commit)
    found = groups.offsets.all_committed("g").get(T0)
    assert (found.offset if found else None) == (5 if commit else None)
