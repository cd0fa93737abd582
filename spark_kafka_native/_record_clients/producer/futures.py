"""The results of records that are under way.

``concurrent.futures.Future`` takes longer to make than a record takes to send, because each has a lock. Here all
futures of a producer share one.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import Final

from spark_kafka_native._record_clients.records import RecordMetadata

Result = RecordMetadata | Exception

_log = logging.getLogger(__name__)

_PENDING: Final = 0
_RUNNING: Final = 1
_CANCELLED: Final = 2
_FINISHED: Final = 3


class RecordFuture:
    """The result of one record: its RecordMetadata, or an error. Has the methods of ``concurrent.futures.Future``."""

    __slots__ = ("_callbacks", "_condition", "_error", "_metadata", "_state")

    def __init__(self, condition: threading.Condition) -> None:
        """``condition`` is notified of every result."""
        self._condition = condition
        self._state = _PENDING
        self._metadata: RecordMetadata | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[RecordFuture], object]] | None = None

    def done(self) -> bool:
        """Whether there is a result, or the record was cancelled."""
        return self._state >= _CANCELLED

    def cancelled(self) -> bool:
        """Whether the record was cancelled."""
        return self._state == _CANCELLED

    def running(self) -> bool:
        """Whether the record is being sent: it cannot be cancelled any more."""
        return self._state == _RUNNING

    def cancel(self) -> bool:
        """Do not send the record. False: it is being sent, or has a result."""
        with self._condition:
            if self._state != _PENDING:
                return self._state == _CANCELLED
            self._state = _CANCELLED
            self._condition.notify_all()
        self.call_back()
        return True

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result. Raises the record's error; TimeoutError after ``timeout`` seconds; CancelledError."""
        error = self.exception(timeout)
        if error is not None:
            raise error.with_traceback(None)  # other records may have the same error, and raise it again and again
        assert self._metadata is not None
        return self._metadata

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the result. The record's error, or None. Raises TimeoutError, CancelledError."""
        if self._state < _CANCELLED:
            with self._condition:
                if not self._condition.wait_for(self.done, timeout):
                    raise TimeoutError(f"the record has no result after {timeout} s")
        if self._state == _CANCELLED:
            raise CancelledError
        return self._error

    def add_done_callback(self, fn: "Callable[[RecordFuture], object]") -> None:
        """Call ``fn`` with this future once it is done: in the thread that sends, or here if it is done.

        Errors of ``fn`` are logged. It may send records, but must not wait for one.
        """
        with self._condition:
            if self._state < _CANCELLED:
                self._callbacks = [*(self._callbacks or ()), fn]
                return
        self._call(fn)

    # --- for the producer

    def begin(self) -> bool:
        """Make the record's sending final. False: it was cancelled."""
        with self._condition:
            if self._state == _PENDING:
                self._state = _RUNNING
            return self._state == _RUNNING

    def finish(self, result: Result) -> bool:
        """Set the result, unless it is done. Returns whether ``call_back`` is to be called. The condition is held."""
        if self._state >= _CANCELLED:
            return False
        if isinstance(result, Exception):
            self._error = result
        else:
            self._metadata = result
        self._state = _FINISHED
        return self._callbacks is not None

    def call_back(self) -> None:
        """Call the functions of ``add_done_callback``."""
        for fn in self._callbacks or ():
            self._call(fn)

    def _call(self, fn: "Callable[[RecordFuture], object]") -> None:
        try:
            fn(self)
        except Exception:  # of the user's function
            _log.exception("a callback of a record failed")


def complete(
    results: Iterable[tuple[RecordFuture, RecordMetadata | Exception]], condition: threading.Condition
) -> None:
    """Give futures their results, unless they are done, and call back. All have this condition."""
    with condition:
        finished = [future for future, result in results if future.finish(result)]
        condition.notify_all()
    for future in finished:
        future.call_back()
