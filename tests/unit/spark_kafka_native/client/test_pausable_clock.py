from types import SimpleNamespace

import pytest

from spark_kafka_native._client import pausable_clock
from spark_kafka_native._client.pausable_clock import PausableClock


def test_a_paused_clock_stands_still_and_continues_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    time = SimpleNamespace(seconds=100.0)
    time.monotonic = lambda: time.seconds
    monkeypatch.setattr(pausable_clock, "time", time)
    clock = PausableClock()
    seen = [clock.now()]
    for step in (clock.pause, clock.resume, clock.resume, clock.pause, clock.pause, clock.resume):
        time.seconds += 10
        step()
        seen.append(clock.now())
    assert seen == [100, 100, 100, 110, 120, 120, 120]
