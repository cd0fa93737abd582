import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._transactions.state import LAST_EPOCH, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from tests.support.broker.coordinator_driver import (
    MINUTE_MS,
    T0,
    T1,
    TV_0,
    TV_2,
    Coordinated,
    committed,
    is_stable,
    markers,
)
from tests.support.broker.disk import MemoryFileSystem
from tests.support.broker.driver import BrokerDriver
from tests.support.refusals import refused

BOTH = pytest.mark.parametrize("version", [TV_0, TV_2])


@pytest.fixture
def broker() -> Iterator[BrokerDriver]:
    with BrokerDriver(Path("/data"), file_system=MemoryFileSystem()) as broker:
        broker.create("t", partitions=2)
        yield broker


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_its_begin_to_its_end(
    broker: BrokerDriver, version: TransactionVersion, commit: bool
) -> None:
    mine = Coordinated(broker, version=version)
    first = mine.begin()
    assert (mine.state, first.epoch) == ("Empty", 0)
    mine.write(b"a", T0, T1)
    assert (mine.state, mine.known.partitions) == ("Ongoing", frozenset({T0, T1}))
    assert not is_stable(broker)
    after = mine.end(commit=commit)
    assert (mine.state, mine.known.partitions) == ("CompleteCommit" if commit else "CompleteAbort", frozenset())
    assert after == ProducerIdAndEpoch(producer_id=first.producer_id, epoch=1 if version is TV_2 else 0)
    for partition in (T0, T1):
        assert markers(broker, partition) == [("COMMIT" if commit else "ABORT", after.producer_id, after.epoch)]
        assert is_stable(broker, partition)
        assert committed(broker, partition) == ([b"a"] if commit else [])


@BOTH
@pytest.mark.parametrize("flush", [False, True])
def test_consecutive_transactions_of_a_producer(broker: BrokerDriver, version: TransactionVersion, flush: bool) -> None:
    if flush:
        broker.restart({"log.flush.interval.messages": 1})
    mine = Coordinated.begun(broker, version=version)
    for number in range(6):
        mine.write(b"%d" % number, T0)
        mine.end(commit=number % 2 == 0)
    assert committed(broker) == [b"0", b"2", b"4"]
    assert mine.producer.epoch == (6 if version is TV_2 else 0)


@BOTH
def test_an_end_that_is_repeated_is_answered_alike(broker: BrokerDriver, version: TransactionVersion) -> None:
    mine = Coordinated(broker, version=version)
    before = mine.begin()
    mine.write(b"a", T0)
    after = mine.end()
    mine.use(before)
    assert mine.end() == after
    assert mine.refused(commit=False, as_producer=before) is ErrorCode.INVALID_TXN_STATE
    assert len(markers(broker)) == 1


def test_each_id_is_by_itself(broker: BrokerDriver) -> None:
    ids = [Coordinated(broker, name) for name in ("a", "b", "c")]
    for one in ids:
        one.begin()
        one.write(one.name.encode(), T0)
    assert len({one.producer.producer_id for one in ids}) == 3
    ids[1].end(commit=False)
    ids[2].end()
    assert committed(broker) == []  # the first is still open
    ids[0].end()
    assert committed(broker) == [b"a", b"c"]
    assert set(broker.broker.transactions.all) == {"a", "b", "c"}


def test_an_abort_without_anything_written_raises_the_epoch(broker: BrokerDriver) -> None:
    mine = Coordinated.begun(broker)
    assert mine.end(commit=False).epoch == 1
    assert mine.state == "CompleteAbort"


def test_a_producer_whose_epochs_are_used_up_gets_another_id(broker: BrokerDriver) -> None:
    mine = Coordinated(broker)
    first = mine.begin()
    table = broker.broker.transactions._table
    worn = mine.known.__class__(
        transactional_id="id", producer_id=first.producer_id, producer_epoch=LAST_EPOCH, timeout_ms=MINUTE_MS
    )
    broker.run(table.write(worn, table.load_epoch))
    mine.use(ProducerIdAndEpoch(producer_id=first.producer_id, epoch=LAST_EPOCH))
    mine.write(b"a", T0)
    after = mine.end()
    assert after.producer_id != first.producer_id
    assert after.epoch == 0
    assert markers(broker) == [("COMMIT", first.producer_id, LAST_EPOCH + 1)]
    mine.write(b"b", T0)
    mine.end()
    assert committed(broker) == [b"a", b"b"]


def test_another_producer_aborts_the_open_transaction_and_fences(broker: BrokerDriver) -> None:
    old, new = Coordinated(broker), Coordinated(broker)
    old.begin()
    old.write(b"old", T0)
    producer = new.begin()
    assert (producer.producer_id, new.state) == (old.producer.producer_id, "Empty")
    assert producer.epoch > old.producer.epoch
    assert old.refused() is ErrorCode.PRODUCER_FENCED
    assert refused(old.add, T1).code is ErrorCode.PRODUCER_FENCED
    new.write(b"new", T0)
    new.end()
    assert committed(broker) == [b"new"]


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("id", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("id", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("id", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_ids_and_timeouts_are_refused(
    broker: BrokerDriver, name: str, timeout_ms: int, code: ErrorCode
) -> None:
    assert refused(lambda: Coordinated(broker, name).begin(timeout_ms=timeout_ms)).code is code
    assert not broker.broker.transactions.all


def test_ending_a_transaction_that_is_not_open_is_refused(broker: BrokerDriver) -> None:
    assert Coordinated(broker).refused() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert Coordinated(broker, "").refused() is ErrorCode.INVALID_REQUEST


def test_appends_check_that_their_partitions_are_in_the_transaction(broker: BrokerDriver) -> None:
    transactions = broker.broker.transactions
    mine = Coordinated.begun(broker)
    mine.add(T0)
    transactions.check_partitions("id", mine.producer, {T0})
    assert transactions.missing_partitions("id", mine.producer, {T0, T1}) == {T1}
    with pytest.raises(KafkaError, match=r"not part of id's transaction: t-1.*\(TRANSACTION_ABORTABLE, "):
        transactions.check_partitions("id", mine.producer, {T0, T1})
    mine.end()
    assert refused(transactions.check_partitions, "id", mine.producer, {T0}).code is ErrorCode.TRANSACTION_ABORTABLE
    old = ProducerIdAndEpoch(producer_id=mine.producer.producer_id, epoch=0)
    assert refused(transactions.check_partitions, "id", old, {T0}).code is ErrorCode.PRODUCER_FENCED


def test_no_end_comes_between_a_check_and_an_append_in_one_loop_iteration(broker: BrokerDriver) -> None:
    transactions = broker.broker.transactions
    mine = Coordinated.begun(broker)
    mine.add(T0)
    seen: list[str] = []

    async def append_slowly() -> None:
        async with transactions.lock("id"):
            transactions.check_partitions("id", mine.producer, {T0})
            await transactions.add_partitions_locked("id", mine.producer, {T1}, TV_2)
            for _ in range(20):
                await asyncio.sleep(0)  # one turn of the loop, in which the end could come between
            seen.append(mine.state)

    async def both() -> None:
        task = asyncio.create_task(append_slowly())
        await asyncio.sleep(0)  # the task begins
        await transactions.end("id", mine.producer, commit=True, version=TV_2)
        seen.append(mine.state)
        await task

    broker.run(both())
    assert seen == ["Ongoing", "CompleteCommit"]
    assert len(markers(broker, T1)) == 1


def test_concurrent_requests_for_one_transactional_id_are_serialized(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    transactions = broker.broker.transactions

    async def all_at_once() -> list[ProducerIdAndEpoch]:
        return list(await asyncio.gather(*(transactions.begin_producer("id", MINUTE_MS, None) for _ in range(10))))

    producers = broker.run(all_at_once())
    assert [producer.epoch for producer in producers] == list(range(10))
    assert len({producer.producer_id for producer in producers}) == 1


def test_the_decision_of_a_client_that_disconnects_stands(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    mine = Coordinated.begun(broker)
    mine.write(b"a", T0)

    async def leave_half_way() -> None:
        work = broker.broker.transactions.end("id", mine.producer, commit=True, version=TV_2)
        task = asyncio.create_task(work)
        async with broker.during_disk_work(task):
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await broker.broker.shielded_tasks.wait()

    broker.run(leave_half_way())
    assert mine.state == "CompleteCommit"
    assert committed(broker) == [b"a"]


def test_a_broker_that_stops_takes_no_more(broker: BrokerDriver) -> None:
    mine = Coordinated.begun(broker)
    mine.add(T0)
    broker.broker.transactions.release()
    assert mine.refused() is ErrorCode.NOT_COORDINATOR
    assert (
        refused(broker.broker.transactions.check_partitions, "id", mine.producer, {T0}).code
        is ErrorCode.NOT_COORDINATOR
    )
