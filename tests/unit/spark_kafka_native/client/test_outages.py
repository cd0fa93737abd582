import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from spark_kafka_native._client.retry import Outages
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline

ONE, TWO = HostPort("one", 9092), HostPort("two", 9092)
NO_TIME_LEFT = Deadline(0)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines of the log since the last call, without the time that is left."""
    caplog.set_level(logging.INFO, "spark_kafka_native")

    def found() -> list[str]:
        texts = [re.sub(r" for \S+ s", "", text) for text in caplog.messages]
        caplog.clear()
        return texts

    return found


@pytest.fixture
def short_slices() -> Iterator[None]:
    """Let threads alternate after a few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def fail(outages: Outages, address: HostPort = ONE, times: int = 1) -> None:
    for _ in range(times):
        outages.note_failure(address, "refused", Deadline.after_ms(10**9))


def test_failures_are_logged_when_their_number_is_a_power_of_two(lines: Callable[[], list[str]]) -> None:
    outages = Outages("connected")
    fail(outages, times=1000)
    counted = [f"one:9092: refused; trying again; {2**power} failures in a row" for power in range(1, 10)]
    assert lines() == ["one:9092: refused; trying again", *counted]
    assert outages.failures(ONE) == 1000


def test_a_success_is_logged_once_and_the_next_failure_is_the_first(lines: Callable[[], list[str]]) -> None:
    outages = Outages("connected")
    fail(outages, times=3)
    lines()
    outages.note_success(ONE)
    outages.note_success(ONE)
    assert lines() == ["one:9092: connected; failures before: 3"]
    assert outages.failures(ONE) == 0
    fail(outages)
    assert lines() == ["one:9092: refused; trying again"]


def test_a_success_without_a_failure_is_not_logged(lines: Callable[[], list[str]]) -> None:
    Outages("connected").note_success(ONE)
    assert lines() == []


def test_failures_without_time_to_try_again_are_counted_and_not_logged(lines: Callable[[], list[str]]) -> None:
    outages = Outages("connected")
    outages.note_failure(ONE, "refused", NO_TIME_LEFT)
    outages.note_success(ONE)
    assert lines() == []
    outages.note_failure(ONE, "refused", NO_TIME_LEFT)
    fail(outages)
    outages.note_success(ONE)
    assert lines() == [
        "one:9092: refused; trying again; 2 failures in a row",
        "one:9092: connected; failures before: 2",
    ]


def test_each_address_has_its_own_failures(lines: Callable[[], list[str]]) -> None:
    outages = Outages("connected")
    fail(outages, ONE, 2)
    fail(outages, TWO)
    outages.note_success(TWO)
    assert (outages.failures(ONE), outages.failures(TWO)) == (2, 0)
    assert lines() == [
        "one:9092: refused; trying again",
        "one:9092: refused; trying again; 2 failures in a row",
        "two:9092: refused; trying again",
        "two:9092: connected; failures before: 1",
    ]


@pytest.mark.usefixtures("short_slices")
def test_failures_of_several_threads_are_all_counted_and_none_is_logged_twice(lines: Callable[[], list[str]]) -> None:
    outages = Outages("connected")
    threads = [threading.Thread(target=fail, args=(outages, ONE, 10_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert outages.failures(ONE) == 40_000
    counted = [f"one:9092: refused; trying again; {2**power} failures in a row" for power in range(1, 16)]
    assert sorted(lines()) == sorted(["one:9092: refused; trying again", *counted])


def test_a_forked_child_does_not_wait_for_a_thread_of_the_parent() -> None:
    outages = Outages("connected")
    fail(outages)
    with outages._lock:
        outages.reset_after_fork()
        assert outages.failures(ONE) == 1
