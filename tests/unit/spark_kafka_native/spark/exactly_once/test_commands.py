"""What commands do with a prefix."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.spark.exactly_once.batch import LastBatch, TaskMessage, WritePlan
from spark_kafka_native.spark.exactly_once.commands import Status, recover, release, run_again, status
from spark_kafka_native.spark.exactly_once.commit import commit
from spark_kafka_native.spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native.spark.exactly_once.effects import DecisionRecord, EndTransactions
from spark_kafka_native.spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native.spark.exactly_once.plan import plan
from tests.support.exactly_once_driver import NAMES, QUERY, TIMING, SimulatedKafka


@pytest.fixture
def found(kafka: SimulatedKafka) -> WritePlan:
    """A query has decided batch 0, committed half of it, and died; a task of it still has something open."""
    planned = kafka.run(plan(NAMES, TIMING))
    messages = [kafka.write(planned, 0, attempt) for attempt in range(2)]
    kafka.failing = {"end orders.1.0.0.1.0": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ExactlyOnceError):
        kafka.run(commit(NAMES, messages, TIMING))
    kafka.failing.clear()
    kafka.write(planned, 0, 9)
    return planned


def test_looking_changes_nothing(kafka: SimulatedKafka, found: WritePlan) -> None:
    before = kafka.state
    seen = kafka.run(status(NAMES))
    assert isinstance(seen, Status)
    assert seen.last is not None
    assert (seen.last.batch_id, seen.last.finished, len(seen.last.handles)) == (0, False, 2)
    assert seen.open_ids == ("orders.1.0.0.1.0", "orders.1.0.0.9.0")
    assert kafka.state == before


def test_a_recovery_completes_and_cleans(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(recover(NAMES, TIMING))
    assert kafka.readable() == [(0, 0), (0, 1)]
    assert kafka.open_ids() == []
    seen = kafka.run(status(NAMES))
    assert seen.last is not None
    assert (seen.last.finished, seen.open_ids) == (True, ())


def test_a_loss_is_accepted_where_it_is_asked_for(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError) as caught:
        kafka.run(recover(NAMES, TIMING))
    assert caught.value.kind is ErrorKind.LOST
    recovered = kafka.run(recover(NAMES, TIMING, accept_loss=True))
    assert recovered.last == LastBatch(QUERY, 0)
    assert kafka.readable() == [(0, 0)]


def decided_and_left(kafka: SimulatedKafka) -> list[TaskMessage]:
    """Batch 0 is decided by the first fence, with one transaction 20 s older than the other; nothing is committed."""
    planned = kafka.run(plan(NAMES, TIMING))
    first = kafka.write(planned, 0, 0)
    kafka.advance(seconds=20)
    messages = [first, kafka.write(planned, 0, 1)]
    kafka.run_until(commit(NAMES, messages, TIMING), EndTransactions, times=2)
    return messages


def test_a_batch_of_which_nothing_is_readable_can_run_again(kafka: SimulatedKafka) -> None:
    messages = decided_and_left(kafka)
    kafka.advance(seconds=41)
    with pytest.raises(ExactlyOnceError, match="LOST"):
        kafka.run(recover(NAMES, TIMING))
    kafka.run(run_again(NAMES, TIMING))
    with pytest.raises(ExactlyOnceError):  # the driver that decided wakes up
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.open_ids() == []
    after = kafka.run(plan(NAMES, TIMING))
    assert after.last == LastBatch(QUERY, -1)
    kafka.run(commit(NAMES, [kafka.write(after, 0, 7)], TIMING))
    assert kafka.readable() == [(0, 7)]
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, 0)


def test_a_batch_that_can_be_committed_does_not_run_again(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    with pytest.raises(ExactlyOnceError, match=r"can still be committed: .* recover orders") as caught:
        kafka.run(run_again(NAMES, TIMING))
    assert caught.value.kind is ErrorKind.REFUSED
    kafka.run(recover(NAMES, TIMING))
    assert kafka.readable() == [(0, 0), (0, 1)]
    with pytest.raises(ExactlyOnceError, match="there is no decided batch"):
        kafka.run(run_again(NAMES, TIMING))


def test_a_batch_of_which_something_is_readable_does_not_run_again(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError, match="1 transactions of batch 0 are committed already"):
        kafka.run(run_again(NAMES, TIMING))


def test_a_batch_that_cannot_be_aborted_does_not_run_again(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=41)
    kafka.failing = {"end orders.1.0.0.1.0": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ExactlyOnceError, match="not all of batch 0 could be aborted"):
        kafka.run(run_again(NAMES, TIMING))
    kafka.failing.clear()
    kafka.run(run_again(NAMES, TIMING))
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, -1)


def test_a_prefix_whose_decisions_are_not_understood_can_be_released(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.append(DecisionRecord(b"decision", b"who wrote this?"))
    with pytest.raises(ExactlyOnceError, match="is not JSON"):
        kafka.run(recover(NAMES, TIMING))
    kafka.run(release(NAMES, TIMING))
    after = kafka.run(plan(NAMES, TIMING))
    assert after.last is None
    assert kafka.open_ids() == []


def test_a_released_prefix_is_anybodys(kafka: SimulatedKafka, found: WritePlan) -> None:
    other = Owner(OwnerKind.QUERY, "other")
    before = kafka.run(plan(NAMES, TIMING))
    with pytest.raises(ExactlyOnceError, match="REFUSED"):
        kafka.write(before, 40, 0, other)
    kafka.run(release(NAMES, TIMING))
    after = kafka.run(plan(NAMES, TIMING))
    assert after.last is None
    kafka.run(commit(NAMES, [kafka.write(after, 40, 0, other)], TIMING))
    assert kafka.readable() == [(0, 0), (0, 1), (40, 0)]
