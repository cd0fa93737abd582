"""Clocks of brokers for tests, at first and written down."""

import pytest

from broker_embedded.config.settings import ConfigError
from broker_embedded.platform.clocks import MovableClock, ShiftedClock, SystemClock
from broker_embedded.testing.clocks import ManualClock, format_clock, parse_clock


def test_a_clock_stands_at_the_time_it_was_made_unless_told() -> None:
    before = SystemClock().now_ms()
    clock = ManualClock()
    assert before <= clock.now_ms() <= SystemClock().now_ms()
    assert ManualClock(5).now_ms() == 5


@pytest.mark.parametrize("clock", [ManualClock(5), ShiftedClock(), ShiftedClock(7)])
def test_a_clock_can_be_written_down(clock: MovableClock) -> None:
    clock.advance(1000)
    read = parse_clock("--clock", format_clock(clock))
    assert type(read) is type(clock)
    assert format_clock(read) == format_clock(clock)


@pytest.mark.parametrize("text", ["manual", "manual:", "manual:-1", "ahead:x", "slow:5", ""])
def test_other_clocks_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--clock.*is neither manual:MS nor ahead:MS"):
        parse_clock("--clock", text)
