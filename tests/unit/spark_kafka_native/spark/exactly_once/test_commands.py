import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._spark.exactly_once.batch import LastBatch, TaskMessage, WritePlan
from spark_kafka_native._spark.exactly_once.commands import Status, recover, release, run_again, status
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import DecisionRecord, EndTransactions
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.exactly_once.plan import plan
from tests.support.exactly_once.driver import NAMES, QUERY, TIMING, SimulatedKafka


@pytest.fixture
def found(kafka: SimulatedKafka) -> WritePlan:
    """A query was killed after it decided batch 0 and committed half of it; another attempt is open."""
    planned = kafka.run(plan(NAMES, TIMING))
    messages = [kafka.write(planned, 0, attempt) for attempt in range(2)]
    kafka.failing = {"end orders.1.0.0.1.0": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ExactlyOnceError):
        kafka.run(commit(NAMES, messages, TIMING))
    kafka.failing.clear()
    kafka.write(planned, 0, 9)
    return planned


def test_status_changes_nothing(kafka: SimulatedKafka, found: WritePlan) -> None:
    before = kafka.state
    seen = kafka.run(status(NAMES))
    assert isinstance(seen, Status)
    assert seen.last is not None
    assert (seen.last.batch_id, seen.last.finished, len(seen.last.handles)) == (0, False, 2)
    assert seen.open_ids == ("orders.1.0.0.1.0", "orders.1.0.0.9.0")
    assert kafka.state == before


def test_recover_completes_the_batch_and_aborts_the_rest(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(recover(NAMES, TIMING))
    assert kafka.readable() == [(0, 0), (0, 1)]
    assert kafka.open_ids() == []
    seen = kafka.run(status(NAMES))
    assert seen.last is not None
    assert (seen.last.finished, seen.open_ids) == (True, ())


def test_recover_accepts_a_loss_with_the_option(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError, match=r"\.LOST\] "):
        kafka.run(recover(NAMES, TIMING))
    assert kafka.run(recover(NAMES, TIMING, accept_loss=True)).last == LastBatch(QUERY, 0)
    assert kafka.readable() == [(0, 0)]


def decided_and_left(kafka: SimulatedKafka) -> list[TaskMessage]:
    """Batch 0 is decided by the first fence, with one transaction 20 s older than the other; nothing is committed."""
    planned = kafka.run(plan(NAMES, TIMING))
    first = kafka.write(planned, 0, 0)
    kafka.advance(seconds=20)
    messages = [first, kafka.write(planned, 0, 1)]
    kafka.run_until(commit(NAMES, messages, TIMING), EndTransactions, times=2)
    return messages


def test_unreadable_decided_batch_can_run_again(kafka: SimulatedKafka) -> None:
    messages = decided_and_left(kafka)
    kafka.advance(seconds=41)
    with pytest.raises(ExactlyOnceError, match="LOST"):
        kafka.run(recover(NAMES, TIMING))
    kafka.run(run_again(NAMES, TIMING))
    with pytest.raises(ExactlyOnceError):  # the driver that decided resumes
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.open_ids() == []
    after = kafka.run(plan(NAMES, TIMING))
    assert after.last == LastBatch(QUERY, -1)
    last = kafka.run(status(NAMES)).last
    assert last is not None
    assert last.rows is None, "the rows of the batch before are not known"
    kafka.run(commit(NAMES, [kafka.write(after, 0, 7)], TIMING))
    assert kafka.readable() == [(0, 7)]
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, 0)


def test_committable_batch_cannot_run_again(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    with pytest.raises(ExactlyOnceError, match=r"\.REFUSED\] .*can still be committed: .* recover orders"):
        kafka.run(run_again(NAMES, TIMING))
    kafka.run(recover(NAMES, TIMING))
    assert kafka.readable() == [(0, 0), (0, 1)]
    with pytest.raises(ExactlyOnceError, match="every decided batch is committed, so none can run again"):
        kafka.run(run_again(NAMES, TIMING))


def test_partly_committed_batch_cannot_run_again(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError, match="transactions of batch 0 are committed already: 1"):
        kafka.run(run_again(NAMES, TIMING))


def test_batch_that_cannot_be_aborted_cannot_run_again(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=41)
    kafka.failing = {"end orders.1.0.0.1.0": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ExactlyOnceError, match="not all of batch 0 could be aborted"):
        kafka.run(run_again(NAMES, TIMING))
    kafka.failing.clear()
    kafka.run(run_again(NAMES, TIMING))
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, -1)


def test_prefix_with_a_corrupt_decision_can_be_released(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.append(DecisionRecord(b"decision", b"who wrote this?"))
    with pytest.raises(ExactlyOnceError, match="is not JSON"):
        kafka.run(recover(NAMES, TIMING))
    kafka.run(release(NAMES, TIMING))
    assert kafka.run(plan(NAMES, TIMING)).last is None
    assert kafka.open_ids() == []


def test_released_prefix_can_be_used_by_another_query(kafka: SimulatedKafka, found: WritePlan) -> None:
    other = Owner(OwnerKind.QUERY, "other")
    before = kafka.run(plan(NAMES, TIMING))
    with pytest.raises(ExactlyOnceError, match="REFUSED"):
        kafka.write(before, 40, 0, other)
    kafka.run(release(NAMES, TIMING))
    after = kafka.run(plan(NAMES, TIMING))
    assert after.last is None
    kafka.run(commit(NAMES, [kafka.write(after, 40, 0, other)], TIMING))
    assert kafka.readable() == [(0, 0), (0, 1), (40, 0)]
