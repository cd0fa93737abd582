import select
import time

import pytest

from spark_kafka_native._net.alarm import Alarm
from spark_kafka_native._net.deadline import Deadline


def test_time_left_shrinks_to_zero_and_not_below() -> None:
    deadline = Deadline(time.monotonic() + 100)
    assert 0 < deadline.remaining_ms <= 100_000
    assert not deadline.expired
    passed = Deadline(time.monotonic() - 1)
    assert passed.expired
    assert passed.remaining_ms == 0


def test_at_most_takes_the_sooner_of_two() -> None:
    assert Deadline.after_ms(10_000).at_most_ms(1_000).remaining_ms <= 1_000
    assert Deadline.after_ms(1_000).at_most_ms(10_000).remaining_ms <= 1_000


def test_a_pause_ends_with_the_deadline() -> None:
    assert Deadline.after_ms(600_000).pause(1)
    assert not Deadline.after_ms(5).pause(600_000)  # longer than a test may take


def test_allowed_ms_is_the_initial_time() -> None:
    deadline = Deadline.after_ms(10_000)
    assert deadline.allowed_ms == 10_000
    assert deadline.at_most_ms(50).allowed_ms == 50
    assert deadline.at_most_ms(20_000).allowed_ms == 10_000


def test_extensions_of_a_deadline_are_bounded_together() -> None:
    deadline = Deadline.after_ms(10_000)
    for _ in range(3):
        deadline.extend_ms(200_000, most_ms=500_000)
    assert 509_000 < deadline.remaining_ms <= 510_000
    assert deadline.allowed_ms == 10_000


@pytest.mark.parametrize("duration_ms", [2**31 - 1, 2**31 + 4_999, 2**63, float("inf")])
def test_poll_takes_the_time_left_of_any_deadline(duration_ms: float) -> None:
    alarm, poll = Alarm(), select.poll()
    poll.register(alarm, select.POLLIN)
    alarm.ring()
    assert poll.poll(Deadline.after_ms(duration_ms).remaining_ms) == [(alarm.fileno(), select.POLLIN)]
    alarm.close()
