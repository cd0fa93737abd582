"""Ctrl-C (SIGINT) ends a job with one line and status 130.

pyspark replaces the handler of SIGINT when a SparkContext is made. Its handler calls the JVM on the connection that the
interrupted code may be reading from, which fails (``reentrant call inside BufferedReader``), and py4j logs each of its
interrupted calls with a traceback. Here SIGINT raises KeyboardInterrupt and nothing else, and Spark is stopped from a
thread, which has a connection of its own.
"""

import _thread
import contextlib
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

INTERRUPTED: Final = 130
"""The exit status: 128 and the number of SIGINT, as shells have it."""
_STOP_S: Final = 20.0
"""Longest wait for Spark to stop; the JVM ends with this process anyway."""
_AGAIN_S: Final = 0.05


def run_interruptible(job: Callable[[], int], say: Callable[[], object]) -> int:
    """The exit status of ``job``; INTERRUPTED, after calling ``say``, if it was interrupted.

    Restores what it sets for the job: the handler of SIGINT, in the main thread, and a filter of py4j's log records.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_interrupts_raised())
        try:
            return job()
        except KeyboardInterrupt:
            say()
            return INTERRUPTED


@contextlib.contextmanager
def sigint_handler_kept() -> Iterator[None]:
    """Keep the handler of SIGINT over a block that makes a SparkContext."""
    if threading.current_thread() is not threading.main_thread():  # pyspark leaves the handler as it is, too
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def stop_interrupted(spark: SparkSession) -> None:
    """Stop Spark after a KeyboardInterrupt, which may have come within a call of the JVM. Errors are dropped."""

    def stop() -> None:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the JVM could not be shut down in order
            spark.stop()

    thread = threading.Thread(target=stop, name="stop Spark", daemon=True)
    thread.start()
    thread.join(_STOP_S)


@contextlib.contextmanager
def _interrupts_raised() -> Iterator[None]:
    interrupted = threading.Event()

    def raise_it(_signal: int, _frame: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def is_shown(record: logging.LogRecord) -> bool:
        return not (interrupted.is_set() and "py4j" in Path(record.pathname).parts)

    def raise_again(unraisable: Any) -> None:
        """A finalizer, such as those of py4j's objects, was interrupted: Python drops what that raises."""
        if unraisable.exc_type is KeyboardInterrupt:
            timer = threading.Timer(_AGAIN_S, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            hook(unraisable)

    hook = sys.unraisablehook
    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
    with sigint_handler_kept():
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, raise_it)
        sys.unraisablehook = raise_again
        for logger in loggers:
            logger.addFilter(is_shown)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(is_shown)
            sys.unraisablehook = hook
