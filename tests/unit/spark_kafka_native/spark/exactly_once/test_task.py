import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once.batch import LastBatch, TaskOutcome, WritePlan
from spark_kafka_native._spark.exactly_once.effects import InitProducer, WrittenRange
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.exactly_once.task import task
from tests.support.exactly_once.driver import QUERY, TIMING, SimulatedKafka

PLAN = WritePlan("orders", ProducerIdAndEpoch(1, 4), None)


def test_rows_are_left_in_an_open_transaction(kafka: SimulatedKafka) -> None:
    message = kafka.write(PLAN, 0, 3)
    assert (message.fence, message.owner, message.batch_id) == (PLAN.fence, QUERY, 0)
    assert message.outcome is TaskOutcome.WRITTEN
    assert message.handle is not None
    assert message.handle.transactional_id == "orders.1.4.0.3.0"
    assert message.handle.written == (WrittenRange(TopicPartition("rows", 3), 0, 1),)
    assert kafka.open_ids() == ["orders.1.4.0.3.0"]


def test_task_without_rows_sends_no_request(kafka: SimulatedKafka) -> None:
    message = kafka.write(PLAN, 0, 3, rows=False)
    assert (message.outcome, message.handle, kafka.asked) == (TaskOutcome.EMPTY, None, [])


def test_task_of_the_last_batch_is_skipped(kafka: SimulatedKafka) -> None:
    message = kafka.write(WritePlan("orders", ProducerIdAndEpoch(1, 4), LastBatch(QUERY, 6)), 6, 3)
    assert (message.outcome, message.handle, kafka.asked) == (TaskOutcome.SKIPPED, None, [])


def test_batch_out_of_order_is_refused_before_a_write(kafka: SimulatedKafka) -> None:
    with pytest.raises(ExactlyOnceError, match="REFUSED"):
        kafka.write(WritePlan("orders", ProducerIdAndEpoch(1, 4), LastBatch(QUERY, 6)), 8, 3)
    assert kafka.asked == []


def test_transactional_id_with_a_lost_init_response_is_not_reused(kafka: SimulatedKafka) -> None:
    kafka.failing["init orders.1.4.0.3.0"] = ErrorCode.REQUEST_TIMED_OUT
    message = kafka.write(PLAN, 0, 3)
    assert kafka.asked == ["init orders.1.4.0.3.0", "init orders.1.4.0.3.1", "rows orders.1.4.0.3.1"]
    assert message.handle is not None
    assert message.handle.transactional_id == "orders.1.4.0.3.1"


def test_init_producer_id_of_a_task_is_not_retried() -> None:
    effect = next(task(PLAN, QUERY, 0, 3, TIMING, has_rows=True))
    assert isinstance(effect, InitProducer)
    assert (effect.once, effect.claimed, effect.timeout_ms) == (True, None, 60_000)


@pytest.mark.parametrize(
    ("code", "times"), [(ErrorCode.REQUEST_TIMED_OUT, 3), (ErrorCode.INVALID_TRANSACTION_TIMEOUT, 1)]
)
def test_task_fails_after_three_transactional_ids(kafka: SimulatedKafka, code: ErrorCode, times: int) -> None:
    kafka.failing["init"] = code
    with pytest.raises(KafkaError, match=code.name):
        kafka.write(PLAN, 0, 3)
    assert len(kafka.asked) == times


def test_failed_task_aborts_its_transaction(kafka: SimulatedKafka) -> None:
    kafka.failing["rows"] = ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        kafka.write(PLAN, 0, 3)
    assert kafka.asked == ["init orders.1.4.0.3.0", "rows orders.1.4.0.3.0", "end orders.1.4.0.3.0"]
    assert kafka.open_ids() == []


def test_failed_task_raises_its_first_error(kafka: SimulatedKafka) -> None:
    kafka.failing = {"rows": ErrorCode.MESSAGE_TOO_LARGE, "end": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        kafka.write(PLAN, 0, 3)
