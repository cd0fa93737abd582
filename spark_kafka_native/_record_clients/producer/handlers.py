"""Hooks into the stages of a record: ``CallbackHandler`` and ``EventHandler`` of Kafka 0.7's asynchronous producer.

send    before_enqueue -> queue -> after_enqueue
thread  after_dequeuing -> EventHandler.handle -> before_sending -> brokers -> result
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from spark_kafka_native._record_clients.producer.futures import RecordFuture, ResultCondition
from spark_kafka_native._record_clients.records import ProducerRecord

RECORD_BYTES: Final = 350
"""The memory that a record takes besides its key, value and headers, about."""


class QueuedRecord(RecordFuture):
    """A record on its way. It is the future that ``send`` returned. Handlers can change ``record``."""

    __slots__ = ("_created_ms", "is_handed_over", "record", "sent_at", "size_bytes")

    def __init__(self, record: ProducerRecord, condition: ResultCondition) -> None:
        super().__init__(condition)
        self.record = record
        self.sent_at = time.monotonic()
        """When ``send`` put it into the queue and ``delivery.timeout.ms`` began, in seconds of ``time.monotonic()``."""
        self.size_bytes = 0
        """The bytes of its key, value and headers, and ``RECORD_BYTES``, once they are known."""
        self._created_ms = time.time_ns() // 1_000_000
        self.is_handed_over = False
        """Whether it is in a batch, whose result will be its own."""

    @property
    def timestamp_ms(self) -> int:
        """The timestamp to write: the record's, or the time of ``send``."""
        given = self.record.timestamp_ms
        return self._created_ms if given is None else given


def checked_records(records: object, source: str) -> list[QueuedRecord]:
    """A list of records from a handler, each once. Raises TypeError naming ``source``: it is none."""
    found = list(dict.fromkeys(records)) if isinstance(records, Iterable) else None
    if found is None or not all(isinstance(each, QueuedRecord) and _is_record(each.record) for each in found):
        raise TypeError(f"{source} must give a list of QueuedRecord with a ProducerRecord each, not {records!r:.100}")
    return found


def _is_record(value: object) -> bool:
    return isinstance(value, ProducerRecord) and isinstance(value.topic, str)


class EventSender(Protocol):
    """What an event handler sends with."""

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Serialize, partition and send records, which get the results; no delivery error is raised."""
        ...

    def make(self, record: ProducerRecord) -> QueuedRecord:
        """A further record, to be passed to ``send``."""
        ...


class EventHandler:
    """Receives the records that the sending thread takes from the queue. The default sends them.

    ``handle`` and ``close`` are called in the sending thread. If ``handle`` raises, its unsent records fail.
    """

    def handle(self, records: Sequence[QueuedRecord], sender: EventSender) -> None:
        """Send ``records``, or what is made of them. Records that are not sent are cancelled."""
        sender.send(records)

    def close(self) -> None:
        """Called once, after the last records."""


class CallbackHandler:
    """Called at each stage of a record. Every method has a default that changes nothing.

    An exception of ``before_enqueue`` is raised by ``send``. Those of other methods are logged; the records continue.
    """

    def before_enqueue(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the thread of ``send``. Returns the record to put into the queue, which is checked then."""
        return record

    def after_enqueue(self, record: ProducerRecord, added: bool) -> None:
        """Called in the thread of ``send``. ``added``: False if the queue was full."""

    def after_dequeuing(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        """Called with the records that were taken from the queue. Returns those for the event handler."""
        return records

    def before_sending(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        """Called with the records that are about to be serialized. Returns those to send."""
        return records

    def last_batch_before_close(self) -> list[ProducerRecord]:
        """Called when the producer closes. Returns records to send after all others."""
        return []

    def close(self) -> None:
        """Called once, after the last records."""
