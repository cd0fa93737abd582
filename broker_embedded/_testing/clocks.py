"""The clocks of brokers for tests, and their format in options."""

from typing import Final

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.clocks import ManualClock, MovableClock, ShiftedClock

_MANUAL: Final = "manual"
_AHEAD: Final = "ahead"


def parse_clock(key: str, text: str) -> MovableClock:
    """Parse the format of ``format_clock``. Raises SettingError naming ``key``."""
    kind, _, ms = text.partition(":")
    if kind not in {_MANUAL, _AHEAD} or not (ms.isascii() and ms.isdigit()):
        raise SettingError(key, f"must be {_MANUAL}:MS or {_AHEAD}:MS, not {text!r}")
    return ManualClock(int(ms)) if kind == _MANUAL else ShiftedClock(int(ms))


def format_clock(clock: MovableClock) -> str:
    """Format the present state of a clock as an option."""
    if isinstance(clock, ShiftedClock):
        return f"{_AHEAD}:{clock.ahead_ms}"
    return f"{_MANUAL}:{clock.now_ms()}"
