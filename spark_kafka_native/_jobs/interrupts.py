"""Ctrl-C (SIGINT) ends a job with one line and status 130.

pyspark replaces the handler of SIGINT when a SparkContext is made. Its handler calls the JVM on the connection that the
interrupted code may be reading from, which fails (``reentrant call inside BufferedReader``), and py4j logs each of its
interrupted calls with a traceback. Here SIGINT raises KeyboardInterrupt and nothing else, and Spark is stopped from a
thread, which has a connection of its own.
"""

import contextlib
import logging
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit status: 128 and the number of SIGINT, as shells have it."""
_STOP_S: Final = 20.0
"""Longest wait for Spark to stop; the JVM ends with this process anyway."""
_AGAIN_S: Final = 0.05


def run_interruptible(job: Callable[[], int], say: Callable[[], object]) -> int:
    """The exit status of ``job``; INTERRUPTED, after calling ``say``, if it was interrupted.

    SIGINT is ignored after the job has ended, until this function returns.
    """
    with _sigint_handled() as interrupts:
        try:
            try:
                interrupts.raises = True
                if interrupts.interrupted:
                    raise KeyboardInterrupt
                return job()
            finally:
                interrupts.raises = False  # an assignment, because Python may run signal handlers at each call
        except KeyboardInterrupt:
            say()
            return INTERRUPTED


@contextlib.contextmanager
def sigint_handler_kept() -> Iterator[None]:
    """Keep the handler of SIGINT over a block that makes a SparkContext."""
    handler = _replaceable_handler()
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def stop_interrupted(stop: Callable[[], object]) -> None:
    """Stop Spark or a part of it after a KeyboardInterrupt, which may have come within a call of the JVM.

    Waits at most 20 seconds. Errors are dropped.
    """

    def stop_quietly() -> None:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the JVM could not be shut down in order
            stop()

    thread = threading.Thread(target=stop_quietly, name="stop Spark", daemon=True)
    thread.start()
    thread.join(_STOP_S)


def _replaceable_handler() -> Callable[[int, FrameType | None], Any] | int | None:
    """The handler of SIGINT.

    None: this is not the main thread, and only that one may set handlers and runs them; or the handler was installed
    from C before Python started, and Python cannot install it again.
    """
    return signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None


class _Interrupts:
    """What SIGINT does in the main thread while one job runs.

    Python drops exceptions of finalizers, such as those of py4j's objects, and shows them by ``sys.unraisablehook``. A
    KeyboardInterrupt that it drops is raised again.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self.raises = False
        """Whether SIGINT raises KeyboardInterrupt, as long as the job runs."""
        self._count = 0
        """How often SIGINT has raised KeyboardInterrupt."""
        self._dropped = queue.SimpleQueue[int | None]()
        """The count at each KeyboardInterrupt that was dropped; None ends the thread."""
        self._shows = False
        """Whether the error of a finalizer is being written, which may block."""
        self._show = sys.unraisablehook

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle SIGINT over a block, and drop py4j's log records once interrupted."""
        loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
        with sigint_handler_kept(), self._raised_again():
            sys.unraisablehook = self._unraisable
            for logger in loggers:
                logger.addFilter(self._is_shown)
            signal.signal(signal.SIGINT, self._raise)
            try:
                yield
            finally:
                for logger in loggers:
                    logger.removeFilter(self._is_shown)
                sys.unraisablehook = self._show

    @contextlib.contextmanager
    def _raised_again(self) -> Iterator[None]:
        """Send SIGINT to this thread 50 ms after it was dropped, unless it has raised again meanwhile.

        It sends no SIGINT after the block.
        """
        thread = threading.Thread(
            target=self._send_again, args=(threading.get_ident(),), name="interrupt again", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._dropped.put(None)
            thread.join()

    def _send_again(self, main: int) -> None:
        while (count := self._dropped.get()) is not None:
            time.sleep(_AGAIN_S)  # until the finalizer has returned
            if self._count == count:
                signal.pthread_kill(main, signal.SIGINT)  # _thread.interrupt_main would not end a system call

    def _raise(self, _signal: int, frame: FrameType | None) -> None:
        self.interrupted = True
        if not self.raises:
            return
        if not self._shows and _is_within(_Interrupts._unraisable.__code__, frame):
            self._dropped.put(self._count)  # Python drops what the hook raises, too
            return
        self._count += 1
        raise KeyboardInterrupt

    def _unraisable(self, unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            try:
                self._shows = True
                self._show(unraisable)
                self._shows = False
                return
            except KeyboardInterrupt:
                self._shows = False
        self._dropped.put(self._count)

    def _is_shown(self, record: logging.LogRecord) -> bool:
        return not (self.interrupted and "py4j" in Path(record.pathname).parts)


def _is_within(code: CodeType, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def _sigint_handled() -> Iterator[_Interrupts]:
    """Raise KeyboardInterrupt at SIGINT, also if it comes in a finalizer, and drop py4j's log records then.

    Nothing is set in another thread than the main thread, nor if the process ignores SIGINT, as in the background of a
    shell that is not interactive, nor if the handler could not be restored.
    """
    interrupts = _Interrupts()
    handler = _replaceable_handler()
    if handler is None or handler == signal.SIG_IGN:
        yield interrupts
        return
    with interrupts.handled():
        yield interrupts
