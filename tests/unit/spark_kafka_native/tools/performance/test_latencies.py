"""Windows and summaries of latencies, and their text in Kafka's form."""

from typing import Any

import pytest

from spark_kafka_native._tools.performance.latencies import Latencies, summary_text, window_text


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_window_ends_after_five_seconds(clock: Clock) -> None:
    windows: list[dict[str, Any]] = []
    latencies = Latencies(1000, windows.append, clock)
    for _ in range(50):
        clock.now += 0.125
        latencies.add(1 << 20, 10.0 if clock.now < 102 else 20.0)
    assert windows == [
        {
            "records": 40,
            "recordsPerSecond": 8.0,
            "mbPerSecond": 8.0,
            "averageLatencyMs": 16.25,
            "maxLatencyMs": 20.0,
        }
    ]
    text = "40 records sent, 8.0 records/sec (8.00 MB/sec), 16.2 ms avg latency, 20.0 ms max latency."
    assert window_text(windows[0]) == text


def test_no_window_is_shown_after_the_warm_up(clock: Clock) -> None:
    windows: list[dict[str, Any]] = []
    latencies = Latencies(2, windows.append, clock)
    latencies.end_windows()
    clock.now += 6
    latencies.add(1, 1.0)
    assert windows == []
    assert latencies.total.records == 1


def test_percentiles_are_those_of_all_latencies(clock: Clock) -> None:
    latencies = Latencies(1000, lambda _: None, clock)
    for number in reversed(range(1000)):
        latencies.add(0, float(number))
    clock.now += 4
    summary = latencies.summary()
    assert summary["percentilesMs"] == {"50th": 500, "95th": 950, "99th": 990, "99.9th": 999}
    assert summary_text(summary) == (
        "1000 records sent, 250.000000 records/sec (0.00 MB/sec), 499.50 ms avg latency, 999.00 ms max latency, "
        "500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th."
    )
    assert summary_text(summary, "steady state").startswith("1000 steady state records sent, ")


def test_of_many_records_samples_are_kept_that_are_evenly_spread(clock: Clock) -> None:
    count = 1_500_001
    latencies = Latencies(count, lambda _: None, clock)
    assert latencies._samples.nbytes <= 4 * 500_000
    for number in range(count):
        latencies.add(0, float(number))
    found = latencies.summary()["percentilesMs"]
    assert found["50th"] == pytest.approx(count * 0.5, rel=1e-4)
    assert found["99.9th"] == pytest.approx(count * 0.999, rel=1e-4)


def test_a_run_that_ended_early_has_the_percentiles_of_what_it_has_sent(clock: Clock) -> None:
    latencies = Latencies(1_000_000, lambda _: None, clock)
    for _ in range(3):
        latencies.add(0, 7.0)
    assert latencies.summary()["percentilesMs"] == dict.fromkeys(("50th", "95th", "99th", "99.9th"), 7)
