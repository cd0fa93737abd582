"""KeyboardInterrupt at exact places: where the interpreter looks for signals, which is after calls of C functions."""

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any, Final

_MOST_PLACES: Final = 500


def interrupted_everywhere(run: Callable[[], object], *modules: ModuleType) -> Iterator[int]:
    """Call ``run`` with an interrupt at its first place, then at the second, and so on; yields after each interrupt.

    Places are in functions of these modules and of ``threading``. Raises AssertionError: there are none, or too many.
    """
    files = {module.__file__ for module in (*modules, threading)}
    for place in range(1, _MOST_PLACES):
        if not _interrupted(run, files, place):
            assert place > 1, "no place to interrupt"
            return
        yield place
    raise AssertionError(f"more than {_MOST_PLACES} places")


def _interrupted(run: Callable[[], object], files: set[str | None], place: int) -> bool:
    """Call ``run`` with one interrupt. False: it has fewer places."""
    passed = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal passed
        if event in {"call", "c_return"} and frame.f_code.co_filename in files:
            passed += 1
            if passed == place:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        run()
    except (KeyboardInterrupt, RuntimeError):  # ``Condition.wait`` makes a RuntimeError of it in one place
        pass
    finally:
        sys.setprofile(None)
    return passed >= place
