"""The records of an asynchronous producer that wait for its sending thread.

    put (threads of the user) -> records in order -> take (the sending thread), all at once

Records are due after ``linger.ms``, once there are ``batch.num.messages`` of them, when there is no space for another
one, and after ``make_due``. The queue is full at ``queue.buffering.max.messages``, or when keys, values and headers,
and ``RECORD_BYTES`` for each record, reach ``max_bytes``.
"""

import threading
import time
from collections.abc import Callable

from spark_kafka_native._record_clients.producer.handlers import RECORD_BYTES, QueuedRecord


class RecordQueue:
    """A bounded queue. ``take``, ``due_in_s`` are for one thread, the others for any."""

    def __init__(
        self,
        *,
        max_records: int,
        max_bytes: int,
        linger_s: float,
        batch_records: int,
        wake_up: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``wake_up`` is called when ``due_in_s`` has become less."""
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._linger_s = linger_s
        self._batch_records = batch_records
        self._wake_up = wake_up
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler can send while `put` has it
        self._not_full = threading.Condition(self._lock)
        self._records: list[QueuedRecord] = []
        self._bytes = 0
        self._due_at = 0.0
        self._closed = False
        self.dropped = 0
        """Records that were refused because the queue was full."""

    def __len__(self) -> int:
        return len(self._records)

    def put(self, record: QueuedRecord, timeout_s: float | None) -> bool:
        """Append a record. False: the queue was full for ``timeout_s`` (None: no limit), or is closed."""
        size_bytes = _size_of(record)
        with self._lock:
            return self._put(record, size_bytes, timeout_s)

    def _put(self, record: QueuedRecord, size_bytes: int, timeout_s: float | None) -> bool:
        has_space = self._has_space_or_is_due(size_bytes)
        if not has_space and timeout_s != 0:
            has_space = self._not_full.wait_for(lambda: self._has_space_or_is_due(size_bytes), timeout_s)
        if self._closed:
            return False
        if not has_space:
            self.dropped += 1
            return False
        if not self._records:
            self._due_at = self._clock() + self._linger_s
        record.sent_at = self._clock()
        self._bytes += size_bytes
        self._records.append(record)
        if len(self._records) in {1, self._batch_records}:
            self._wake_up()
        return True

    @property
    def is_in_use(self) -> bool:
        """Whether this thread has the lock: a signal handler has interrupted ``put`` or ``make_due``.

        Not while ``put`` waits for space, because it has released the lock then.
        """
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 -- as threading.Condition does

    def due_in_s(self) -> float | None:
        """Seconds until ``take`` should be called: 0 now, None not before another record comes."""
        with self._lock:
            if not self._records:
                return None
            if len(self._records) >= self._batch_records:
                return 0.0
            return max(self._due_at - self._clock(), 0.0)

    def take(self) -> list[QueuedRecord]:
        """Remove all records; in the order of ``put``."""
        with self._lock:
            records, self._records = self._records, []
            self._bytes = 0
            self._not_full.notify_all()
        return records

    def make_due(self) -> None:
        """Make the records that wait now due at once."""
        with self._lock:
            self._due_at = self._clock()
        self._wake_up()

    def close(self) -> None:
        """Refuse further records, and end the waits for space."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._not_full.notify_all()
        self.make_due()

    def _has_space_or_is_due(self, size_bytes: int) -> bool:
        """Whether there is space. If not, the records are due, because only the sending thread makes space.

        Evaluated after each ``take``, because the records of other threads can have used the space.
        """
        if self._has_space(size_bytes):
            return True
        if self._due_at > (now := self._clock()):
            self._due_at = now
            self._wake_up()
        return False

    def _has_space(self, size_bytes: int) -> bool:
        """One record always fits, as in a broker's Fetch response."""
        if self._closed or not self._records:
            return True
        return len(self._records) < self._max_records and self._bytes + size_bytes <= self._max_bytes


def _size_of(record: QueuedRecord) -> int:
    size = RECORD_BYTES + record.record.header_bytes if record.record.headers else RECORD_BYTES
    for part in (record.record.key, record.record.value):
        if isinstance(part, bytes | str | bytearray):
            size += len(part)
        elif isinstance(part, memoryview):
            size += part.nbytes
    return size
