"""No record of a producer stays without a result, and no result is another record's, whatever fails on the way."""

import threading
from typing import Any

import pytest

from spark_kafka_native._client.producer.encoding import encode_runs
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._record_clients.producer import record_sender, send_thread
from spark_kafka_native.clients import (
    CallbackHandler,
    ClientClosed,
    EventHandler,
    KafkaError,
    Producer,
    ProducerRecord,
    QueuedRecord,
    RecordFuture,
    SerializationError,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.security import Guard
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer

both_types = pytest.mark.parametrize("producer_type", ["async", "sync"])


# --- unexpected errors


@both_types
def test_records_whose_batch_cannot_be_made_fail_and_later_ones_have_their_own_offsets(
    brokers: ScriptedCluster, open_producer: OpenProducer, monkeypatch: pytest.MonkeyPatch, producer_type: str
) -> None:
    fails = True

    def encode(*arguments: Any, **keywords: Any) -> Any:
        if fails:
            raise MemoryError("of a codec")
        return encode_runs(*arguments, **keywords)

    monkeypatch.setattr(record_sender, "encode_runs", encode)
    producer = open_producer(producer_type=producer_type)
    (lost,) = producer.send_all([ProducerRecord("u", b"lost")])
    producer.flush()
    with pytest.raises(MemoryError):
        lost.result(0)
    fails = False
    assert [producer.send("u", b"%d" % number).result(60).offset for number in range(3)] == [0, 1, 2]
    assert brokers.partition("u").values() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("wrong", [None, 5, ["text"]])
@pytest.mark.parametrize("stage", ["after_dequeuing", "before_sending"])
def test_a_callback_that_returns_no_list_of_records_changes_nothing(
    brokers: ScriptedCluster,
    open_producer: OpenProducer,
    caplog: pytest.LogCaptureFixture,
    stage: str,
    wrong: Any,
) -> None:
    handler = CallbackHandler()
    setattr(handler, stage, lambda _: wrong)
    producer = open_producer(callback_handler=handler)
    assert producer.send("u", b"a").result(60).offset == 0
    assert f"{stage} must give a list of QueuedRecord" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_records_fail_if_a_handler_ends_the_sending_thread(
    open_producer: OpenProducer, error: type[BaseException]
) -> None:
    class End(EventHandler):
        def handle(self, records: Any, sender: Any) -> None:
            raise error("of the user")

    producer = open_producer(event_handler=End())
    future = producer.send("u", b"a")
    with pytest.raises(ClientClosed, match=r"the sending thread failed: \w+\('of the user'\)") as failed:
        future.result(60)
    assert isinstance(failed.value.__cause__, error)
    with pytest.raises(ClientClosed) as refused:
        producer.send("u", b"b")
    assert refused.value.__cause__ is failed.value


@pytest.mark.parametrize("part", ["value.serializer", "partitioner.class"])
def test_a_record_whose_function_ends_its_thread_fails_alone(
    brokers: ScriptedCluster, open_producer: OpenProducer, part: str
) -> None:
    def end(*arguments: Any) -> Any:
        if arguments[0] == b"bad":
            raise SystemExit("of the user")
        return 0 if part == "partitioner.class" else arguments[0]

    producer = open_producer(**{part: end}, linger_ms=100_000, delivery_timeout_ms=200_000)
    futures = producer.send_all(ProducerRecord("u", value, key=value) for value in (b"a", b"bad", b"c"))
    producer.flush()
    assert "SystemExit('of the user')" in str(futures[1].exception(0))
    assert [futures[number].result(0).offset for number in (0, 2)] == [0, 1]
    assert brokers.partition("u").values() == [b"a", b"c"]


def test_records_that_are_being_encoded_fail_with_the_sending_thread(
    open_producer: OpenProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: Any, **__: Any) -> Any:
        raise SystemExit("of a library")

    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    producer.partitions_for("u")
    sender = producer._thread.sender
    monkeypatch.setattr(record_sender, "encode_runs", end)
    original = sender.send

    def later(records: Any) -> None:  # as with a full buffer.memory: `pump` encodes them, after `handle`
        with monkeypatch.context() as context:
            context.setattr(type(sender), "_has_space", False)
            original(records)

    monkeypatch.setattr(sender, "send", later)
    futures = producer.send_all(ProducerRecord("u", b"%d" % number) for number in range(3))
    producer.flush()
    for future in futures:
        with pytest.raises(ClientClosed, match="the sending thread failed: SystemExit"):
            future.result(0)


def test_a_handler_that_cannot_be_closed_leaves_nothing_open(open_producer: OpenProducer) -> None:
    class End(EventHandler):
        def close(self) -> None:
            raise SystemExit

    producer = open_producer(event_handler=End())
    thread = producer._thread
    assert thread in send_thread._running
    producer.close(20_000)
    assert thread not in send_thread._running
    assert thread._alarm.fileno() == -1


def test_a_topic_to_which_only_a_handler_sends_is_looked_up(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    class Redirect(CallbackHandler):
        def before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
            for queued in records:
                queued.record = ProducerRecord("missing" if queued.record.value == b"bad" else "t", b"v", partition=3)
            return records

    producer = open_producer(callback_handler=Redirect(), max_block_ms=50)
    bad, good = (producer.send("u", value) for value in (b"bad", b"good"))
    with pytest.raises(KafkaError, match="topic missing"):
        bad.result(60)
    assert good.result(60)[:3] == ("t", 3, 0)


def test_an_error_of_a_record_that_was_taken_is_not_raised_by_send(open_producer: OpenProducer) -> None:
    class Wait(CallbackHandler):
        def after_enqueue(self, record: ProducerRecord, added: bool) -> None:
            failed.wait(60)

    failed = threading.Event()

    def fail(_: Any) -> bytes:
        failed.set()
        raise ValueError("of the user")

    producer = open_producer(callback_handler=Wait(), value_serializer=fail, linger_ms=0)
    future = producer.send("u", "text")
    with pytest.raises(SerializationError):
        future.result(60)


# --- callbacks and handlers


def test_a_chain_of_callbacks_that_send_is_no_recursion(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(producer_type="sync")
    offsets: list[int] = []

    def send_next(done: RecordFuture) -> None:
        offsets.append(done.result(0).offset)
        if len(offsets) < 1500:
            (future,) = producer.send_all([ProducerRecord("u", b"%d" % len(offsets))])
            future.add_done_callback(send_next)

    (first,) = producer.send_all([ProducerRecord("u", b"0")])
    first.add_done_callback(send_next)
    assert offsets[:3] == [0, 1, 2]
    assert len(set(offsets)) == len(offsets) == 1500


def test_a_callback_that_ends_its_thread_stops_no_other_result(
    brokers: ScriptedCluster, open_producer: OpenProducer, caplog: pytest.LogCaptureFixture
) -> None:
    def end(_: RecordFuture) -> None:
        raise SystemExit

    called: list[RecordFuture] = []
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    futures = [producer.send("u", b"%d" % number) for number in range(5)]
    for future in futures:
        future.add_done_callback(end)
        future.add_done_callback(called.append)
    producer.flush()
    eventually(lambda: called, futures)
    assert producer.send("u", b"after").cancel()
    assert "a callback of a record failed" in caplog.text


def test_a_record_that_a_handler_sends_twice_is_written_once(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    class Twice(EventHandler):
        def handle(self, records: Any, sender: Any) -> None:
            sender.send([*records, *records])
            sender.send(records)

    producer = open_producer(event_handler=Twice())
    assert producer.send("u", b"a").result(60).offset == 0
    producer.close()
    assert brokers.partition("u").values() == [b"a"]


def test_records_that_a_serializer_sends_are_sent_after_its_own(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    class Keep(EventHandler):
        def handle(self, records: Any, sender: Any) -> None:
            senders.append(sender)
            sender.send(records)

    def serialize(value: bytes) -> bytes:
        if value == b"b":
            further.extend(senders[0].make(ProducerRecord(topic, b"further")) for topic in ("u", "t"))
            senders[0].send(further)
        return value

    senders: list[Any] = []
    further: list[QueuedRecord] = []
    producer = open_producer(
        event_handler=Keep(), value_serializer=serialize, linger_ms=100_000, delivery_timeout_ms=200_000
    )
    producer.partitions_for("t")
    futures = producer.send_all(
        ProducerRecord(topic, value) for topic, value in (("u", b"a"), ("u", b"b"), ("t", b"c"))
    )
    producer.flush()
    assert [type(future.exception(0)) for future in (*futures, *further)] == [type(None)] * 5
    assert brokers.partition("u").values() == [b"a", b"b", b"further"]
    assert producer.metrics.unacknowledged == 0


def test_send_in_a_callback_of_a_synchronous_producer_is_refused(open_producer: OpenProducer) -> None:
    producer = open_producer(producer_type="sync", callback_handler=CallbackHandler())
    refused: list[str] = []

    def serialize(_: Any) -> bytes:
        try:
            producer.send("u", b"inner")
        except RuntimeError as error:
            refused.append(str(error))
        return b"v"

    other = open_producer(producer_type="sync", value_serializer=serialize)
    producer = other
    other.send("u", object())
    assert refused == ["send() in a callback of the producer would wait for itself"]


# --- authentication


def test_a_wrong_password_is_tried_once() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wrong";'
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    with (
        ScriptedCluster(topics={"t": 2}, guard=Guard(mechanisms=("PLAIN",), users={"alice": "secret"})) as brokers,
        Producer({"bootstrap.servers": brokers.bootstrap_servers, **options}) as producer,
    ):
        with pytest.raises(KafkaError, match=r"sasl\.jaas\.config"):
            producer.send("t", b"a")
        for use in (lambda: producer.send("t", b"b"), lambda: producer.partitions_for("t"), producer.flush):
            with pytest.raises(ClientClosed, match=r"the producer has failed: .*sasl\.jaas\.config"):
                use()
        assert len(brokers.requests(SaslAuthenticateRequest)) == 1


# --- metrics


def test_an_error_is_counted_once(open_producer: OpenProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(record_sender, "encode_runs", fail)
    producer = open_producer(
        value_serializer=lambda value: value or None, linger_ms=100_000, delivery_timeout_ms=200_000
    )
    producer.send_all([ProducerRecord("u", 1), ProducerRecord("u", b"b")])
    producer.flush()
    assert producer.metrics.failed == 2
