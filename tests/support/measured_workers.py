"""A plugin of coverage, for `make coverage`: a process that SIGHUP ends saves what it has measured.

Spark ends idle Python workers with SIGHUP. They set its default action themselves, so that a handler that is installed
before has no effect.
"""

import os
import signal
from types import FrameType
from typing import Any

from coverage import Coverage

_signal = signal.signal


def save_and_end(number: int, _frame: FrameType | None) -> None:
    """Save, then end as by the default action."""
    if (measured := Coverage.current()) is not None:
        measured.save()
    _signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def saving(number: int, handler: Any) -> Any:
    """`signal.signal`, with `save_and_end` as the default action of SIGHUP."""
    return _signal(number, save_and_end if (number, handler) == (signal.SIGHUP, signal.SIG_DFL) else handler)


def coverage_init(_registry: Any, _options: dict[str, str]) -> None:
    """Called by coverage in every process that is measured."""
    signal.signal = saving  # type: ignore[assignment]
