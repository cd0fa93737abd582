import asyncio
import logging

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.coordinator_driver import (
    T0,
    T1,
    TV_0,
    Coordinated,
    committed,
    fail_after_log_writes,
    is_stable,
    markers,
)
from tests.support.broker.disk import FaultyFileSystem
from tests.support.broker.driver import BrokerDriver
from tests.support.waiting import eventually_async

WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture
def broker(disk: tuple[BrokerDriver, FaultyFileSystem]) -> BrokerDriver:
    """A broker on a disk without faults."""
    return disk[0]


@pytest.mark.parametrize("how", [None, "restart", "crash"])
def test_a_transaction_is_aborted_after_its_timeout(broker: BrokerDriver, how: str | None) -> None:
    mine = Coordinated(broker)
    mine.begin(timeout_ms=5000)
    mine.write(b"a", T0)
    if how is not None:
        getattr(broker, how)()
    broker.advance(5000)
    broker.run(broker.broker.transactions.abort_timed_out())
    assert mine.state == "Ongoing"
    broker.advance(1)
    broker.run(broker.broker.transactions.abort_timed_out())
    assert mine.state == "CompleteAbort"
    assert (committed(broker), is_stable(broker)) == ([], True)
    assert mine.refused() is ErrorCode.INVALID_TXN_STATE


def test_an_abort_that_cannot_be_written_down_waits(
    disk: tuple[BrokerDriver, FaultyFileSystem], caplog: pytest.LogCaptureFixture
) -> None:
    broker, faults = disk
    mine = Coordinated(broker)
    mine.begin(timeout_ms=5000)
    mine.write(b"a", T0)
    broker.advance(5001)
    faults.fail("write *.log")
    with caplog.at_level(logging.WARNING):
        broker.run(broker.broker.transactions.abort_timed_out())
    assert mine.state == "Ongoing"
    assert "retrying at next check" in caplog.text
    faults.heal()
    broker.run(broker.broker.transactions.abort_timed_out())
    assert mine.state == "CompleteAbort"


def test_a_transaction_that_an_append_keeps_busy_does_not_delay_the_abort_of_others(broker: BrokerDriver) -> None:
    slow, other = Coordinated(broker, "a slow append"), Coordinated(broker, "other")
    for mine in (slow, other):
        mine.begin(timeout_ms=5000)
        mine.write(b"a", T0)
    broker.advance(5001)
    transactions = broker.broker.transactions

    async def abort_amid_an_append() -> None:
        async with transactions.lock("a slow append"):
            aborting = asyncio.create_task(transactions.abort_timed_out())
            await eventually_async(lambda: other.state, "CompleteAbort")
            assert slow.state == "Ongoing"
        await aborting

    broker.run(abort_amid_an_append())
    assert slow.state == "CompleteAbort"


def test_ids_that_are_idle_for_too_long_are_forgotten(broker: BrokerDriver) -> None:
    idle, busy = Coordinated(broker, "idle"), Coordinated(broker, "busy")
    for one in (idle, busy):
        one.begin()
        one.write(b"a", T0)
    idle.end()
    broker.clock.advance(WEEK_MS - 1)
    broker.run(broker.broker.transactions.expire_ids())
    assert set(broker.broker.transactions.all) == {"idle", "busy"}
    broker.clock.advance(1)
    broker.run(broker.broker.transactions.expire_ids())
    for _ in range(2):
        assert set(broker.broker.transactions.all) == {"busy"}
        broker.restart()
    assert idle.refused() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert idle.begin().epoch == 0


def test_an_id_that_cannot_be_forgotten_stays(
    disk: tuple[BrokerDriver, FaultyFileSystem], caplog: pytest.LogCaptureFixture
) -> None:
    broker, faults = disk
    Coordinated(broker).begin()
    broker.clock.advance(WEEK_MS)
    faults.fail("write *.log")
    with caplog.at_level(logging.WARNING):
        broker.run(broker.broker.transactions.expire_ids())
    assert set(broker.broker.transactions.all) == {"id"}
    assert "the expired transactional id id cannot be deleted" in caplog.text


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_though_a_topic_of_it_was_deleted(broker: BrokerDriver, commit: bool) -> None:
    broker.create("u")
    mine = Coordinated.begun(broker)
    mine.write(b"a", T0, TopicPartition("u", 0))
    broker.delete("u")
    mine.end(commit=commit)
    assert mine.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert is_stable(broker)


def test_deleting_the_transaction_topic_forgets_all_ids_and_aborts_open_transactions(broker: BrokerDriver) -> None:
    mine = Coordinated(broker)
    old = mine.begin()
    mine.write(b"a", T0, T1)
    broker.delete("__transaction_state")
    assert not broker.broker.transactions.all
    assert (committed(broker), is_stable(broker), is_stable(broker, T1)) == ([], True, True)
    assert mine.refused() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert mine.begin().producer_id != old.producer_id
    mine.write(b"b", T0)
    mine.end()
    assert committed(broker) == [b"b"]
    broker.restart()
    assert set(broker.broker.transactions.all) == {"id"}


def test_a_decision_is_carried_out_though_the_transaction_topic_was_deleted(
    disk: tuple[BrokerDriver, FaultyFileSystem],
) -> None:
    broker, faults = disk
    mine = Coordinated.begun(broker)
    mine.write(b"a", T0)
    fail_after_log_writes(faults, 1)
    mine.end()
    assert mine.state == "PrepareCommit"
    faults.heal()
    broker.delete("__transaction_state")
    assert committed(broker) == [b"a"]
    broker.advance(10_000)
    assert len(markers(broker)) == 1


def test_a_partition_that_an_administrator_has_ended_does_not_delay_the_others(
    broker: BrokerDriver, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Coordinated.begun(broker)
    mine.write(b"a", T0, T1)
    later = ProducerIdAndEpoch(producer_id=mine.producer.producer_id, epoch=9)
    work = broker.broker.markers.write({T0}, later, commit=False, coordinator_epoch=7, version=TV_0)
    broker.run(work)
    with caplog.at_level(logging.WARNING):
        mine.end()
    assert (mine.state, committed(broker), committed(broker, T1)) == ("CompleteCommit", [], [b"a"])
    assert "t-0 needs no marker of id's transaction any more" in caplog.text
