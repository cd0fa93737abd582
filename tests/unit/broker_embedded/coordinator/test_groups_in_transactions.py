import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker_embedded._coordinator.log import Appended, Within
from broker_embedded._groups.offsets import OffsetCommit
from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.control import ControlType
from tests.support.broker.driver import BrokerDriver
from tests.support.records.record_batches import marker
from tests.support.refusals import refused

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
P, Q = 7, 8
WEEK_MS = 7 * 24 * 3_600_000


def wanted(broker: BrokerDriver, partition: TopicPartition, to: int) -> list[OffsetCommit]:
    topic_id = broker.topic_id("t")
    return [OffsetCommit(partition=partition, topic_id=topic_id, offset=to, leader_epoch=0, metadata="")]


def commit(
    broker: BrokerDriver,
    partition: TopicPartition = T0,
    *,
    to: int,
    producer: int | None = None,
    group: str = "g",
    epoch: int = 0,
    verified: bool = True,
) -> ErrorCode:
    groups, commits = broker.broker.groups, wanted(broker, partition, to)
    if producer is None:
        codes = broker.run(groups.commit(OffsetCommitRequest(group_id=group), commits, 8))
    else:
        request = TxnOffsetCommitRequest(group_id=group, producer_id=producer, producer_epoch=epoch)
        codes = broker.run(groups.commit_in_transaction(request, commits, verified=verified))
    return codes[partition]


def write_marker(broker: BrokerDriver, index: int, producer: int, *, commit: bool) -> int:
    """A marker in the log, of which the group is not notified; its offset."""
    end = marker(ControlType.COMMIT if commit else ControlType.ABORT, producer, timestamp_ms=broker.clock.now_ms())
    partition = broker.broker.partitions.get("__consumer_offsets", index)
    return partition.append(end, AppendConditions(origin=AppendOrigin.COORDINATOR)).base_offset


def end(broker: BrokerDriver, producer: int, *, commit: bool, group: str = "g") -> None:
    index = broker.broker.groups.log.partition_of(group).partition
    offset = write_marker(broker, index, producer, commit=commit)
    broker.broker.groups.end_transaction(index, producer, offset, commit=commit)


def offsets(broker: BrokerDriver, group: str = "g") -> dict[TopicPartition, int]:
    found = broker.broker.groups.offsets.all_committed(group)
    return {partition: value.offset for partition, value in found.items()}


def is_unstable(broker: BrokerDriver, partition: TopicPartition = T0, group: str = "g") -> bool:
    return broker.broker.groups.offsets.is_unstable(group, partition, broker.topic_id("t"))


@pytest.fixture(params=[False, True], ids=["at once", "on disk"])
def with_topic(broker: BrokerDriver, request: pytest.FixtureRequest) -> BrokerDriver:
    """A broker with topic t, where appends are carried out at once, or wait for the disk."""
    if request.param:
        broker.restart({"log.flush.interval.messages": 1})
    broker.create("t", partitions=2)
    return broker


@pytest.mark.parametrize("how", ["restart", "crash"])
@pytest.mark.parametrize(("decision", "decided"), [(True, {T0: 7}), (False, {T0: 5})])
def test_a_commit_counts_from_its_marker_on(
    with_topic: BrokerDriver, decision: bool, decided: dict[TopicPartition, int], how: str
) -> None:
    broker = with_topic
    commit(broker, to=5)
    assert commit(broker, to=7, producer=P) is ErrorCode.NONE
    for _ in range(2):
        assert (offsets(broker), is_unstable(broker)) == ({T0: 5}, True)
        getattr(broker, how)()
    end(broker, P, commit=decision)
    for _ in range(2):
        assert (offsets(broker), is_unstable(broker)) == (decided, False)
        getattr(broker, how)()


def test_a_marker_that_was_not_applied_before_a_crash_counts_after_the_restart(broker: BrokerDriver) -> None:
    broker.create("t")
    commit(broker, to=5, producer=P)
    write_marker(broker, broker.broker.groups.log.partition_of("g").partition, P, commit=True)
    broker.crash()
    assert (offsets(broker), is_unstable(broker)) == ({T0: 5}, False)


def test_the_offset_batch_is_transactional_and_of_the_producer(with_topic: BrokerDriver) -> None:
    broker = with_topic
    commit(broker, to=5, producer=P, epoch=3)
    log = broker.broker.partitions.get("__consumer_offsets", broker.broker.groups.log.partition_of("g").partition).log
    (entry,) = log.producers.entries
    assert (entry.producer_id, entry.epoch, entry.transaction_first_offset) == (P, 3, 0)
    assert (log.last_stable_offset, log.high_watermark) == (0, 1)
    commit(broker, to=6, producer=P, epoch=3)  # it has no sequence numbers that could be out of order
    assert refused(commit, broker, to=7, producer=P, epoch=2).code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.high_watermark == 2


def test_an_unverified_commit_continues_a_transaction_that_the_log_knows(with_topic: BrokerDriver) -> None:
    broker = with_topic
    assert refused(commit, broker, to=5, producer=P, verified=False).code is ErrorCode.INVALID_TXN_STATE
    assert commit(broker, to=6, producer=P) is ErrorCode.NONE
    assert commit(broker, to=7, producer=P, verified=False) is ErrorCode.NONE
    end(broker, P, commit=True)
    assert refused(commit, broker, to=5, producer=P, verified=False).code is ErrorCode.INVALID_TXN_STATE
    assert offsets(broker) == {T0: 7}


def test_groups_of_several_partitions_end_one_by_one(broker: BrokerDriver) -> None:
    broker.create("t")
    groups = ["a", "b", "c"]
    broker.run(broker.broker.groups.make_ready())
    assert len({broker.broker.groups.log.partition_of(group) for group in groups}) == 3
    for group in groups:
        commit(broker, to=5, producer=P, group=group)
    end(broker, P, commit=True, group="b")
    assert [is_unstable(broker, group=group) for group in groups] == [True, False, True]
    assert [offsets(broker, group) for group in groups] == [{}, {T0: 5}, {}]


def test_where_groups_are_kept_is_not_known_before_there_is_a_log(broker: BrokerDriver) -> None:
    assert refused(broker.broker.groups.log.partition_of, "g").code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_pending_offsets_of_a_deleted_topic_are_deleted(with_topic: BrokerDriver) -> None:
    broker = with_topic
    commit(broker, to=5, producer=P)
    broker.delete("t")
    broker.create("t", partitions=2)
    assert not is_unstable(broker)
    end(broker, P, commit=True)
    for _ in range(2):
        assert offsets(broker) == {}
        broker.restart()


def test_pending_offsets_are_deleted_with_the_offsets_topic(with_topic: BrokerDriver) -> None:
    broker = with_topic
    commit(broker, to=5, producer=P)
    broker.delete("__consumer_offsets")
    assert not is_unstable(broker)
    broker.restart()
    assert not is_unstable(broker)


@pytest.mark.parametrize(("decision", "decided"), [(True, {T0: 5}), (False, {})])
def test_a_marker_may_be_applied_before_the_commit_that_precedes_it(
    broker: BrokerDriver, decision: bool, decided: dict[TopicPartition, int]
) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    broker.create("t", partitions=2)
    groups = broker.broker.groups
    broker.run(groups.make_ready())
    append = groups.log.append_on_disk

    async def slow_append(name: str, records: Sequence[CoordinatorRecord], within: Within | None = None) -> Appended:
        where = await append(name, records, within)
        end(broker, P, commit=decision)
        return where

    groups.log.append_on_disk = slow_append  # type: ignore[method-assign]  # its response is late
    commit(broker, to=5, producer=P)
    groups.log.append_on_disk = append  # type: ignore[method-assign]  # as it was
    assert (offsets(broker), is_unstable(broker)) == (decided, False)
    commit(broker, T1, to=6, producer=P)
    assert is_unstable(broker, T1)
    broker.restart()
    assert (offsets(broker), is_unstable(broker), is_unstable(broker, T1)) == (decided, False, True)


def test_a_marker_does_not_end_the_transaction_after_it(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    commit(broker, to=5, producer=P)
    index = broker.broker.groups.log.partition_of("g").partition
    offset = write_marker(broker, index, P, commit=True)
    commit(broker, T1, to=6, producer=P)
    broker.broker.groups.end_transaction(index, P, offset, commit=True)
    assert (offsets(broker), is_unstable(broker), is_unstable(broker, T1)) == ({T0: 5}, False, True)


def test_commits_of_many_transactions_at_once(with_topic: BrokerDriver) -> None:
    broker = with_topic
    groups = broker.broker.groups

    async def all_at_once() -> None:
        requests = [TxnOffsetCommitRequest(group_id=f"g{number}", producer_id=number) for number in range(20)]
        await asyncio.gather(
            *(
                groups.commit_in_transaction(request, wanted(broker, T0, request.producer_id), verified=True)
                for request in requests
                for _ in range(2)
            )
        )

    broker.run(all_at_once())
    for number in range(20):
        end(broker, number, commit=number % 2 == 0, group=f"g{number}")
    for _ in range(2):
        assert [offsets(broker, f"g{number}") for number in range(20)] == [
            {T0: number} if number % 2 == 0 else {} for number in range(20)
        ]
        broker.restart()


@pytest.mark.parametrize("seed", range(3))
def test_compaction_changes_no_committed_offset(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1500}
    with BrokerDriver(tmp_path, settings) as broker:
        broker.create("t", partitions=2)
        for number in range(120):
            match chance.randrange(6):
                case 0 | 1:
                    commit(broker, chance.choice([T0, T1]), to=number, group=chance.choice("gh"))
                case 2 | 3:
                    producer = chance.choice([P, Q])
                    commit(broker, chance.choice([T0, T1]), to=number, producer=producer, group=chance.choice("gh"))
                case 4:
                    end(broker, chance.choice([P, Q]), commit=chance.random() < 0.5)
                case _:
                    if number % 4 == 0 and "g" in broker.broker.groups.all:
                        broker.run(broker.broker.groups.delete_offsets("g", [T0]))

        def seen() -> list[object]:
            return [(offsets(broker, group), [is_unstable(broker, part, group) for part in (T0, T1)]) for group in "gh"]

        before = seen()
        log = broker.broker.partitions.get("__consumer_offsets", 0).log
        size = log.local.size_in_bytes
        broker.run(broker.broker.compaction.run())
        assert log.local.size_in_bytes < size
        broker.crash()
        assert seen() == before
        for producer in (P, Q):
            end(broker, producer, commit=True)
        before = seen()
        broker.run(broker.broker.compaction.run())
        broker.restart()
        assert seen() == before
