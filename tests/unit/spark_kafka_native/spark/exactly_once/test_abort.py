from collections.abc import Sequence

import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.exactly_once.abort import AbortResult, abort
from spark_kafka_native._spark.exactly_once.batch import LastBatch, TaskMessage, WritePlan
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.effects import EndTransactions
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.exactly_once.plan import plan
from tests.support.exactly_once.driver import NAMES, QUERY, TIMING, SimulatedKafka


@pytest.fixture
def found(kafka: SimulatedKafka) -> WritePlan:
    return kafka.run(plan(NAMES, TIMING))


@pytest.fixture
def messages(kafka: SimulatedKafka, found: WritePlan) -> list[TaskMessage]:
    return [kafka.write(found, 0, attempt) for attempt in range(2)]


def given_up(kafka: SimulatedKafka, messages: Sequence[TaskMessage | None]) -> bool:
    result = kafka.run(abort(NAMES, messages, TIMING))
    assert isinstance(result, AbortResult)
    return not result.decided


def test_abort_without_messages_sends_no_request(kafka: SimulatedKafka) -> None:
    assert given_up(kafka, [None, None])
    assert kafka.asked == []


def test_undecided_batch_is_aborted_with_all_attempts(
    kafka: SimulatedKafka, found: WritePlan, messages: list[TaskMessage]
) -> None:
    kafka.write(found, 0, 7)
    assert given_up(kafka, [messages[0], None])
    assert kafka.open_ids() == []
    assert kafka.readable() == []


def test_aborted_batch_cannot_be_decided(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    assert given_up(kafka, messages)
    with pytest.raises(ExactlyOnceError, match=r"\.FENCED\] "):
        kafka.run(commit(NAMES, messages, TIMING))
    assert kafka.readable() == []


def test_open_decision_is_aborted(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    kafka.run_until(commit(NAMES, messages, TIMING), EndTransactions)
    assert given_up(kafka, messages)
    assert kafka.transaction("orders.driver") == "CompleteAbort"
    assert kafka.open_ids() == []


def test_abort_completes_a_decided_batch(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    kafka.failing = {"end orders.1.0.0.1.0": ErrorCode.REQUEST_TIMED_OUT}
    with pytest.raises(ExactlyOnceError, match="OUTCOME_UNKNOWN"):
        kafka.run(commit(NAMES, messages, TIMING))
    kafka.failing.clear()
    assert kafka.readable() == [(0, 0)]
    assert not given_up(kafka, messages)
    assert kafka.readable() == [(0, 0), (0, 1)]


def test_abort_keeps_a_finished_batch(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    kafka.run(commit(NAMES, messages, TIMING))
    assert not given_up(kafka, messages)
    assert [request for request in kafka.asked if request.startswith("end")] == []
    assert kafka.readable() == [(0, 0), (0, 1)]


def test_abort_does_not_fence_a_newer_driver(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    newer = kafka.run(plan(NAMES, TIMING))
    theirs = [kafka.write(newer, 0, 5)]
    kafka.run_until(commit(NAMES, theirs, TIMING), EndTransactions)
    with pytest.raises(KafkaError):  # its decision is open
        kafka.run(abort(NAMES, messages, TIMING))
    assert kafka.transaction("orders.driver") == "Ongoing"
    assert "init orders.driver" not in kafka.asked


def test_abort_keeps_a_skipped_batch(kafka: SimulatedKafka, messages: list[TaskMessage]) -> None:
    kafka.run(commit(NAMES, messages, TIMING))
    again = kafka.run(plan(NAMES, TIMING))
    assert again.last == LastBatch(QUERY, 0)
    assert given_up(kafka, [kafka.write(again, 0, 9)])
    assert kafka.readable() == [(0, 0), (0, 1)]


@pytest.mark.parametrize("api", ["describe orders.driver", "init orders.driver", "read"])
def test_abort_without_a_response_changes_nothing(kafka: SimulatedKafka, messages: list[TaskMessage], api: str) -> None:
    kafka.failing = {api: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        kafka.run(abort(NAMES, messages, TIMING))
    assert len(kafka.open_ids()) == 2
    assert not any(asked.startswith(("end", "abort")) for asked in kafka.asked)
