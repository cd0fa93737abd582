"""The bounds of a producer: its queue, ``buffer.memory``, ``linger.ms`` and ``delivery.timeout.ms``."""

import threading

import pytest

from spark_kafka_native._client.errors import DeliveryTimeout
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._record_clients.producer.handlers import RECORD_BYTES
from spark_kafka_native.clients import (
    CallbackHandler,
    KafkaError,
    ProducerRecord,
    QueuedRecord,
    QueueFull,
    RecordFuture,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Held, Silent
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer


class Hold(CallbackHandler):
    """Lets the sending thread wait with the records that it has taken from the queue."""

    def __init__(self) -> None:
        self.taken, self.may_continue = threading.Event(), threading.Event()

    def after_dequeuing(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        self.taken.set()
        self.may_continue.wait(60)
        return records


def test_a_full_queue_drops_records(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    hold = Hold()
    producer = open_producer(
        queue_buffering_max_messages=3, queue_enqueue_timeout_ms=0, linger_ms=0, callback_handler=hold
    )
    futures = [producer.send("u", b"first")]
    hold.taken.wait(60)
    futures += [producer.send("u", b"%d" % number) for number in range(3)]
    with pytest.raises(QueueFull, match=r"messages=3, buffer\.memory\) was full for queue\.enqueue\.timeout\.ms=0;"):
        producer.send("u", b"dropped")
    (dropped,) = producer.send_all([ProducerRecord("u", b"dropped too")])
    with pytest.raises(QueueFull):
        dropped.result(0)
    assert producer.metrics.dropped == 2
    assert producer.metrics.queued == 3
    hold.may_continue.set()
    producer.flush()
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3]
    assert brokers.partition("u").values() == [b"first", b"0", b"1", b"2"]


def test_send_waits_for_space_in_the_queue(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(queue_buffering_max_messages=2, queue_enqueue_timeout_ms=-1, batch_num_messages=2)
    futures = [producer.send("u", b"%d" % number) for number in range(50)]
    assert [future.result(60).offset for future in futures] == list(range(50))


def test_buffer_memory_bounds_what_is_handed_over(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    hold = threading.Event()
    producer = open_producer(
        buffer_memory=13_000, batch_num_messages=1, queue_enqueue_timeout_ms=0, batch_size=1000, linger_ms=0
    )
    producer.send("u", b"first").result(60)
    brokers.script(ProduceRequest, Held(hold))
    futures = producer.send_all(ProducerRecord("u", b"x" * 900) for _ in range(100))
    hold.set()
    producer.flush()
    taken = [future for future in futures if future.exception(0) is None]
    assert all(isinstance(future.exception(0), QueueFull) for future in futures if future not in taken)
    assert 3 <= len(taken) <= 11
    assert producer.metrics.records == len(taken) + 1


def test_flush_sends_without_waiting_for_linger_ms(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=600_000, delivery_timeout_ms=700_000)
    producer.flush()
    future = producer.send("u", b"a")
    assert not future.done()
    producer.flush()
    assert future.result(0).offset == 0


def test_flush_has_a_timeout(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=0)
    producer.send("u", b"a").result(60)
    brokers.script(ProduceRequest, Silent())
    future = producer.send("u", b"b")
    with pytest.raises(TimeoutError, match="not all records were acknowledged within 10 ms"):
        producer.flush(10)
    assert not future.done()


def test_a_record_that_waits_can_be_cancelled(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=600_000, delivery_timeout_ms=700_000)
    first, second = producer.send("u", b"a"), producer.send("u", b"b")
    assert first.cancel()
    producer.flush()
    assert (first.cancelled(), second.result(0).offset) == (True, 0)
    assert not second.cancel()
    assert brokers.partition("u").values() == [b"b"]


def test_records_that_become_large_by_serialization_wait_for_buffer_memory(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(value_serializer=lambda size: b"x" * size, buffer_memory=10_000, batch_size=1000)
    buffered: list[int] = []
    futures = producer.send_all(ProducerRecord("t", 1000, partition=0) for _ in range(100))
    sender = producer._thread.sender._sender
    for future in futures:
        future.add_done_callback(lambda _: buffered.append(sender.buffered_bytes))
    producer.flush()
    assert [future.result(0).offset for future in futures] == list(range(100))
    assert max(buffered) <= 10_000


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


def test_buffer_memory_bounds_records_without_data(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    hold = threading.Event()
    producer = open_producer(buffer_memory=30_000, queue_enqueue_timeout_ms=0, linger_ms=0, compression_type="gzip")
    producer.send("u", b"first").result(60)
    brokers.script(ProduceRequest, Held(hold))
    sent = producer.send("u", b"")
    eventually(lambda: producer._thread.sender._pending_bytes, RECORD_BYTES)
    futures = producer.send_all([ProducerRecord("u", b"")] * 1000)
    hold.set()
    producer.flush()
    taken = [future for future in (sent, *futures) if future.exception(0) is None]
    assert 1 <= len(taken) <= 1 + 30_000 // RECORD_BYTES


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


def test_max_block_ms_bounds_the_wait_for_the_first_response_to_another_thread(open_producer: OpenProducer) -> None:
    def send() -> None:
        try:
            producer.send("u", b"a")
        except KafkaError as error:
            errors.append(error)

    errors: list[KafkaError] = []
    producer = open_producer(max_block_ms=1)
    with producer._connections._lock:  # as the first send, which waits for a broker
        sending = threading.Thread(target=send)
        sending.start()
        sending.join(20)
    sending.join(60)
    (error,) = errors
    assert "no broker has responded to another thread within max.block.ms (1 ms)" in str(error)


def test_a_signal_handler_can_send_during_the_first_send(open_producer: OpenProducer) -> None:
    def interrupted() -> None:
        with producer._connections._lock:  # of the first send
            futures.append(producer.send("u", b"a"))

    futures: list[RecordFuture] = []
    producer = open_producer()
    sending = threading.Thread(target=interrupted, daemon=True)
    sending.start()
    sending.join(20)
    assert [future.result(60).offset for future in futures] == [0]


def test_headers_and_memoryviews_count_for_buffer_memory(open_producer: OpenProducer) -> None:
    producer = open_producer(buffer_memory=4000, linger_ms=100_000, delivery_timeout_ms=200_000)
    size = producer._thread._queue._has_space
    producer.send("u", memoryview(b"x" * 400), headers=[("name", b"y" * 400)])
    free_bytes = 4000 // 3 - RECORD_BYTES - len(b"name") - 2 * 400
    assert not size(free_bytes + 1)
    assert size(free_bytes)


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
