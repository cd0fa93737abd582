import pytest

from spark_kafka_native._spark.offsets import Ago
from spark_kafka_native._spark.options.values import duration_ms, point_in_time, starting_offsets


@pytest.mark.feature("source.maxTriggerDelay")
@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        ("5s", 5_000),
        ("100ms", 100),
        ("1h", 3_600_000),
        ("2 minutes", 120_000),
        ("2d", 172_800_000),
        ("1500us", 1),
        ("10min", 600_000),
        (" 7 SECONDS ", 7_000),
        ("250", 250),  # Spark's own time strings are milliseconds without a unit
        ("0s", 0),
    ],
)
def test_durations_in_milliseconds(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "m", "-5s", "1.5h", "5 weeks", "5s5s", "s5", "1e3"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; expected e\.g\. 100ms"):
        duration_ms(text)


def test_too_long_durations() -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        duration_ms("9223372036854775807d")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:00.001Z", 1),
        ("2026-11-20T10:00:00.0019Z", 1_795_168_800_001),
        ("2026-11-20T10:00:00+05:30", 1_795_149_000_000),
        ("2026-11-20 10:00Z", 1_795_168_800_000),
        ("-10m", Ago(duration_ms=600_000)),
        ("- 1 hour", Ago(duration_ms=3_600_000)),
    ],
)
def test_timestamps_in_options(text: str, moment: int | Ago) -> None:
    assert point_in_time(text) == moment


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2026-11-20T10:00:00", "has no time zone; write e.g. 2026-11-20T10:00:00Z for UTC"),
        ("yesterday", "is not a point in time"),
        ("10m", "is not a point in time"),
        ("now-10m", "is not a point in time"),
        ("-10 moons", r"'-10 moons' is not a duration before now; expected e\.g\. -90s, -10m"),
        ("-5", "-5 is out of bounds"),
        ("1969-12-31T23:59:59Z", "-1000 is out of bounds"),
        ("9223372036854775808", "out of bounds"),
    ],
)
def test_invalid_timestamps(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        point_in_time(text)


def test_committed_is_a_starting_offset() -> None:
    assert starting_offsets(" COMMITTED ") == "committed"
