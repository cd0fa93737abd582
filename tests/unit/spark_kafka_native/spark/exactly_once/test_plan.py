"""Planning fences who was there, completes what is decided, and aborts what nobody decided."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import LastBatch, WritePlan
from spark_kafka_native.spark.exactly_once.commit import commit
from spark_kafka_native.spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native.spark.exactly_once.effects import EndTransactions
from spark_kafka_native.spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native.spark.exactly_once.plan import plan
from tests.support.exactly_once_driver import NAMES, QUERY, TIMING, SimulatedKafka


def planned(kafka: SimulatedKafka) -> WritePlan:
    return kafka.run(plan(NAMES, TIMING))


def decided_and_left(kafka: SimulatedKafka, tasks: int = 2) -> None:
    """A driver dies behind its decision."""
    found = planned(kafka)
    messages = [kafka.write(found, 0, attempt) for attempt in range(tasks)]
    for name in (message.handle.transactional_id for message in messages if message.handle):
        kafka.failing[f"end {name}"] = ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(ExactlyOnceError) as caught:
        kafka.run(commit(NAMES, messages, TIMING))
    assert caught.value.kind is ErrorKind.UNKNOWN
    kafka.failing.clear()


def test_a_new_prefix_has_no_last_batch(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    assert found == WritePlan("orders", ProducerIdAndEpoch(1, 0), None)
    assert kafka.asked == ["list orders", "init orders.driver", "read"]


def test_every_planning_has_a_fence_of_its_own(kafka: SimulatedKafka) -> None:
    assert len({planned(kafka).fence for _ in range(5)}) == 5


def test_an_earlier_driver_decides_nothing_any_more(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    messages = [kafka.write(found, 0, 0)]
    planned(kafka)
    with pytest.raises(ExactlyOnceError, match="another run of the query has fenced this one") as caught:
        kafka.run(commit(NAMES, messages, TIMING))
    assert caught.value.kind is ErrorKind.FENCED
    assert kafka.readable() == []


def test_a_decision_that_is_still_open_is_aborted(kafka: SimulatedKafka) -> None:
    found = planned(kafka)
    kafka.run_until(commit(NAMES, [kafka.write(found, 0, 0)], TIMING), EndTransactions)
    assert kafka.transaction("orders.driver") == "Ongoing"
    assert planned(kafka).last is None
    assert kafka.open_ids() == []


def test_a_decided_batch_is_completed(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    assert kafka.readable() == []
    found = planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]
    assert found.last == LastBatch(QUERY, 0)
    assert planned(kafka).last == LastBatch(QUERY, 0)
    assert [asked for asked in kafka.asked if asked.startswith("end")] == []  # it is written down


def test_who_comes_after_a_completion_can_decide(kafka: SimulatedKafka) -> None:
    """Planning has written with its producer; the sequence numbers of the next process begin at 0 again."""
    decided_and_left(kafka, tasks=1)
    job = Owner(OwnerKind.JOB, "j")
    found = WritePlan("orders", planned(kafka).fence, None)
    kafka.run(commit(NAMES, [kafka.write(found, 0, 7, job)], TIMING))
    assert planned(kafka).last == LastBatch(job, 0)
    assert kafka.readable() == [(0, 0), (0, 7)]


def test_what_nobody_decided_is_aborted_and_fenced(kafka: SimulatedKafka) -> None:
    kafka.write(planned(kafka), 0, 0)
    for name in ("other.1.0.0.0.0", "orders.more.1.0.0.0.0", "orders.1.2.3", "orders.x"):
        kafka.open(name)
    assert "orders.1.0.0.0.0" in kafka.open_ids()
    planned(kafka)
    assert kafka.open_ids() == ["orders.1.2.3", "orders.more.1.0.0.0.0", "orders.x", "other.1.0.0.0.0"]


def test_what_the_broker_has_aborted_stops_everything(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=61)
    for _ in range(2):
        with pytest.raises(ExactlyOnceError) as caught:
            planned(kafka)
        assert caught.value.kind is ErrorKind.LOST
    text = str(caught.value)
    assert "2 of its 2 transactions" in text
    assert "rows-0 offsets 0 to 0, rows-1 offsets 0 to 0" in text
    assert "so the whole batch can run again: python -m spark_kafka_native.tools exactly-once run-again orders" in text


def test_a_part_that_the_broker_has_aborted_stops_everything(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.failing["end orders.1.0.0.1.0"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ExactlyOnceError):
        planned(kafka)
    kafka.failing.clear()
    kafka.advance(seconds=61)
    with pytest.raises(ExactlyOnceError) as caught:
        planned(kafka)
    assert caught.value.kind is ErrorKind.LOST
    assert "1 of its 2 transactions" in str(caught.value)
    assert "rows-1 offsets 0 to 0 are not readable" in str(caught.value)
    assert "recover --accept-loss orders" in str(caught.value)


def test_of_a_batch_that_can_run_again_nothing_is_committed(kafka: SimulatedKafka) -> None:
    """One transaction is older than the other."""
    found = planned(kafka)
    first = kafka.write(found, 0, 0)
    kafka.advance(seconds=20)
    messages = [first, kafka.write(found, 0, 1)]
    steps = commit(NAMES, messages, TIMING)
    kafka.run_until(steps, EndTransactions, times=2)
    kafka.advance(seconds=41)
    assert kafka.open_ids() == ["orders.1.0.0.1.0"]
    with pytest.raises(ExactlyOnceError, match=r"1 of its 2 transactions.*run-again orders"):
        planned(kafka)
    assert kafka.open_ids() == ["orders.1.0.0.1.0"]
    assert kafka.readable() == []


def test_a_loss_can_be_accepted(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.advance(seconds=61)
    found = kafka.run(plan(NAMES, TIMING, accept_loss=True))
    assert found.last == LastBatch(QUERY, 0)
    assert planned(kafka).last == LastBatch(QUERY, 0)


def test_who_cannot_find_out_whether_all_is_committed_stops(kafka: SimulatedKafka) -> None:
    decided_and_left(kafka)
    kafka.failing["end orders.1.0.0.1.0"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ExactlyOnceError) as caught:
        kafka.run(plan(NAMES, TIMING, accept_loss=True))
    assert caught.value.kind is ErrorKind.UNKNOWN
    kafka.failing.clear()
    planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]


def test_an_answer_that_was_lost_is_looked_up(kafka: SimulatedKafka) -> None:
    """EndTxn was carried out, and every answer to it lost."""
    decided_and_left(kafka)
    planned(kafka)
    assert kafka.readable() == [(0, 0), (0, 1)]
    decided = kafka.state.log[0]
    kafka.state = kafka.state._replace(log=(decided,))  # as before it was written down
    kafka.failing["end orders.1.0.0.0.0"] = ErrorCode.REQUEST_TIMED_OUT
    found = kafka.run(plan(NAMES, TIMING))
    assert found.last == LastBatch(QUERY, 0)


def test_what_cannot_be_asked_stops_planning(kafka: SimulatedKafka) -> None:
    for asked in ("list", "init orders.driver", "read"):
        kafka.failing = {asked: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            planned(kafka)
