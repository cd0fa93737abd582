"""The results of records that are under way.

All futures of a producer share one condition, so that a batch completes its records with one lock, and a future takes a
fifth of the time of ``concurrent.futures.Future`` to make, which has a lock of its own.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from typing import Final

from spark_kafka_native._record_clients.errors import ClientClosed
from spark_kafka_native._record_clients.records import RecordMetadata

Result = RecordMetadata | Exception

_log = logging.getLogger(__name__)

_PENDING: Final = 0
_RUNNING: Final = 1
_CANCELLED: Final = 2
_FINISHED: Final = 3


class ResultCondition(threading.Condition):
    """Notified when records of a producer have results.

    Use ``with condition.lock``. ``with condition`` is code of Python: an interrupt in it would leave the lock locked.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        super().__init__(self.lock)
        self._pid = os.getpid()

    def check_process(self) -> None:
        """Raise ClientClosed in a forked process, where no thread sends and the lock may be held forever."""
        if self._pid != os.getpid():
            raise ClientClosed("the record belongs to a producer of the process before fork()")


class RecordFuture:
    """The result of one record: its RecordMetadata, or an error.

    It has the methods of ``concurrent.futures.Future``, but ``wait``, ``as_completed`` and asyncio do not take it.
    """

    __slots__ = ("_callbacks", "_condition", "_error", "_metadata", "_state")

    def __init__(self, condition: ResultCondition) -> None:
        """``condition`` is notified of every result."""
        self._condition = condition
        self._state = _PENDING
        self._metadata: RecordMetadata | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[RecordFuture], object]] | None = None

    def __repr__(self) -> str:
        states = {_PENDING: "waits", _RUNNING: "is being sent", _CANCELLED: "cancelled"}
        return f"<RecordFuture: {states.get(self._state, self._error or self._metadata)}>"

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
        self._condition.check_process()
        with self._condition.lock:
            if self._state != _PENDING:
                return self._state == _CANCELLED
            self._state = _CANCELLED
            self._condition.notify_all()
        _callbacks.call((function, self) for function in self.callbacks)
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
            self._condition.check_process()
            with self._condition.lock:
                if not self._condition.wait_for(self.done, timeout):
                    raise TimeoutError(f"the record has no result after {timeout} s")
        if self._state == _CANCELLED:
            raise CancelledError
        return self._error

    def add_done_callback(self, fn: "Callable[[RecordFuture], object]") -> None:
        """Call ``fn`` with this future once it is done: in the thread that sends, or here if it is done.

        In a callback it is called after that one. Errors of ``fn`` are logged. It may send records, but must not wait
        for one.
        """
        self._condition.check_process()
        with self._condition.lock:
            if self._state < _CANCELLED:
                self._callbacks = [*(self._callbacks or ()), fn]
                return
        _callbacks.call([(fn, self)])

    # --- for the producer

    def begin(self) -> bool:
        """Make the record's sending final. False: it was cancelled, or has begun before."""
        with self._condition.lock:
            if self._state != _PENDING:
                return False
            self._state = _RUNNING
            return True

    def finish(self, result: Result) -> bool:
        """Set the result, unless it is done. Returns whether there are ``callbacks`` to call. The condition is held."""
        if self._state >= _CANCELLED:
            return False
        if isinstance(result, Exception):
            self._error = result
        else:
            self._metadata = result
        self._state = _FINISHED
        return self._callbacks is not None

    @property
    def callbacks(self) -> "Sequence[Callable[[RecordFuture], object]]":
        """The functions of ``add_done_callback``."""
        return self._callbacks or ()


def complete(results: Iterable[tuple[RecordFuture, Result]], condition: ResultCondition) -> None:
    """Give futures their results, unless they are done, and call back. All have this condition."""
    with condition.lock:
        finished = [future for future, result in results if future.finish(result)]
        condition.notify_all()
    _callbacks.call((function, future) for future in finished for function in future.callbacks)


class _Callbacks(threading.local):
    """The callbacks that a thread has to call. One that is added by a callback is called after it, not inside."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[RecordFuture], object], RecordFuture]] = deque()
        self._is_calling = False

    def call(self, functions: Iterable[tuple[Callable[[RecordFuture], object], RecordFuture]]) -> None:
        """Call functions with their futures. Their errors are logged, also SystemExit.

        In the main thread SystemExit and KeyboardInterrupt, as of signal handlers, are raised after all functions.
        """
        self._waiting.extend(functions)
        if self._is_calling:
            return
        self._is_calling = True
        interrupt: BaseException | None = None
        try:
            while self._waiting:
                function, done = self._waiting.popleft()
                try:
                    function(done)
                except BaseException as error:  # of the user's function
                    _log.exception("a callback of a record failed")
                    if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                        interrupt = error
        finally:
            self._is_calling = False
        if interrupt is not None:
            raise interrupt


_callbacks = _Callbacks()
