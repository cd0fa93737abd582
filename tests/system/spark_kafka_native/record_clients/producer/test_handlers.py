"""Callback handlers and event handlers, which are called at the stages of an asynchronous producer."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from spark_kafka_native.clients import (
    CallbackHandler,
    EventHandler,
    ProducerRecord,
    QueuedRecord,
    QueueFull,
    SerializationError,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer


class Recorder(CallbackHandler):
    """Notes the stages; ``fails`` is the one that raises."""

    def __init__(self, fails: str = "") -> None:
        self.stages: list[tuple[str, Any]] = []
        self._fails = fails

    def note(self, stage: str, about: Any) -> None:
        self.stages.append((stage, about))
        if stage == self._fails:
            raise RuntimeError(f"{stage} of the user")

    def before_enqueue(self, record: ProducerRecord) -> ProducerRecord:
        self.note("before_enqueue", record.value)
        return record

    def after_enqueue(self, record: ProducerRecord, added: bool) -> None:
        self.note("after_enqueue", (record.value, added))

    def after_dequeuing(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        self.note("after_dequeuing", [queued.record.value for queued in records])
        return records

    def before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        self.note("before_sending", [queued.record.value for queued in records])
        return records

    def last_batch_before_close(self) -> list[ProducerRecord]:
        self.note("last_batch_before_close", None)
        return [ProducerRecord("u", b"last")]

    def close(self) -> None:
        self.note("close", None)


def test_a_callback_handler_is_called_at_each_stage(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    handler = Recorder()
    producer = open_producer(callback_handler=handler, linger_ms=60_000)
    producer.send("u", b"a")
    producer.send("u", b"b")
    producer.flush()
    producer.close()
    assert handler.stages == [
        ("before_enqueue", b"a"),
        ("after_enqueue", (b"a", True)),
        ("before_enqueue", b"b"),
        ("after_enqueue", (b"b", True)),
        ("after_dequeuing", [b"a", b"b"]),
        ("before_sending", [b"a", b"b"]),
        ("last_batch_before_close", None),
        ("before_sending", [b"last"]),
        ("close", None),
    ]
    assert brokers.partition("u").values() == [b"a", b"b", b"last"]


def test_after_enqueue_is_called_for_a_record_that_is_dropped(open_producer: OpenProducer) -> None:
    handler = Recorder()
    producer = open_producer(
        callback_handler=handler, queue_buffering_max_messages=1, queue_enqueue_timeout_ms=0, linger_ms=60_000
    )
    producer.send("u", b"a")
    with pytest.raises(QueueFull):
        producer.send("u", b"b")
    assert ("after_enqueue", (b"b", False)) in handler.stages


def test_handlers_can_change_and_leave_out_records(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    class Change(CallbackHandler):
        def before_enqueue(self, record: ProducerRecord) -> ProducerRecord:
            return dataclasses.replace(record, headers=[("by", b"handler")])

        def before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
            for queued in records:
                queued.record = dataclasses.replace(queued.record, value=queued.record.value.upper())
            return [queued for queued in records if queued.record.value != b"B"]

    producer = open_producer(callback_handler=Change(), linger_ms=60_000)
    futures = [producer.send("u", value) for value in (b"a", b"b", b"c")]
    producer.flush()
    assert [future.cancelled() for future in futures] == [False, True, False]
    assert [futures[number].result(0).offset for number in (0, 2)] == [0, 1]
    assert brokers.partition("u").values() == [b"A", b"C"]


@pytest.mark.parametrize("stage", ["after_enqueue", "after_dequeuing", "before_sending", "close"])
def test_an_error_of_a_callback_handler_is_logged_and_the_record_sent(
    brokers: ScriptedCluster, open_producer: OpenProducer, caplog: pytest.LogCaptureFixture, stage: str
) -> None:
    producer = open_producer(callback_handler=Recorder(fails=stage))
    assert producer.send("u", b"a").result(60).offset == 0
    producer.close()
    assert f"{stage} of the user" in caplog.text
    assert brokers.partition("u").values() == [b"a", b"last"]


def test_an_error_of_last_batch_before_close_does_not_stop_the_end(
    brokers: ScriptedCluster, open_producer: OpenProducer, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Recorder(fails="last_batch_before_close")
    producer = open_producer(callback_handler=handler)
    producer.send("u", b"a").result(60)
    producer.close()
    assert "last_batch_before_close of the user" in caplog.text
    assert handler.stages[-1] == ("close", None)


def test_an_error_of_before_enqueue_is_raised_by_send(open_producer: OpenProducer) -> None:
    producer = open_producer(callback_handler=Recorder(fails="before_enqueue"))
    with pytest.raises(RuntimeError, match="before_enqueue of the user"):
        producer.send("u", b"a")
    assert producer.metrics.queued == 0


@pytest.mark.parametrize("wrong", [{"headers": [("name", 5)]}, {"value": "text"}, {"partition": -1}])
def test_a_wrong_record_of_before_enqueue_is_an_error_before_any_record_is_taken(
    brokers: ScriptedCluster, open_producer: OpenProducer, wrong: dict[str, Any]
) -> None:
    class Change(CallbackHandler):
        def before_enqueue(self, record: ProducerRecord) -> ProducerRecord:
            return dataclasses.replace(record, **wrong) if record.value == b"bad" else record

    producer = open_producer(callback_handler=Change(), linger_ms=60_000)
    with pytest.raises((TypeError, ValueError), match="topic u: "):
        producer.send_all([ProducerRecord("u", b"a"), ProducerRecord("u", b"bad")])
    assert producer.metrics.queued == 0


def test_an_event_handler_sends_what_it_makes_of_the_records(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    class Deduplicate(EventHandler):
        closed = 0

        def handle(self, records: Sequence[QueuedRecord], sender: Any) -> None:
            last = {queued.record.key: queued for queued in records}
            sender.send([*last.values(), sender.make(ProducerRecord("u", b"%d" % len(last)))])

        def close(self) -> None:
            self.closed += 1

    handler = Deduplicate()
    producer = open_producer(event_handler=handler, linger_ms=60_000)
    futures = [producer.send("u", b"%d" % number, key=b"k%d" % (number % 2)) for number in range(6)]
    producer.flush()
    assert [future.cancelled() for future in futures] == [True] * 4 + [False] * 2
    producer.close()
    assert brokers.partition("u").values() == [b"4", b"5", b"2"]
    assert handler.closed == 1


def test_an_error_of_an_event_handler_fails_its_unsent_records(
    brokers: ScriptedCluster, open_producer: OpenProducer, caplog: pytest.LogCaptureFixture
) -> None:
    class Stumble(EventHandler):
        def handle(self, records: Sequence[QueuedRecord], sender: Any) -> None:
            sender.send(records[:1])
            if len(records) > 1:
                raise RuntimeError("of the user")

    producer = open_producer(event_handler=Stumble(), linger_ms=60_000)
    futures = producer.send_all(ProducerRecord("u", value) for value in (b"a", b"b"))
    producer.flush()
    assert futures[0].result(0).offset == 0
    with pytest.raises(RuntimeError, match="of the user"):
        futures[1].result(0)
    assert "the event handler failed" in caplog.text
    later = producer.send("u", b"c")
    producer.flush()
    assert later.result(0).offset == 1


def test_a_synchronous_send_waits_for_each_record_after_a_cancelled_one_and_an_error(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    class OneByOne(EventHandler):
        def handle(self, records: Sequence[QueuedRecord], sender: Any) -> None:
            for queued in records:
                eventually(lambda: len(waiters), 1)  # send_all waits for this record
                if queued.record.value == b"out":
                    queued.cancel()
                else:
                    sender.send([queued])

    def serialize(value: bytes) -> bytes:
        return value if value != b"bad" else 1 / 0  # type: ignore[return-value]  # raises

    producer = open_producer(producer_type="sync", event_handler=OneByOne(), value_serializer=serialize)
    waiters = producer._connections.condition._waiters  # type: ignore[attr-defined]  # missing in its stub
    out, bad, last = producer.send_all(ProducerRecord("u", value) for value in (b"out", b"bad", b"last"))
    assert out.cancelled()
    assert isinstance(bad.exception(0), SerializationError)
    assert last.result(0).offset == 0


def test_a_wrong_record_of_a_handler_fails_alone(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    class Wrong(CallbackHandler):
        def before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
            for queued in records:
                if queued.record.value == b"bad":
                    queued.record = ProducerRecord("u", b"bad", headers=[("name only",)])  # type: ignore[list-item]  # as a user might
            return records

    producer = open_producer(callback_handler=Wrong(), linger_ms=60_000)
    futures = producer.send_all(ProducerRecord("u", value) for value in (b"a", b"bad", b"c"))
    producer.flush()
    with pytest.raises((TypeError, ValueError)):
        futures[1].result(0)
    assert brokers.partition("u").values() == [b"a", b"c"]
