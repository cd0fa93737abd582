"""The clocks of brokers for tests, and how a command line writes them down."""

from typing import Final

from broker_embedded.config.settings import ConfigError
from broker_embedded.platform import clocks
from broker_embedded.platform.clocks import MovableClock, ShiftedClock, SystemClock

_MANUAL: Final = "manual"
_AHEAD: Final = "ahead"


class ManualClock(clocks.ManualClock):
    """A clock that stands until a test moves it, at first at the machine's time unless another is given.

    Real clients put the machine's time into their records. A broker refuses those that are more than an hour ahead of
    it (message.timestamp.after.max.ms).
    """

    def __init__(self, now_ms: int | None = None) -> None:
        super().__init__(SystemClock().now_ms() if now_ms is None else now_ms)


def parse_clock(key: str, text: str) -> MovableClock:
    """The clock that ``spell_clock`` has written down. Raises ConfigError naming ``key``."""
    kind, _, ms = text.partition(":")
    if kind not in {_MANUAL, _AHEAD} or not (ms.isascii() and ms.isdigit()):
        raise ConfigError(key, f"{text!r} is neither {_MANUAL}:MS nor {_AHEAD}:MS")
    return ManualClock(int(ms)) if kind == _MANUAL else ShiftedClock(int(ms))


def spell_clock(clock: MovableClock) -> str:
    """A clock as it is now, for a command line."""
    if isinstance(clock, ShiftedClock):
        return f"{_AHEAD}:{clock.ahead_ms}"
    return f"{_MANUAL}:{clock.now_ms()}"
