"""Counts and latencies of acknowledged records, in windows and in all."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MIB: Final = 1 << 20
WINDOW_S: Final = 5.0
_MAX_SAMPLES: Final = 500_000
"""As many latencies are kept, evenly spread."""
_PERCENTILES: Final = {"50th": 0.5, "95th": 0.95, "99th": 0.99, "99.9th": 0.999}


@dataclass(slots=True)
class Counts:
    """Records since ``began``, with the sum and the greatest of their latencies."""

    began: float
    records: int = 0
    bytes: int = 0
    latency_ms: float = 0.0
    max_latency_ms: float = 0.0

    def add(self, size_in_bytes: int, latency_ms: float) -> None:
        """Count a record."""
        self.records += 1
        self.bytes += size_in_bytes
        self.latency_ms += latency_ms
        self.max_latency_ms = max(self.max_latency_ms, latency_ms)

    def record(self, now: float) -> dict[str, Any]:
        """What is printed as JSON."""
        seconds = max(now - self.began, 1e-3)
        return {
            "records": self.records,
            "recordsPerSecond": round(self.records / seconds, 1),
            "mbPerSecond": round(self.bytes / MIB / seconds, 2),
            "averageLatencyMs": round(self.latency_ms / max(self.records, 1), 2),
            "maxLatencyMs": round(self.max_latency_ms, 2),
        }


class Latencies:
    """Of the acknowledged records of a run. ``add`` is for one thread."""

    def __init__(
        self,
        records: int,
        show: Callable[[dict[str, Any]], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``records``: how many are expected. ``show`` is called at the end of each window."""
        self._clock = clock
        self._show: Callable[[dict[str, Any]], None] | None = show
        self._step = -(-records // _MAX_SAMPLES)
        self._samples = np.zeros(-(-records // self._step), np.float32)
        now = clock()
        self.total = Counts(now)
        self._window = Counts(now)

    def add(self, size_in_bytes: int, latency_ms: float) -> None:
        """Count a record."""
        if self.total.records % self._step == 0:
            self._samples[self.total.records // self._step] = latency_ms
        self.total.add(size_in_bytes, latency_ms)
        if self._show is None:
            return
        self._window.add(size_in_bytes, latency_ms)
        if (now := self._clock()) - self._window.began >= WINDOW_S:
            self._show(self._window.record(now))
            self._window = Counts(now)

    def end_windows(self) -> None:
        """Show no more of them."""
        self._show = None

    def summary(self) -> dict[str, Any]:
        """What is printed of the whole run, of one record at least."""
        taken = np.sort(self._samples[: -(-self.total.records // self._step)])
        found = {name: round(float(taken[int(share * len(taken))])) for name, share in _PERCENTILES.items()}
        return {**self.total.record(self._clock()), "percentilesMs": found}


def window_text(record: dict[str, Any]) -> str:
    """A window as Kafka's tool prints it."""
    return (
        f"{record['records']} records sent, {record['recordsPerSecond']:.1f} records/sec "
        f"({record['mbPerSecond']:.2f} MB/sec), {record['averageLatencyMs']:.1f} ms avg latency, "
        f"{record['maxLatencyMs']:.1f} ms max latency."
    )


def summary_text(record: dict[str, Any], kind: str = "") -> str:
    """The whole run as Kafka's tool prints it. ``kind``: ``steady state``, or nothing."""
    percentiles = ", ".join(f"{value} ms {name}" for name, value in record["percentilesMs"].items())
    return (
        f"{record['records']}{kind and f' {kind}'} records sent, {record['recordsPerSecond']:.6f} records/sec "
        f"({record['mbPerSecond']:.2f} MB/sec), {record['averageLatencyMs']:.2f} ms avg latency, "
        f"{record['maxLatencyMs']:.2f} ms max latency, {percentiles}."
    )
