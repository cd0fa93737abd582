"""A task writes in a transaction that nobody else can have, and leaves it open."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import LastBatch, TaskOutcome, WritePlan
from spark_kafka_native.spark.exactly_once.effects import InitProducer, WrittenRange
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native.spark.exactly_once.task import task
from tests.support.exactly_once_driver import QUERY, TIMING, SimulatedKafka

PLAN = WritePlan("orders", ProducerIdAndEpoch(1, 4), None)


def test_rows_are_left_in_an_open_transaction(kafka: SimulatedKafka) -> None:
    message = kafka.write(PLAN, 0, 3)
    assert (message.fence, message.owner, message.batch_id, message.outcome) == (
        PLAN.fence,
        QUERY,
        0,
        TaskOutcome.WRITTEN,
    )
    assert message.handle is not None
    assert message.handle.transactional_id == "orders.1.4.0.3.0"
    assert message.handle.written == (WrittenRange(TopicPartition("rows", 3), 0, 1),)
    assert kafka.open_ids() == ["orders.1.4.0.3.0"]


def test_without_rows_nothing_is_asked(kafka: SimulatedKafka) -> None:
    message = kafka.write(PLAN, 0, 3, rows=False)
    assert (message.outcome, message.handle, kafka.asked) == (TaskOutcome.EMPTY, None, [])


def test_the_last_batch_is_skipped(kafka: SimulatedKafka) -> None:
    message = kafka.write(WritePlan("orders", ProducerIdAndEpoch(1, 4), LastBatch(QUERY, 6)), 6, 3)
    assert (message.outcome, message.handle, kafka.asked) == (TaskOutcome.SKIPPED, None, [])


def test_a_batch_that_does_not_follow_is_refused_before_anything_is_written(kafka: SimulatedKafka) -> None:
    with pytest.raises(ExactlyOnceError, match="REFUSED"):
        kafka.write(WritePlan("orders", ProducerIdAndEpoch(1, 4), LastBatch(QUERY, 6)), 8, 3)
    assert kafka.asked == []


def test_an_id_whose_answer_was_lost_is_left_alone(kafka: SimulatedKafka) -> None:
    kafka.failing["init orders.1.4.0.3.0"] = ErrorCode.REQUEST_TIMED_OUT
    message = kafka.write(PLAN, 0, 3)
    assert kafka.asked == ["init orders.1.4.0.3.0", "init orders.1.4.0.3.1", "rows orders.1.4.0.3.1"]
    assert message.handle is not None
    assert message.handle.transactional_id == "orders.1.4.0.3.1"


def test_ids_are_asked_for_once() -> None:
    effect = next(task(PLAN, QUERY, 0, 3, TIMING, has_rows=True))
    assert isinstance(effect, InitProducer)
    assert (effect.once, effect.claimed, effect.timeout_ms) == (True, None, 60_000)


@pytest.mark.parametrize(
    ("code", "times"), [(ErrorCode.REQUEST_TIMED_OUT, 3), (ErrorCode.INVALID_TRANSACTION_TIMEOUT, 1)]
)
def test_a_task_without_an_id_fails(kafka: SimulatedKafka, code: ErrorCode, times: int) -> None:
    kafka.failing["init"] = code
    with pytest.raises(KafkaError, match=code.name):
        kafka.write(PLAN, 0, 3)
    assert len(kafka.asked) == times


def test_a_task_that_fails_aborts_what_it_has_written(kafka: SimulatedKafka) -> None:
    kafka.failing["rows"] = ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        kafka.write(PLAN, 0, 3)
    assert kafka.asked == ["init orders.1.4.0.3.0", "rows orders.1.4.0.3.0", "end orders.1.4.0.3.0"]
    assert kafka.open_ids() == []


def test_what_a_task_failed_of_is_what_is_told(kafka: SimulatedKafka) -> None:
    kafka.failing = {"rows": ErrorCode.MESSAGE_TOO_LARGE, "end": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        kafka.write(PLAN, 0, 3)
