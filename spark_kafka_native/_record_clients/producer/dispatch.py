"""The two values of ``producer.type``: a thread that sends what a queue holds, or the caller's thread.

    AsyncDispatch   send -> RecordQueue -> thread: EventHandler -> BrokerSender, which is pumped between the batches
    SyncDispatch    send -> BrokerSender, until the records have their results

A sending thread ends by ``close`` alone. An error of a handler fails the records it was called with.
"""

import atexit
import contextlib
import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from spark_kafka_native._record_clients.errors import ClientClosed, QueueFull
from spark_kafka_native._record_clients.producer.config import ProducerConfig
from spark_kafka_native._record_clients.producer.futures import complete
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, EventHandler, QueuedRecord
from spark_kafka_native._record_clients.producer.queue import RecordQueue
from spark_kafka_native._record_clients.producer.record_sender import BrokerSender

_log = logging.getLogger(__name__)

_LONGEST_WAIT_S: Final = 1.0
_AT_EXIT_S: Final = 30.0
_WAKE_UPS: Final = 4096
"""Wake-ups that are read at once, a byte each."""
_ABORT_S: Final = 5.0
"""How long ``close`` waits for a thread that is to give up its records."""


class Dispatch(Protocol):
    """Takes records, and completes their futures."""

    sender: BrokerSender
    dropped: int
    """Records that were not taken, because the queue was full."""

    @property
    def waiting(self) -> int:
        """Records that were not handed over to ``sender`` yet."""
        ...

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Take records. The futures of those that are not taken have the error: QueueFull or ClientClosed."""
        ...

    def flush(self, timeout_s: float | None) -> bool:
        """Wait for the results of all records that were sent before. False: not all have one within the timeout."""
        ...

    def close(self, timeout_s: float | None) -> None:
        """As ``flush``, but records without a result fail. No record is taken any more."""
        ...

    def end(self) -> None:
        """As ``close``, without waiting."""
        ...


class SyncDispatch:
    """Sends in the caller's thread, one call after the other."""

    waiting = 0
    dropped = 0

    def __init__(self, config: ProducerConfig) -> None:
        self.sender = BrokerSender(config)
        self._lock = threading.RLock()

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Send records and wait for their results."""
        with self._lock:
            self.sender.send(records)
            self.sender.flush()

    def flush(self, timeout_s: float | None) -> bool:  # noqa: ARG002  # records have their results when send returns
        """Nothing is under way between two calls."""
        return True

    def close(self, timeout_s: float | None) -> None:  # noqa: ARG002  # as above
        """Give the connections back."""
        self.end()

    def end(self) -> None:
        """Give the connections back."""
        with self._lock:
            self.sender.close()


class _Flush:
    """A call of ``flush``: the records that it waits for; None before the thread has taken them from the queue."""

    def __init__(self) -> None:
        self.records: list[QueuedRecord] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all records have their results. Forgets those that have."""
        if self.records is None:
            return False
        while self.records and self.records[-1].done():
            self.records.pop()
        return not self.records


class AsyncDispatch:
    """Sends in a thread of its own."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._callbacks = config.callback_handler or CallbackHandler()
        self._handler = config.event_handler or EventHandler()
        self._wakeup, self._alarm = socket.socketpair()
        self._wakeup.setblocking(False)
        self._alarm.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._wakeup, select.POLLIN)
        self._queue = RecordQueue(
            max_records=config.queue_buffering_max_messages,
            max_bytes=config.client.buffer_memory,
            linger_s=config.client.linger_ms / 1000,
            batch_records=config.batch_num_messages,
            wake_up=self._wake_up,
        )
        self.sender = BrokerSender(config, self._wakeup.fileno())
        self._flushes: deque[_Flush] = deque()
        self.dropped = 0
        self._closing = False
        self._abort = False
        self._ended = False
        name = f"kafka-producer-send-thread-{config.client.client_name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        _running.add(self)

    @property
    def waiting(self) -> int:
        """Records in the queue."""
        return len(self._queue)

    def send(self, records: Sequence[QueuedRecord]) -> None:
        """Put records into the queue."""
        timeout_ms = self._config.queue_enqueue_timeout_ms
        if self._is_own_thread:
            timeout_ms = 0  # only this thread makes space
        for record in records:
            added = self._queue.put(record, None if timeout_ms < 0 else timeout_ms / 1000)
            self._after_enqueue(record, added)
            if not added:
                complete([(record, self._refusal(timeout_ms))], self.sender.condition)

    def flush(self, timeout_s: float | None) -> bool:
        """Make the thread send at once, and wait."""
        self._refuse_own_thread("flush")
        flush = _Flush()
        self._flushes.append(flush)
        self._queue.hurry()
        with self.sender.condition:
            return self.sender.condition.wait_for(lambda: flush.is_over or self._ended, timeout_s)

    def close(self, timeout_s: float | None) -> None:
        """End the thread."""
        self._refuse_own_thread("close")
        self.end()
        if self._pid != os.getpid():
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._abort = True
            self._wake_up()
            self._thread.join(_ABORT_S)
            if self._thread.is_alive():
                _log.warning("%s still waits for a broker; it ends with this wait", self._thread.name)

    def end(self) -> None:
        """Let the thread send what is left, and end."""
        if self._pid != os.getpid():
            return  # a forked process has no such thread, and its locks may be held
        self._closing = True
        self._queue.close()

    def _after_enqueue(self, record: QueuedRecord, added: bool) -> None:
        try:
            self._callbacks.after_enqueue(record.record, added)
        except Exception:  # of the user's handler
            _log.exception("after_enqueue of the callback handler failed")

    def _refusal(self, timeout_ms: int) -> Exception:
        """Why the queue has not taken a record."""
        if self._closing:
            return ClientClosed("the producer is closed")
        self.dropped += 1
        limit = f"queue.buffering.max.messages={self._config.queue_buffering_max_messages}"
        waited = f"for {timeout_ms} ms (queue.enqueue.timeout.ms)"
        return QueueFull(f"the queue of the producer ({limit}, buffer.memory) was full {waited}; the record is dropped")

    # --- the thread

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse_own_thread(self, wish: str) -> None:
        if self._is_own_thread:
            raise RuntimeError(f"{wish}() in a callback of the producer would wait for itself")

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):  # enough bytes are there already, or the thread has ended
            self._alarm.send(b"\0")

    def _run(self) -> None:
        try:
            while not self._abort and not (self._closing and self._is_idle):
                self._step()
            if not self._abort:
                self._send_last()
        except Exception as error:
            _log.exception("the sending thread of the producer failed")
            self.sender.fail_all(error)
        finally:
            self._end()

    @property
    def _is_idle(self) -> bool:
        return not self._queue and not self.sender.unacknowledged

    def _step(self) -> None:
        """Hand over the records that are due, or wait for a response or for more records."""
        due_in_s = self._queue.due_in_s()
        if due_in_s == 0 and not self.sender.is_full:
            flushes = len(self._flushes)  # those of before the queue is emptied
            records = self._queue.take()
            self._handle(records, self._dequeued(records))
            self.sender.pump(wait=False)
            self._begin(flushes)
            return
        if due_in_s is None:
            self._begin(len(self._flushes))
        self._wait(None if self.sender.is_full else due_in_s)

    def _wait(self, longest_s: float | None) -> None:
        """Wait for a response, a wake-up, or ``longest_s``."""
        if self.sender.unacknowledged:
            longest_s = _LONGEST_WAIT_S if longest_s is None else min(longest_s, _LONGEST_WAIT_S)
            self.sender.pump(wait=True, longest_wait_s=longest_s)
        else:
            self._poll.poll(None if longest_s is None else longest_s * 1000)
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(_WAKE_UPS)

    def _begin(self, count: int) -> None:
        """Let so many flushes wait for the records that were handed over and have no result."""
        with self.sender.condition:
            for _ in range(count):
                self._flushes.popleft().records = self.sender.pending()
            self.sender.condition.notify_all()

    def _handle(self, records: list[QueuedRecord], kept: list[QueuedRecord]) -> None:
        """Let the event handler send ``kept``. All that are not sent then are cancelled, or fail with its error."""
        error: Exception | None = None
        try:
            self._handler.handle(kept, self.sender)
        except Exception as raised:  # of the user's handler
            _log.exception("the event handler failed")
            error = raised
        unsent = [queued for queued in (*records, *kept) if not queued.done() and not queued.running()]
        if error is not None:
            complete([(queued, error) for queued in unsent], self.sender.condition)
        for queued in unsent:
            queued.cancel()

    def _dequeued(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        try:
            return self._callbacks.after_dequeuing(list(records))
        except Exception:  # of the user's handler
            _log.exception("after_dequeuing of the callback handler failed; its records continue as they are")
            return records

    def _send_last(self) -> None:
        try:
            last = [self.sender.make(record) for record in self._callbacks.last_batch_before_close()]
        except Exception:  # of the user's handler
            _log.exception("last_batch_before_close of the callback handler failed")
            last = []
        if last:
            self._handle(last, last)
        while self.sender.unacknowledged and not self._abort:
            self._wait(None)

    def _end(self) -> None:
        """Refuse further records, and fail those that are left."""
        self._closing = True
        self._queue.close()
        self.sender.close()
        self._ended = True
        failure = self.sender.failure or ClientClosed("the producer was closed before the record was sent")
        complete([(queued, failure) for queued in self._queue.take()], self.sender.condition)
        for handler in (self._handler, self._callbacks):
            try:
                handler.close()
            except Exception:  # of the user's handler
                _log.exception("close of a handler failed")
        self._wakeup.close()
        self._alarm.close()
        _running.discard(self)


_running: set[AsyncDispatch] = set()
"""Those whose thread has not ended."""


def _close_at_exit() -> None:
    """Send what is left of producers that were not closed."""
    for dispatch in list(_running):
        dispatch.close(_AT_EXIT_S)


atexit.register(_close_at_exit)
