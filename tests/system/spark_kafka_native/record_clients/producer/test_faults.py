"""No record of a producer stays without a result, and no result is another record's, whatever fails on the way."""

import gc
import os
import threading
from typing import Any

import pytest

from spark_kafka_native._client.errors import DeliveryTimeout
from spark_kafka_native._client.producer.encoding import encode_runs
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._record_clients.producer import record_sender
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
from tests.support.scripted.steps import Held, Silent
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
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_records_fail_if_a_handler_ends_the_sending_thread(
    open_producer: OpenProducer, error: type[BaseException]
) -> None:
    class End(EventHandler):
        def handle(self, records: Any, sender: Any) -> None:
            raise error

    producer = open_producer(event_handler=End())
    future = producer.send("u", b"a")
    with pytest.raises(ClientClosed, match="closed before"):
        future.result(60)
    with pytest.raises(ClientClosed):
        producer.send("u", b"b")


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


# --- callbacks


def test_close_in_a_callback_leaves_the_producer_open(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer()
    refused: list[str] = []

    def close(_: RecordFuture) -> None:
        try:
            producer.close()
        except RuntimeError as error:
            refused.append(str(error))

    producer.send("u", b"a").add_done_callback(close)
    producer.flush()
    assert producer.send("u", b"b").result(60).offset == 1
    assert refused == ["close() in a callback of the producer would wait for itself"]
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send("u", b"c")


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


# --- timeouts


def test_delivery_timeout_ms_begins_with_send(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    producer.partitions_for("u")
    old, new = producer.send("u", b"old"), producer.send("t", b"new", partition=0)
    assert isinstance(old, QueuedRecord)
    old.sent_at -= 201
    producer.flush()
    with pytest.raises(DeliveryTimeout, match=r"u-0: delivery\.timeout\.ms \(200000 ms\) ended before the first"):
        old.result(0)
    assert new.result(0).offset == 0


def test_all_partitions_that_expire_together_fail_in_one_step(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    brokers.state.create("wide", 300)
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000, batch_num_messages=1000)
    futures = producer.send_all(ProducerRecord("wide", b"v", partition=number) for number in range(300))
    for future in futures:
        assert isinstance(future, QueuedRecord)
        future.sent_at -= 201
    producer.flush()
    assert {type(future.exception(0)) for future in futures} == {DeliveryTimeout}
    assert producer.metrics.failed == 300


# --- the queue


@pytest.mark.parametrize("limit", [{"queue_buffering_max_messages": 3}, {"buffer_memory": 2000}])
def test_a_full_queue_is_sent_without_waiting_for_linger_ms(
    brokers: ScriptedCluster, open_producer: OpenProducer, limit: dict[str, int]
) -> None:
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000, queue_enqueue_timeout_ms=-1, **limit)
    futures = [producer.send("u", b"x" * 200) for _ in range(30)]
    assert futures[0].result(60).offset == 0


def test_flush_sends_records_of_other_threads_that_come_meanwhile(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    handling, may_continue = threading.Event(), threading.Event()

    class Wait(CallbackHandler):
        def after_dequeuing(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
            handling.set()
            may_continue.wait(60)
            return records

    producer = open_producer(callback_handler=Wait(), linger_ms=100_000, delivery_timeout_ms=200_000)
    first = producer.send("u", b"a")
    flushing = threading.Thread(target=producer.flush)
    flushing.start()
    handling.wait(60)
    second = threading.Thread(target=producer.flush)
    second.start()
    producer.send("u", b"b")
    may_continue.set()
    flushing.join(60)
    second.join(60)
    assert not flushing.is_alive()
    assert not second.is_alive()
    assert first.result(0).offset == 0


def test_headers_and_memoryviews_count_for_buffer_memory(open_producer: OpenProducer) -> None:
    producer = open_producer(buffer_memory=3000, linger_ms=100_000, delivery_timeout_ms=200_000)
    size = producer._thread._queue._has_space
    producer.send("u", memoryview(b"x" * 400), headers=[("name", b"y" * 400)])
    assert not size(101)
    assert size(50)


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


# --- the end


def test_close_fails_the_records_of_a_thread_that_waits_for_a_broker(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(linger_ms=0)
    producer.send("u", b"a").result(60)
    hold = threading.Event()
    original = producer._thread.sender.pump

    def blocked(*, wait: bool, longest_wait_s: float = 1.0) -> None:
        hold.wait(60)
        original(wait=wait, longest_wait_s=longest_wait_s)

    producer._thread.sender.pump = blocked  # type: ignore[method-assign]  # as a metadata request to a silent broker
    futures = [producer.send("u", b"%d" % number) for number in range(3)]
    producer.close(10)
    for future in futures:
        with pytest.raises(ClientClosed, match="closed before"):
            future.result(0)
    hold.set()


def test_close_ends_a_synchronous_send_of_another_thread(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(producer_type="sync")
    producer.send("u", b"a")
    brokers.script(ProduceRequest, Silent())
    errors: list[Exception] = []

    def send() -> None:
        try:
            producer.send("u", b"b")
        except ClientClosed as error:
            errors.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    while not producer.metrics.unacknowledged:
        pass
    producer.close(10)
    sending.join(60)
    assert ["closed before" in str(error) for error in errors] == [True]


def test_a_forked_process_can_forget_a_producer_that_sends(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    hold = threading.Event()
    producer = open_producer(producer_type="sync")
    producer.send("u", b"a")
    brokers.script(ProduceRequest, Held(hold))
    sending = threading.Thread(target=producer.send, args=("u", b"b"))
    sending.start()
    while not producer.metrics.unacknowledged:
        pass
    child = os.fork()
    if child == 0:
        producer._thread.end()  # as the finalizer does
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    hold.set()
    sending.join(60)
    assert brokers.partition("u").values() == [b"a", b"b"]


def test_the_finalizer_takes_no_lock(brokers: ScriptedCluster) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "linger.ms": 0})
    producer.send("u", b"a").result(60)
    queue = producer._thread._queue
    thread = producer._thread._thread
    with queue._lock:  # as if the collection happened in a thread that has it
        del producer
        gc.collect()
    thread.join(60)
    assert not thread.is_alive()


# --- callbacks and handlers


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


# --- what counts for a record


def test_a_record_does_not_expire_with_an_older_one_of_another_partition(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    old, new = producer.send("t", b"old", partition=0), producer.send("t", b"new", partition=1)
    assert isinstance(old, QueuedRecord)
    old.sent_at -= 201
    producer.flush()
    assert isinstance(old.exception(0), DeliveryTimeout)
    assert new.result(0).offset == 0


def test_buffer_memory_bounds_records_that_compress_well(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    hold = threading.Event()
    producer = open_producer(
        buffer_memory=300_000, compression_type="gzip", linger_ms=0, queue_enqueue_timeout_ms=0, batch_num_messages=1
    )
    producer.send("u", b"first").result(60)
    brokers.script(ProduceRequest, Held(hold))
    futures = producer.send_all(ProducerRecord("u", bytes(20_000)) for _ in range(100))
    hold.set()
    producer.flush()
    taken = [future for future in futures if future.exception(0) is None]
    assert 1 <= len(taken) <= 16


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


@pytest.mark.parametrize("timeout_ms", [-5, 1e15])
@both_types
def test_any_number_is_a_timeout(open_producer: OpenProducer, producer_type: str, timeout_ms: float) -> None:
    producer = open_producer(producer_type=producer_type)
    producer.send("u", b"a")
    if timeout_ms > 0:
        producer.flush(timeout_ms)
    producer.close(timeout_ms)


def test_futures_in_a_forked_process_are_an_error(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    done = producer.send("u", b"a")
    producer.flush()
    waiting = producer.send("u", b"b")
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (waiting.result, waiting.cancel, lambda: waiting.add_done_callback(print)):
            try:
                use()
            except ClientClosed:
                refused += 1
        os._exit(0 if refused == 3 and done.result(0).offset == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert waiting.cancel()
