import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import LastBatch, WritePlan
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import EndTransactions
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.plan import plan
from tests.support.exactly_once.driver import NAMES, QUERY, TIMING, SimulatedKafka


def planned(kafka: SimulatedKafka) -> WritePlan:
    return kafka.run(plan(NAMES, TIMING))


def decided_and_left(kafka: SimulatedKafka, tasks: int = 2) -> None:
    """A driver is killed after its decision."""
    found = planned(kafka)
    messages = [kafka.write(found, 0, attempt) for attempt in range(tasks)]
    for name in (message.handle.transactional_id for message in messages if message.handle):
        kafka.failing[f"end {name}"] = ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(ExactlyOnceError, match=r"\.OUTCOME_UNKNOWN\] "):
        kafka.run(commit(NAMES, messages, TIMING))
    kafka.failing.clear()


def test_a_new_prefix_has_no_last_batch(kafka: SimulatedKafka) -> None:
    assert planned(kafka) == WritePlan("orders", ProducerIdAndEpoch(1, 0), None)
    assert kafka.asked == ["list orders", "init orders.driver", "read"]


def test_every_plan_has_another_fence(kafka: SimulatedKafka) -> None:
    assert len({planned(kafka).fence for _ in range(5)}) == 5


def test_fenced_driver_cannot_decide(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    messages = [kafka.write(found, 0, 0)]
    planned(kafka)
    with pytest.raises(ExactlyOnceError, match=r"\.FENCED\] .*another run of the query has fenced this one"):
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.readable() == []


def test_open_decision_is_aborted_by_the_next_plan(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    kafka.run_until(commit(NAMES, [kafka.write(found, 0, 0)], TIMING), EndTransactions)
    assert kafka.transaction("orders.driver") == "Ongoing"
    assert planned(kafka).last is None
    assert kafka.open_ids() == []


def test_decided_batch_is_completed_by_the_next_plan(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    assert kafka.readable() == []
    found = planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]
    assert found.last == LastBatch(QUERY, 0)
    assert planned(kafka).last == LastBatch(QUERY, 0)
    assert [request for request in kafka.asked if request.startswith("end")] == []  # it is marked as finished


def test_driver_can_decide_after_completing_a_batch(kafka: SimulatedKafka) -> None:
    """Planning has written with its producer; the sequence numbers of the next process begin at 0 again."""
    decided_and_left(kafka, tasks=1)
    job = Owner(OwnerKind.JOB, "j")
    found = WritePlan("orders", planned(kafka).fence, None)
    kafka.run(commit(NAMES, [kafka.write(found, 0, 7, job)], TIMING))
    assert planned(kafka).last == LastBatch(job, 0)
    assert kafka.readable() == [(0, 0), (0, 7)]


def test_undecided_transactions_are_aborted_by_the_next_plan(kafka: SimulatedKafka) -> None:
    kafka.write(planned(kafka), 0, 0)
    for name in ("other.1.0.0.0.0", "orders.more.1.0.0.0.0", "orders.1.2.3", "orders.x"):
        kafka.open(name)
    assert "orders.1.0.0.0.0" in kafka.open_ids()
    planned(kafka)
    assert kafka.open_ids() == ["orders.1.2.3", "orders.more.1.0.0.0.0", "orders.x", "other.1.0.0.0.0"]


def test_aborted_decided_batch_is_lost(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=61)
    for _ in range(2):
        with pytest.raises(ExactlyOnceError, match=r"\.LOST\] ") as caught:
            planned(kafka)
    text = str(caught.value)
    assert "transactions of it (2 of 2)" in text
    assert "rows-0 offsets 0 to 0, rows-1 offsets 0 to 0" in text
    assert "so the whole batch can run again: pykafka exactly-once run-again orders" in text


def test_partly_aborted_decided_batch_is_lost(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.failing["end orders.1.0.0.1.0"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ExactlyOnceError):
        planned(kafka)
    kafka.failing.clear()
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError) as caught:
        planned(kafka)
    assert caught.value.kind is ErrorKind.LOST
    assert "transactions of it (1 of 2)" in str(caught.value)
    assert "rows-1 offsets 0 to 0 are not readable" in str(caught.value)
    assert "recover --accept-loss orders" in str(caught.value)


def test_batch_with_an_aborted_transaction_is_not_committed(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    first = kafka.write(found, 0, 0)
    kafka.advance(seconds=20)
    messages = [first, kafka.write(found, 0, 1)]
    steps = commit(NAMES, messages, TIMING)
    kafka.run_until(steps, EndTransactions, times=2)
    kafka.advance(seconds=41)
    assert kafka.open_ids() == ["orders.1.0.0.1.0"]
    with pytest.raises(ExactlyOnceError, match=r"transactions of it \(1 of 2\).*run-again orders"):
        planned(kafka)
    assert kafka.open_ids() == ["orders.1.0.0.1.0"]
    assert kafka.readable() == []


def test_accepted_loss_finishes_the_batch(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=61)
    assert kafka.run(plan(NAMES, TIMING, accept_loss=True)).last == LastBatch(QUERY, 0)
    assert planned(kafka).last == LastBatch(QUERY, 0)


def test_unknown_commit_outcome_stops_the_plan(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.failing["end orders.1.0.0.1.0"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ExactlyOnceError, match=r"\.OUTCOME_UNKNOWN\] "):
        kafka.run(plan(NAMES, TIMING, accept_loss=True))
    kafka.failing.clear()
    planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]


def test_lost_end_txn_response_is_looked_up(kafka: SimulatedKafka) -> None:
    """EndTxn was executed, and its responses were lost."""
    decided_and_left(kafka)
    planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]
    decided = kafka.state.log[0]
    kafka.state = kafka.state._replace(log=(decided,))  # as before it was marked as finished
    kafka.failing["end orders.1.0.0.0.0"] = ErrorCode.REQUEST_TIMED_OUT
    assert kafka.run(plan(NAMES, TIMING)).last == LastBatch(QUERY, 0)


def test_unavailable_coordinator_stops_the_plan(kafka: SimulatedKafka) -> None:
    for asked in ("list", "init orders.driver", "read"):
        kafka.failing = {asked: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            planned(kafka)
