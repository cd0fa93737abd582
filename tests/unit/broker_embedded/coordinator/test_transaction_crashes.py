import logging
from pathlib import Path

import pytest

from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.coordinator_driver import (
    MINUTE_MS,
    T0,
    T1,
    TV_0,
    TV_2,
    Coordinated,
    committed,
    fail_after_log_writes,
    is_stable,
    markers,
)
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash
from tests.support.broker.driver import BrokerDriver
from tests.support.refusals import refused

BOTH = pytest.mark.parametrize("version", [TV_0, TV_2])


@pytest.fixture
def broker(disk: tuple[BrokerDriver, FaultyFileSystem]) -> BrokerDriver:
    """A broker on a disk without faults."""
    return disk[0]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_every_state_is_loaded_after_a_crash(broker: BrokerDriver, how: str) -> None:
    ids = {name: Coordinated(broker, name) for name in ("empty", "ongoing", "committed", "aborted")}
    for one in ids.values():
        one.begin()
        if one.name != "empty":
            one.write(one.name.encode(), T0)
    ids["committed"].end()
    ids["aborted"].end(commit=False)
    before = dict(broker.broker.transactions.all)
    getattr(broker, how)()
    for name, known in broker.broker.transactions.all.items():
        assert known.state is before[name].state
        assert known.partitions == before[name].partitions
        assert (known.producer_id, known.producer_epoch) == (before[name].producer_id, before[name].producer_epoch)
    ids["ongoing"].end()
    assert committed(broker) == [b"ongoing", b"committed"]


@BOTH
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("of", ["process", "process, torn", "machine"])
def test_a_crash_at_every_step_of_an_end_leaves_one_outcome(version: TransactionVersion, commit: bool, of: str) -> None:
    outcomes = []
    settings = {"log.flush.interval.messages": 1} if of == "machine" else {}
    for step in range(100):
        memory = MemoryFileSystem()
        faults = FaultyFileSystem(memory)
        with BrokerDriver(Path("/data"), settings, file_system=faults) as broker:
            broker.create("t", partitions=2)
            mine = Coordinated.begun(broker, version=version)
            mine.write(b"a", T0, T1)
            crashed = _end_with_crash(mine, faults, step, commit=commit, torn="torn" in of)
            if crashed:
                broker.drop()
                memory.crash() if of == "machine" else memory.restart()
                faults.revive()
                broker.open()
            outcomes.append(_outcome_after_restart(mine))
        if not crashed:
            break
    assert not crashed
    decided = outcomes.index((commit, True))
    assert decided >= 1
    assert outcomes[:decided] == [(False, False)] * decided  # nothing was decided: it timed out
    assert outcomes[decided:] == [(commit, True)] * (len(outcomes) - decided)
    assert len(outcomes) - decided >= 4  # before and after each of two markers, before Complete, and without a crash


def _end_with_crash(mine: Coordinated, faults: FaultyFileSystem, step: int, *, commit: bool, torn: bool) -> bool:
    """Whether the crash came before the end."""
    faults.steps, faults.crash_at, faults.torn = [], step, torn
    try:
        mine.broker.run(
            mine.broker.broker.transactions.end(mine.name, mine.producer, commit=commit, version=mine.version)
        )
    except SimulatedCrash:
        return True
    faults.crash_at = None
    return False


def _outcome_after_restart(mine: Coordinated) -> tuple[bool, bool]:
    """Whether it is committed, and whether without the timeout; the same in all partitions."""
    broker = mine.broker
    broker.run(broker.broker.transactions.make_ready())
    broker.run(broker.broker.shielded_tasks.wait())
    at_once = mine.state in {"CompleteCommit", "CompleteAbort"}
    if not at_once:
        assert mine.state == "Ongoing"
        assert not is_stable(broker)
        broker.advance(MINUTE_MS + 1)
        broker.run(broker.broker.transactions.abort_timed_out())
    found = [committed(broker, partition) for partition in (T0, T1)]
    assert found[0] == found[1]
    assert all(is_stable(broker, partition) for partition in (T0, T1))
    mine.begin()
    mine.write(b"next", T0)
    mine.end()
    assert committed(broker)[-1] == b"next"
    return found[0] == [b"a"], at_once


def test_an_end_that_cannot_be_written_down_changes_nothing(disk: tuple[BrokerDriver, FaultyFileSystem]) -> None:
    broker, faults = disk
    mine = Coordinated.begun(broker)
    mine.write(b"a", T0)
    faults.fail("write *.log")
    assert mine.refused() is ErrorCode.NOT_COORDINATOR
    assert (mine.state, markers(broker)) == ("Ongoing", [])
    faults.heal()
    mine.end()
    assert committed(broker) == [b"a"]


@pytest.mark.parametrize("failing", ["marker", "complete"])
def test_the_markers_of_a_decision_are_retried_until_they_are_written(
    disk: tuple[BrokerDriver, FaultyFileSystem], failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker, faults = disk
    mine = Coordinated(broker)
    before = mine.begin()
    mine.write(b"a", T0, T1)
    fail_after_log_writes(faults, {"marker": 2, "complete": 3}[failing])
    with caplog.at_level(logging.WARNING):
        after = mine.end()
        assert after.epoch == 1
        assert mine.state == "PrepareCommit"
        mine.use(before)
        assert mine.refused() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert refused(mine.begin).code is ErrorCode.CONCURRENT_TRANSACTIONS
        broker.advance(10_000)
    assert mine.state == "PrepareCommit"
    assert caplog.text.count("yet") == 1  # and not every second
    faults.heal()
    broker.advance(1_000)
    assert mine.state == "CompleteCommit"
    for partition in (T0, T1):
        assert markers(broker, partition) == [("COMMIT", after.producer_id, 1)]
        assert committed(broker, partition) == [b"a"]
