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
from dataclasses import dataclass
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
    with _sigint_handled() as state:
        try:
            try:
                state.raises = True
                if state.interrupted:
                    raise KeyboardInterrupt
                return job()
            finally:
                state.raises = False  # an assignment, because Python may run signal handlers at each call
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


@dataclass(slots=True)
class _State:
    interrupted: bool = False
    count: int = 0
    """How often SIGINT has raised KeyboardInterrupt."""
    raises: bool = False
    """Whether SIGINT raises KeyboardInterrupt, as long as the job runs."""


def _replaceable_handler() -> Callable[[int, FrameType | None], Any] | int | None:
    """The handler of SIGINT.

    None: this is not the main thread, and only that one may set handlers and runs them; or the handler was installed
    from C before Python started, and Python cannot install it again.
    """
    return signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None


@contextlib.contextmanager
def _interrupting_again(state: _State) -> Iterator[queue.SimpleQueue[int | None]]:
    """A queue for ``state.count`` as it is when Python has dropped a KeyboardInterrupt.

    SIGINT is sent to the main thread 50 ms later, before the block is left, unless it has raised again meanwhile.
    """
    dropped = queue.SimpleQueue[int | None]()

    def interrupt_again() -> None:
        while (count := dropped.get()) is not None:
            time.sleep(_AGAIN_S)  # until the finalizer has returned
            if state.count == count:
                signal.pthread_kill(main, signal.SIGINT)  # a flag alone would not end a system call

    main = threading.get_ident()
    thread = threading.Thread(target=interrupt_again, name="interrupt again", daemon=True)
    thread.start()
    try:
        yield dropped
    finally:
        dropped.put(None)
        thread.join()


def _is_within(code: CodeType, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def _sigint_handled() -> Iterator[_State]:
    """Raise KeyboardInterrupt at SIGINT, again if a finalizer has dropped it, and drop py4j's log records then.

    Nothing is set in another thread than the main thread, nor if the process ignores SIGINT, as in the background of a
    shell that is not interactive, nor if the handler could not be restored.
    """
    state = _State()
    handler = _replaceable_handler()
    if handler is None or handler == signal.SIG_IGN:
        yield state
        return

    def raise_it(_signal: int, frame: FrameType | None) -> None:
        state.interrupted = True
        if not state.raises:
            return
        if _is_within(raise_again.__code__, frame):  # Python drops what the hook raises, too
            dropped.put(state.count)
            return
        state.count += 1
        raise KeyboardInterrupt

    def is_shown(record: logging.LogRecord) -> bool:
        return not (state.interrupted and "py4j" in Path(record.pathname).parts)

    def raise_again(unraisable: Any) -> None:
        """A finalizer, such as those of py4j's objects, was interrupted: Python drops what that raises."""
        if unraisable.exc_type is KeyboardInterrupt:
            dropped.put(state.count)
        else:
            hook(unraisable)

    hook = sys.unraisablehook
    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
    with sigint_handler_kept(), _interrupting_again(state) as dropped:
        sys.unraisablehook = raise_again
        for logger in loggers:
            logger.addFilter(is_shown)
        signal.signal(signal.SIGINT, raise_it)
        try:
            yield state
        finally:
            for logger in loggers:
                logger.removeFilter(is_shown)
            sys.unraisablehook = hook
