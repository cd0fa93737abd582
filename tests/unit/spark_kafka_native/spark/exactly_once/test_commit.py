from dataclasses import replace

import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.exactly_once.batch import LastBatch, TaskMessage, WritePlan
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Decision, decision_records
from spark_kafka_native._spark.exactly_once.effects import EndTransactions
from spark_kafka_native._spark.exactly_once.ending import read_last
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.plan import plan
from tests.support.exactly_once.driver import NAMES, QUERY, TIMING, SimulatedKafka


@pytest.fixture
def found(kafka: SimulatedKafka) -> WritePlan:
    return kafka.run(plan(NAMES, TIMING))


def written(kafka: SimulatedKafka, found: WritePlan, tasks: int = 2) -> list[TaskMessage]:
    return [kafka.write(found, 0, attempt) for attempt in range(tasks)]


def refused(kafka: SimulatedKafka, messages: list[TaskMessage]) -> ExactlyOnceError:
    with pytest.raises(ExactlyOnceError) as caught:
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.readable() == []
    return caught.value


def test_committed_batch_is_readable_and_finished(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(commit(NAMES, written(kafka, found), TIMING))
    assert kafka.readable() == [(0, 0), (0, 1)]
    last = kafka.run(read_last(NAMES))
    assert last is not None
    assert (last.owner, last.batch_id, last.finished, last.fence) == (QUERY, 0, True, found.fence)


def test_no_row_is_readable_before_the_decision(kafka: SimulatedKafka, found: WritePlan) -> None:
    messages = written(kafka, found)
    kafka.run_until(commit(NAMES, messages, TIMING), EndTransactions)
    assert kafka.readable() == []
    assert kafka.transaction("orders.driver") == "Ongoing"


def test_tasks_are_described_inside_the_decision_transaction(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(commit(NAMES, written(kafka, found, tasks=1), TIMING))
    first = [asked.partition(" ")[0] for asked in kafka.asked if not asked.startswith("add")]
    assert first[:4] == ["produce", "describe", "now", "end"]


def test_transactions_of_other_attempts_are_aborted(kafka: SimulatedKafka, found: WritePlan) -> None:
    messages = written(kafka, found, tasks=1)
    kafka.write(found, 0, 8)
    later = WritePlan("orders", replace(found.fence, epoch=found.fence.epoch + 1), None)
    kafka.write(later, 1, 9)
    kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.open_ids() == [f"orders.1.{later.fence.epoch}.1.9.0"]


def test_errors_of_aborting_other_attempts_are_ignored(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.failing = {f"list orders.1.{found.fence.epoch}": ErrorCode.BROKER_NOT_AVAILABLE}
    kafka.run(commit(NAMES, written(kafka, found), TIMING))
    assert kafka.asked[-1].startswith("list")
    assert kafka.readable() == [(0, 0), (0, 1)]


def test_batch_without_rows_is_decided(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(commit(NAMES, [kafka.write(found, 0, attempt, rows=False) for attempt in range(2)], TIMING))
    assert len(kafka.state.log) == 1
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, 0)


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (61, "transaction orders.1.0.0.0.0 is over (CompleteAbort, producer"),
        (31, "has 29000 ms left of its timeout of 60000 ms, less than the margin of 30000"),
    ],
)
def test_ended_transaction_or_one_below_the_margin_is_not_decided(
    kafka: SimulatedKafka, found: WritePlan, seconds: int, reason: str
) -> None:
    messages = written(kafka, found)
    kafka.advance(seconds=seconds)
    error = refused(kafka, messages)
    assert error.kind is ErrorKind.NOT_ALIVE
    assert reason in str(error)


def test_unknown_transaction_is_not_decided(kafka: SimulatedKafka, found: WritePlan) -> None:
    messages = written(kafka, found)
    kafka.state = kafka.state._replace(ids=tuple(item for item in kafka.state.ids if item[0] == "orders.driver"))
    error = refused(kafka, messages)
    assert error.kind is ErrorKind.NOT_ALIVE
    assert "is not known to the broker" in str(error)


def test_suspended_driver_cannot_decide(kafka: SimulatedKafka, found: WritePlan) -> None:
    steps = commit(NAMES, written(kafka, found), TIMING)
    stopped_at = kafka.run_until(steps, EndTransactions)
    kafka.advance(seconds=11)
    with pytest.raises(ExactlyOnceError, match=r"\.FENCED\] "):
        kafka.resume(steps, stopped_at)
    assert kafka.readable() == []


def test_a_skipped_batch_is_decided_and_finished(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(commit(NAMES, written(kafka, found), TIMING))
    again = kafka.run(plan(NAMES, TIMING))
    skipped = [kafka.write(again, 0, attempt) for attempt in (5, 6)]
    kafka.run(commit(NAMES, skipped, TIMING))
    assert kafka.asked == ["read"]
    assert kafka.readable() == [(0, 0), (0, 1)]
    kafka.run(commit(NAMES, [kafka.write(again, 1, 7)], TIMING))
    with pytest.raises(ExactlyOnceError, match=r"\.FENCED\] .*is no longer the last one"):
        kafka.run(commit(NAMES, skipped, TIMING))


@pytest.mark.parametrize("tasks", [1, 3])
def test_skipped_batch_with_other_rows_is_refused(kafka: SimulatedKafka, found: WritePlan, tasks: int) -> None:
    """The checkpoint is a copy from before the last batch; the source has other rows now."""
    kafka.run(commit(NAMES, written(kafka, found), TIMING))
    again = kafka.run(plan(NAMES, TIMING))
    with pytest.raises(ExactlyOnceError) as caught:
        kafka.run(commit(NAMES, [kafka.write(again, 0, 5 + number) for number in range(tasks)], TIMING))
    assert caught.value.kind is ErrorKind.REFUSED
    where = "option 'transactional.id.prefix' = orders: batch 0 of streaming query c0ffee"
    assert f"{where} was written with 2 rows, and now it has {tasks}: the checkpoint is an older" in str(caught.value)
    assert "If it does not exist any more, release the prefix" in str(caught.value)
    assert "exactly-once release orders" in str(caught.value)
    last = kafka.run(read_last(NAMES))
    assert last is not None
    assert (last.batch_id, last.rows) == (0, 2)
    kafka.run(commit(NAMES, [kafka.write(again, 1, 9)], TIMING))  # a run from the newest checkpoint
    assert kafka.readable() == [(0, 0), (0, 1), (1, 9)]


def test_skipped_batch_is_not_compared_with_a_decision_without_rows(kafka: SimulatedKafka, found: WritePlan) -> None:
    kafka.run(commit(NAMES, written(kafka, found), TIMING))
    earlier = Decision(found.fence, QUERY, 0, finished=True)
    kafka.append(decision_records(earlier)[0])
    again = kafka.run(plan(NAMES, TIMING))
    kafka.run(commit(NAMES, [kafka.write(again, 0, 5)], TIMING))
    assert kafka.asked == ["read"]


@pytest.mark.parametrize("api", ["produce", "describe", "end orders.driver"])
def test_commit_without_a_response_leaves_transactions_open(kafka: SimulatedKafka, found: WritePlan, api: str) -> None:
    messages = written(kafka, found)
    kafka.failing = {api: ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.readable() == []
    assert len(kafka.open_ids()) >= 2
