from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.requests.of_topic import write_txn_markers
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import described, producers, reaches, shows, values
from tests.support.requests.transactions import RawProducer
from tests.system.integration.transactions.conftest import MakeProducer


def listed(reader: RawClient, version: int = 2, **filters: object) -> dict[str, str]:
    response = reader.ask(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]  # by name
    assert response.error_code == 0
    return {state.transactional_id: state.transaction_state for state in response.transaction_states}


def abort(reader: RawClient, topic: str, producer_id: int, epoch: int) -> ErrorCode:
    """A marker from an administrator."""
    (response,) = reader.ask(write_txn_markers(topic, producer_id=producer_id, producer_epoch=epoch), 1).markers
    return ErrorCode.of(response.topics[0].partitions[0].error_code)


def test_the_states_of_a_transaction(producer: RawProducer, reader: RawClient, topic: str) -> None:
    name = producer.transactional_id
    empty = described(reader, name)
    assert (empty.error_code, empty.transaction_state, empty.topics) == (0, "Empty", ())
    assert (empty.producer_id, empty.producer_epoch, empty.transaction_timeout_ms) == (*producer.identity, 60_000)
    assert empty.transaction_start_time_ms == -1
    producer.write(topic, "a", partition=1)
    ongoing = described(reader, name)
    assert ongoing.transaction_state == "Ongoing"
    assert ongoing.transaction_start_time_ms > 0
    assert [(entry.topic, entry.partitions) for entry in ongoing.topics] == [(topic, (1,))]
    producer.commit()
    complete = reaches(reader, name, "CompleteCommit")
    assert (complete.producer_epoch, complete.topics) == (producer.epoch, ())
    producer.write(topic, "b")
    producer.abort()
    reaches(reader, name, "CompleteAbort")


def test_unknown_ids(reader: RawClient, producer: RawProducer) -> None:
    response = reader.ask(DescribeTransactionsRequest(transactional_ids=("no-such-id", producer.transactional_id)), 0)
    codes = {state.transactional_id: ErrorCode.of(state.error_code) for state in response.transaction_states}
    assert codes == {"no-such-id": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, producer.transactional_id: ErrorCode.NONE}


def test_lists_and_their_filters(new_producer: MakeProducer, name: str, reader: RawClient, topic: str) -> None:
    idle, busy = new_producer(f"{name}-idle").begin(), new_producer(f"{name}-busy").begin()
    busy.write(topic, "a")
    both = {idle.transactional_id: "Empty", busy.transactional_id: "Ongoing"}
    for version in range(3):
        assert both.items() <= listed(reader, version).items()
    only_busy = {busy.transactional_id: "Ongoing"}
    assert listed(reader, producer_id_filters=(busy.producer_id,)) == only_busy
    assert listed(reader, producer_id_filters=(busy.producer_id,), state_filters=("Empty",)) == {}
    assert listed(reader, transactional_id_pattern=f"{name}-b.*") == only_busy
    assert only_busy.items() <= listed(reader, state_filters=("Ongoing",)).items()
    assert idle.transactional_id not in listed(reader, state_filters=("Ongoing",))
    assert busy.transactional_id not in listed(reader, duration_filter=600_000)
    assert only_busy.items() <= listed(reader, duration_filter=0).items()
    response = reader.ask(ListTransactionsRequest(state_filters=("Nonsense",)), 2)
    assert (response.unknown_state_filters, response.transaction_states) == (("Nonsense",), ())
    wrong = reader.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    busy.abort()


def test_producers_of_a_partition(producer: RawProducer, reader: RawClient, topic: str) -> None:
    producer.write(topic, "a", "b")
    state = producers(reader, topic)[producer.producer_id]
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (producer.epoch, 1, 0)
    assert state.last_timestamp > 0
    producer.commit()
    reaches(reader, producer.transactional_id, "CompleteCommit")
    state = producers(reader, topic)[producer.producer_id]
    assert (state.producer_epoch, state.current_txn_start_offset) == (producer.epoch, -1)
    assert producers(reader, topic, 1) == {}


def test_a_hanging_transaction_is_aborted(producer: RawProducer, reader: RawClient, topic: str) -> None:
    """As kafka-transactions.sh --abort: a marker with the fields of DescribeProducers."""
    producer.write(topic, "lost")
    state = producers(reader, topic)[producer.producer_id]
    assert abort(reader, topic, state.producer_id, state.producer_epoch) is ErrorCode.NONE
    shows(reader, topic)
    assert values(reader, topic, committed=False) == ["lost"]
    assert producers(reader, topic)[producer.producer_id].current_txn_start_offset == -1


def test_markers_that_are_refused(producer: RawProducer, reader: RawClient, topic: str) -> None:
    producer.begin().write(topic, "a")
    assert abort(reader, "no-such-topic", producer.producer_id, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert abort(reader, topic, producer.producer_id, producer.epoch - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.commit()
    shows(reader, topic, "a")
