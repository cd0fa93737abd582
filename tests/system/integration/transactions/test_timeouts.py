from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import described, reaches, shows, values
from tests.support.requests.transactions import code
from tests.system.integration.transactions.conftest import MakeProducer

SOON_MS = 300


def test_a_transaction_is_aborted_after_its_timeout(
    new_producer: MakeProducer, reader: RawClient, topic: str, level: int
) -> None:
    producer = new_producer(level=level, timeout_ms=SOON_MS).begin()
    producer.write(topic, "lost")
    assert described(reader, producer.transactional_id).transaction_timeout_ms == SOON_MS
    reaches(reader, producer.transactional_id, "CompleteAbort")
    shows(reader, topic)
    assert values(reader, topic, committed=False) == ["lost"]
    # The producer is fenced, and may continue with a new epoch (KIP-360 for those of level 1, KIP-890).
    assert code(producer.produce(topic, "late")) is ErrorCode.INVALID_PRODUCER_EPOCH
    expected = ErrorCode.PRODUCER_FENCED if level == 1 else ErrorCode.INVALID_TXN_STATE
    assert code(producer.end(commit=True)) is expected
    heir = new_producer(level=level).begin()
    heir.write(topic, "kept")
    heir.commit()
    shows(reader, topic, "kept")


def test_an_id_without_a_transaction_does_not_time_out(
    new_producer: MakeProducer, reader: RawClient, topic: str, level: int
) -> None:
    idle = new_producer(level=level, timeout_ms=1).begin()
    busy = new_producer("busy-" + idle.transactional_id, timeout_ms=SOON_MS).begin()
    busy.write(topic, "lost")
    reaches(reader, busy.transactional_id, "CompleteAbort")
    assert described(reader, idle.transactional_id).transaction_state == "Empty"
