"""The end of a producer: ``close``, a fork, garbage collection."""

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._record_clients.producer import send_thread
from spark_kafka_native.clients import CallbackHandler, ClientClosed, Producer, ProducerRecord, RecordFuture
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Held, Silent
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer

both_types = pytest.mark.parametrize("producer_type", ["async", "sync"])


@both_types
def test_close_sends_what_is_left_and_refuses_further_records(
    brokers: ScriptedCluster, open_producer: OpenProducer, producer_type: str
) -> None:
    with open_producer(producer_type=producer_type, linger_ms=600_000, delivery_timeout_ms=700_000) as producer:
        future = producer.send("u", b"a")
    assert future.result(0).offset == 0
    producer.close()
    for use in (lambda: producer.send("u", b"b"), producer.flush, lambda: producer.partitions_for("u")):
        with pytest.raises(ClientClosed, match="the producer is closed"):
            use()
    assert brokers.partition("u").values() == [b"a"]
    eventually(lambda: [broker.open_connections for broker in brokers.brokers.values()], [0, 0])


def test_records_without_a_result_fail_when_the_producer_is_closed(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(linger_ms=0)
    producer.send("u", b"a").result(60)
    brokers.script(ProduceRequest, Silent())
    sent = producer.send("u", b"b")
    producer.close(10)
    with pytest.raises(ClientClosed, match="closed before"):
        sent.result(0)


def test_a_producer_of_the_parent_is_refused_in_a_forked_process(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer()
    producer.send("u", b"a").result(60)
    child = os.fork()
    if child == 0:
        try:
            producer.send("u", b"b")
        except ClientClosed:
            producer.close()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert producer.send("u", b"c").result(60).offset == 1


def test_a_forgotten_producer_sends_what_it_has(brokers: ScriptedCluster) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "linger.ms": 50})
    future = producer.send("u", b"a")
    thread = next(thread for thread in threading.enumerate() if thread.name.startswith("kafka-producer-send-thread"))
    del producer
    assert future.result(60).offset == 0
    thread.join(60)
    assert not thread.is_alive()


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
    eventually(lambda: producer.metrics.unacknowledged, 1)
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
    eventually(lambda: producer.metrics.unacknowledged, 1)
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


def test_close_in_a_signal_handler_ends_the_producer_while_a_wait_for_results_has_the_lock(
    open_producer: OpenProducer,
) -> None:
    producer = open_producer(linger_ms=100_000, delivery_timeout_ms=200_000)
    future = producer.send("u", b"a")
    with producer._connections.condition.lock:  # as in result() and flush(), which the signal interrupts
        producer.close(20_000)
    assert future.result(0).offset == 0


def test_close_in_a_signal_handler_while_close_waits(open_producer: OpenProducer) -> None:
    class Interrupt(CallbackHandler):
        def last_batch_before_close(self) -> list[ProducerRecord]:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            handled.wait(60)
            return []

    handled = threading.Event()
    ended: list[bool] = []

    def close(*_: object) -> None:
        handled.set()
        producer.close()
        ended.append(producer._thread._is_over)

    producer = open_producer(callback_handler=Interrupt())
    before = signal.signal(signal.SIGUSR1, close)
    try:
        producer.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended == [True]


def test_close_in_a_signal_handler_that_interrupts_send_is_refused(open_producer: OpenProducer) -> None:
    producer = open_producer()
    with (
        producer._thread._queue._lock,  # as in send() and flush()
        pytest.raises(RuntimeError, match=r"would wait for the send\(\) or flush\(\) that it interrupts"),
    ):
        producer.close()
    assert producer.send("u", b"a").result(60).offset == 0


def test_the_first_records_of_a_process_are_sent_at_its_end(brokers: ScriptedCluster) -> None:
    program = (
        "import sys; from spark_kafka_native.clients import Producer;"
        "producer = Producer({'bootstrap.servers': sys.argv[1], 'linger.ms': 50_000});"
        "producer.send('u', b'a'); producer.send('u', b'b')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, brokers.bootstrap_servers], check=True, capture_output=True, text=True
    )
    assert (brokers.partition("u").values(), ended.stderr) == ([b"a", b"b"], "")


def test_the_end_of_the_process_closes_all_producers_whatever_one_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails:
        def end(self) -> None:
            pass

        def close(self, _: float) -> None:
            closed.append(self)
            raise RuntimeError("of one producer")

    closed: list[Fails] = []
    producers = {Fails(), Fails()}
    monkeypatch.setattr(send_thread, "_running", producers)
    send_thread._close_at_exit()
    assert set(closed) == producers
    assert caplog.text.count("RuntimeError: of one producer") == 2
