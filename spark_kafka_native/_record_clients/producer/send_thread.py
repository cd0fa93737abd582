"""The thread that sends the records of a producer.

    send -> RecordQueue -> thread: EventHandler -> RecordSender, which is pumped between the batches -> results

With ``producer.type=sync`` the caller waits for the results. The thread has the connections then, too, because a signal
can interrupt the caller anywhere. The thread ends by ``close`` alone. An error of a handler fails the records it was
called with.
"""

import atexit
import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Final

from spark_kafka_native._net.alarm import Alarm
from spark_kafka_native._record_clients.errors import ClientClosed, QueueFull
from spark_kafka_native._record_clients.producer.config import SYNC, ProducerConfig
from spark_kafka_native._record_clients.producer.connections import Connections
from spark_kafka_native._record_clients.producer.futures import complete
from spark_kafka_native._record_clients.producer.handlers import (
    CallbackHandler,
    EventHandler,
    QueuedRecord,
    checked_records,
)
from spark_kafka_native._record_clients.producer.queue import RecordQueue
from spark_kafka_native._record_clients.producer.record_sender import SHARES, RecordSender

_log = logging.getLogger(__name__)

_LONGEST_WAIT_S: Final = 1.0
_AT_EXIT_S: Final = 30.0
_ABORT_S: Final = 1.0
"""How long ``close`` waits for a thread that is to give up its records."""


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


class SendThread:
    """Takes records, sends them in a thread of its own, and completes them."""

    def __init__(self, config: ProducerConfig, connections: Connections) -> None:
        self._config = config
        self._condition = connections.condition
        self._is_sync = config.producer_type == SYNC
        self._callbacks = config.callback_handler or CallbackHandler()
        self._handler = config.event_handler or EventHandler()
        self._alarm = Alarm()
        self._poll = select.poll()
        self._poll.register(self._alarm, select.POLLIN)
        self._queue = RecordQueue(
            max_records=config.queue_buffering_max_messages,
            max_bytes=config.client.buffer_memory // SHARES,
            linger_s=0.0 if self._is_sync else config.client.linger_ms / 1000,
            batch_records=config.batch_num_messages,
            wake_up=self._alarm.ring,
        )
        self.sender = RecordSender(config, connections, self._alarm.fileno())
        self._flushes: deque[_Flush] = deque()
        self._taken: list[QueuedRecord] = []
        """The records that the handlers have."""
        self.is_closing = False
        self._abort = False
        self._ended = False
        """Whether all records have their results, and later ones are refused."""
        self.failure: ClientClosed | None = None
        """The error that ended the thread."""
        self._is_over = False
        """Whether the thread has nothing left to do."""
        name = f"kafka-producer-send-thread-{config.client.client_name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._pid = os.getpid()
        self._thread.start()
        _running.add(self)

    @property
    def queued(self) -> int:
        """Records in the queue."""
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """Records that the full queue did not take."""
        return self._queue.dropped

    def send(self, records: Sequence[QueuedRecord]) -> Exception | None:
        """Put records into the queue, and with ``producer.type=sync`` wait for their results.

        Returns the first error of a record that was not taken; with ``sync`` of any record.
        """
        if self._is_sync:
            self._refuse_own_thread("send")
        # The thread itself does not wait, because only it makes space.
        timeout_ms = 0 if self._is_own_thread else self._config.queue_enqueue_timeout_ms
        first: Exception | None = None
        for record in records:
            added = self._queue.put(record, None if timeout_ms < 0 else timeout_ms / 1000)
            self._after_enqueue(record, added)
            if not added:
                error = self._refusal(timeout_ms)
                complete([(record, error)], self._condition)
                first = first or error
        if self._is_sync:
            errors = [_error_of(record) for record in records]  # waits for all of them, also after an error
            first = next((error for error in errors if error is not None), None)
        return first

    def flush(self, timeout_s: float | None) -> bool:
        """Make the thread send at once, and wait."""
        self._refuse_own_thread("flush")
        flush = _Flush()
        self._flushes.append(flush)
        self._queue.make_due()
        with self._condition.lock:
            return self._condition.wait_for(lambda: flush.is_over or self._ended, timeout_s)

    def close(self, timeout_s: float | None) -> None:
        """End the thread."""
        self._refuse_own_thread("close")
        if self._queue.is_in_use:
            raise RuntimeError("close() in a signal handler would wait for the send() or flush() that it interrupts")
        self.end()
        if self._pid != os.getpid():
            return
        if not self._wait_for_end(timeout_s):
            self._abort = True
            self._alarm.ring()
            if not self._wait_for_end(_ABORT_S):
                self._fail_rest()
                text = "%s did not end within %g s after close: it waits for a broker and ends after that request"
                _log.warning(text, self._thread.name, _ABORT_S)

    def _wait_for_end(self, timeout_s: float | None) -> bool:
        """Wait with the condition, which releases its lock, also that of a ``result()`` that a signal interrupts.

        ``Thread.join`` does not, and waits forever in a signal handler that interrupts it.
        """
        with self._condition.lock:
            return self._condition.wait_for(lambda: self._is_over, timeout_s)

    def end(self) -> None:
        """Let the thread send what is left, and end. Takes no lock: a garbage collection may call it in any thread."""
        if self._pid == os.getpid():
            self.is_closing = True
            self._alarm.ring()

    def _fail_rest(self) -> None:
        """Fail the records of a thread that waits for a broker."""
        error = ClientClosed("the producer was closed before brokers acknowledged the record")
        records = [*self._queue.take(), *self._taken]
        with contextlib.suppress(RuntimeError):  # the thread has continued, and fails them itself
            records += self.sender.pending()
        complete([(record, error) for record in records], self._condition)

    def _after_enqueue(self, record: QueuedRecord, added: bool) -> None:
        try:
            self._callbacks.after_enqueue(record.record, added)
        except Exception:  # of the user's handler
            _log.exception("after_enqueue of the callback handler failed")

    def _refusal(self, timeout_ms: int) -> Exception:
        """Why the queue has not taken a record."""
        if self.is_closing:
            return ClientClosed("the producer is closed")
        limit = f"queue.buffering.max.messages={self._config.queue_buffering_max_messages}, buffer.memory"
        waited = "in a callback" if self._is_own_thread else f"for queue.enqueue.timeout.ms={timeout_ms}"
        return QueueFull(f"the queue of the producer ({limit}) was full {waited}; the record is dropped")

    # --- the thread

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse_own_thread(self, wish: str) -> None:
        if self._is_own_thread:
            raise RuntimeError(f"{wish}() in a callback of the producer would wait for itself")

    def _run(self) -> None:
        try:
            while not self._abort and not (self.is_closing and self._is_idle):
                if self.is_closing:
                    self._queue.close()  # here, because `end` must not take its lock
                self._step()
            self._queue.close()
            if not self._abort:
                self._send_last()
        except BaseException as error:  # also SystemExit of a handler; its records need a result
            _log.exception("the sending thread of the producer failed")
            self.failure = ClientClosed(f"the sending thread failed: {error!r}")
            self.failure.__cause__ = error
            self.sender.fail_all(self.failure)
        finally:
            self._end()

    @property
    def _is_idle(self) -> bool:
        return not self._queue and not self.sender.unacknowledged

    def _step(self) -> None:
        """Hand over the records that are due, or wait for a response or for more records."""
        flushes = len(self._flushes)  # before the queue is looked at, which has the records that they wait for
        due_in_s = self._queue.due_in_s()
        if flushes and due_in_s is not None:
            due_in_s = 0.0
        if due_in_s == 0 and not self.sender.is_full:
            self._taken = self._queue.take()
            self._handle(self._dequeued(self._taken))
            self.sender.pump(wait=False)
            self._begin(flushes)
            return
        if due_in_s is None:
            self._begin(flushes)
        self._wait(None if self.sender.is_full else due_in_s)

    def _wait(self, longest_s: float | None) -> None:
        """Wait for a response, a wake-up, or ``longest_s``."""
        if self.sender.unacknowledged:
            longest_s = _LONGEST_WAIT_S if longest_s is None else min(longest_s, _LONGEST_WAIT_S)
            self.sender.pump(wait=True, longest_wait_s=longest_s)
        else:
            self._poll.poll(1000 * (_LONGEST_WAIT_S if longest_s is None else min(longest_s, _LONGEST_WAIT_S)))
        self._alarm.clear()

    def _begin(self, count: int) -> None:
        """Let so many flushes wait for the records that were handed over and have no result."""
        if count:
            with self._condition.lock:
                for _ in range(count):
                    self._flushes.popleft().records = self.sender.pending()
                self._condition.notify_all()

    def _dequeued(self, records: list[QueuedRecord]) -> list[QueuedRecord]:
        try:
            return checked_records(self._callbacks.after_dequeuing(list(records)), "after_dequeuing")
        except Exception:  # of the user's handler
            _log.exception("after_dequeuing of the callback handler failed; its records continue as they are")
            return records

    def _handle(self, kept: list[QueuedRecord]) -> None:
        """Let the event handler send records. All that are not sent then are cancelled, or fail with its error."""
        error: Exception | None = None
        try:
            self._handler.handle(kept, self.sender)
        except Exception as raised:  # of the user's handler
            _log.exception("the event handler failed")
            error = raised
        unsent = [queued for queued in (*self._taken, *kept) if not queued.done() and not queued.running()]
        if error is not None:
            complete([(queued, error) for queued in unsent], self._condition)
        for queued in unsent:
            queued.cancel()
        self._taken = []

    def _send_last(self) -> None:
        try:
            last = [self.sender.make(record) for record in self._callbacks.last_batch_before_close()]
        except Exception:  # of the user's handler
            _log.exception("last_batch_before_close of the callback handler failed")
            last = []
        if last:
            self._handle(last)
        while self.sender.unacknowledged and not self._abort:
            self._wait(None)

    def _end(self) -> None:
        """Refuse further records, and fail those that are left."""
        self.is_closing = True
        try:
            self._queue.close()
            self.sender.close()
        finally:
            error = self.failure or ClientClosed("the producer was closed before the record was sent")
            self._ended = True
            complete([(queued, error) for queued in (*self._taken, *self._queue.take())], self._condition)
            for handler in (self._handler, self._callbacks):
                try:
                    handler.close()
                except BaseException:  # of the user's handler; after SystemExit the rest of the end follows, too
                    _log.exception("close of a handler failed")
            self._alarm.close()
            _running.discard(self)
            with self._condition.lock:
                self._is_over = True
                self._condition.notify_all()


def _error_of(record: QueuedRecord) -> Exception | None:
    """Wait for the result of a record. Its error; None if a handler has left it out."""
    try:
        return record.exception()
    except CancelledError:
        return None


_running: set[SendThread] = set()
"""Those whose thread has not ended."""


def _close_at_exit() -> None:
    """Send what is left of producers that were not closed."""
    until_s = time.monotonic() + _AT_EXIT_S
    running = list(_running)
    for thread in running:
        thread.end()
    for thread in running:
        try:
            thread.close(max(until_s - time.monotonic(), 0.0))
        except Exception:  # whatever it is, the other producers are closed
            _log.exception("a producer could not be closed at the end of the process")


atexit.register(_close_at_exit)
