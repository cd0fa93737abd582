import time

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.fetch import FetchResponse
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.requests.transaction_views import end_offset, reaches, settle, shown, shows, values, view
from tests.support.requests.transactions import RawProducer
from tests.support.servers.brokers import TopicMaker
from tests.system.integration.transactions.conftest import MakeProducer


def plain(client: RawClient, topic: str, value: str) -> None:
    """Write a record outside of all transactions."""
    records = batch(value.encode(), timestamp_ms=int(time.time() * 1000))
    (response,) = client.ask(produce_request(topic, records), 9).responses
    assert response.partition_responses[0].error_code == 0


def test_committed_records_are_seen_and_aborted_ones_are_not(
    producer: RawProducer, reader: RawClient, topic: str
) -> None:
    producer.write(topic, "a", "b")
    assert values(reader, topic) == []
    assert values(reader, topic, committed=False) == ["a", "b"]
    producer.commit()
    shows(reader, topic, "a", "b")
    producer.write(topic, "c", "d")
    producer.write(topic, "e")
    producer.abort()
    shows(reader, topic, "a", "b")
    assert values(reader, topic, committed=False) == ["a", "b", "c", "d", "e"]
    producer.write(topic, "f")
    producer.commit()
    shows(reader, topic, "a", "b", "f")


def test_offsets_of_an_open_transaction(producer: RawProducer, reader: RawClient, topic: str) -> None:
    plain(reader, topic, "plain")
    assert producer.write(topic, "a", "b") == 1
    assert end_offset(reader, topic) == 1
    assert end_offset(reader, topic, committed=False) == 3
    seen = view(reader, topic)
    assert (seen.values, seen.stable, seen.end, seen.aborted) == (["plain"], 1, 3, [])
    seen = view(reader, topic, committed=False)
    assert (seen.values, seen.end, seen.aborted) == (["plain", "a", "b"], 3, None)
    # Records after it are readable when it ends.
    plain(reader, topic, "later")
    assert values(reader, topic) == ["plain"]
    producer.commit()
    shows(reader, topic, "plain", "a", "b", "later")
    assert end_offset(reader, topic) == 5  # with the marker


def test_the_list_of_aborted_transactions(
    producer: RawProducer, new_producer: MakeProducer, reader: RawClient, topic: str
) -> None:
    other = new_producer("other-" + producer.transactional_id).begin()
    ours, others = producer.producer_id, other.producer_id
    producer.write(topic, "a")  # at 0
    other.write(topic, "b")  # at 1
    producer.abort()
    reaches(reader, producer.transactional_id, "CompleteAbort")  # marker at 2
    assert view(reader, topic).stable == 1
    assert view(reader, topic).values == []
    producer.write(topic, "c")  # at 3
    other.abort()
    reaches(reader, other.transactional_id, "CompleteAbort")  # marker at 4
    producer.commit()
    shows(reader, topic, "c")
    assert view(reader, topic).aborted == sorted([(ours, 0), (others, 1)])
    # Only those that reach into what is read.
    assert view(reader, topic, offset=3).aborted == [(others, 1)]
    assert view(reader, topic, offset=5).aborted == []


def test_several_partitions_and_topics_at_once(
    producer: RawProducer, new_topic: TopicMaker, reader: RawClient, topic: str
) -> None:
    second = new_topic()
    places = [(topic, 0), (topic, 1), (second, 0)]
    for outcome, seen in ((True, ["1", "2"]), (False, ["1", "2"])):
        for name, partition in places:
            for value in ("1", "2"):
                producer.write(name, value, partition=partition)
        described = reaches(reader, producer.transactional_id, "Ongoing")
        assert {(entry.topic, part) for entry in described.topics for part in entry.partitions} == set(places)
        if outcome:
            producer.commit()
        else:
            producer.abort()
        for name, partition in places:
            shows(reader, name, *seen, partition=partition)


def test_transactions_without_records(producer: RawProducer, reader: RawClient, topic: str) -> None:
    assert producer.add((topic, 0), (topic, 1)) == [ErrorCode.NONE] * 2
    producer.commit()
    reaches(reader, producer.transactional_id, "CompleteCommit")
    assert [end_offset(reader, topic, partition) for partition in (0, 1)] == [1, 1]  # markers alone
    producer.write(topic, "a")
    producer.commit()
    shows(reader, topic, "a")


def test_a_waiting_fetch_completes_when_the_transaction_ends(
    producer: RawProducer, reader: RawClient, topic: str
) -> None:
    producer.write(topic, "a")
    request = fetch_request(topic, 0, isolation_level=1, min_bytes=1, max_wait_ms=20_000)
    reader.send(request_bytes(request, 11))
    producer.commit()
    reader.sock.settimeout(15)  # less than the read waits
    data = decode_response(FetchResponse, 11, reader.frame())[1].responses[0].partitions[0]
    assert (data.error_code, data.last_stable_offset) == (ErrorCode.NONE, 2)
    assert list(shown(data)) == [b"a"]


@pytest.mark.parametrize("commit", [True, False])
def test_plain_records_between_are_seen_either_way(
    producer: RawProducer, reader: RawClient, topic: str, commit: bool
) -> None:
    producer.write(topic, "a")
    plain(reader, topic, "plain")
    producer.write(topic, "b")
    if commit:
        producer.commit()
    else:
        producer.abort()
    shows(reader, topic, *(["a", "plain", "b"] if commit else ["plain"]))


def test_many_small_transactions(producer: RawProducer, reader: RawClient, topic: str) -> None:
    for number in range(30):
        producer.write(topic, str(number))
        if number % 3:
            producer.commit()
        else:
            producer.abort()
    shows(reader, topic, *(str(number) for number in range(30) if number % 3))
    settle(reader, topic)
    aborted = view(reader, topic).aborted
    assert aborted is not None
    assert len(aborted) == 10
