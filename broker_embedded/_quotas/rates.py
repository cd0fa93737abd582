"""Rates and token buckets, measured as in Apache Kafka, so that throttle times are the same.

A rate is the sum of samples, each of one window, over the time since the oldest one began. Pure: time is a parameter,
in milliseconds by a clock that does not jump.
"""

from typing import Final

LONGEST_MS: Final = 2**31 - 1
"""The longest throttle time, because ``throttle_time_ms`` is an int32. Apache Kafka bounds only that of
request_percentage, by one window, and keeps the low 32 bits of the others.
"""
_SECOND_MS: Final = 1000


def _wait_ms(ms: float) -> int:
    """``ms`` rounded, at most `LONGEST_MS`. It is infinite if a limit is near 0."""
    return round(min(ms, LONGEST_MS))


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """Amounts per second over the last ``samples`` windows of ``window_ms``, the present one included."""

    __slots__ = ("_current", "_number", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._number = samples
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Record ``amount``. A negative one undoes an earlier one."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next(now_ms)
        sample.total += amount
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        # One sample more than are counted, because the oldest may be partly outside of the measured time.
        self._current = (self._current + 1) % (self._number + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def per_second(self, now_ms: int) -> float:
        """The present rate."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(sample.total for sample in self._samples) * _SECOND_MS / elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """The time of the rate. All windows except the present one count completely."""
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._number * self._window_ms:
                sample.reset(now_ms)
        start_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - start_ms
        missing = self._number - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def excess_ms(self, limit: float, now_ms: int) -> int:
        """The idle time after which the rate is ``limit``; 0 if it is not above."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return _wait_ms((rate - limit) / limit * self.elapsed_ms(now_ms))


class TokenBucket:
    """Tokens that are refilled at a rate, up to those of ``samples`` windows, and may be overdrawn once (KIP-599).

    Unlike with a sampled rate, the throttle time of a burst is proportional to its excess.
    """

    __slots__ = ("_seconds", "_tokens", "_updated_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._seconds = samples * window_ms / _SECOND_MS
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        """Take ``amount`` tokens, even if there are fewer."""
        self._tokens = min(self._seconds * limit, self.left(limit, now_ms) - amount)

    def left(self, limit: float, now_ms: int) -> float:
        """The tokens left, refilled by ``limit`` each second; negative if overdrawn."""
        full = self._seconds * limit
        if self._updated_ms is None:
            self._tokens = full
        else:
            self._tokens = min(full, self._tokens + limit * (now_ms - self._updated_ms) / _SECOND_MS)
        self._updated_ms = now_ms
        return self._tokens

    def owed_ms(self, limit: float, now_ms: int) -> int:
        """The time until the bucket is not overdrawn any more; 0 if it is not."""
        left = self.left(limit, now_ms)
        return _wait_ms(-left / limit * _SECOND_MS) if left < 0 else 0
