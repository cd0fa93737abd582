import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dirty_equals import HasLen, IsInt

from tests.support import waiting
from tests.support.waiting import eventually, eventually_async, last_of


class FakeTime:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        self.now += 0.001  # so that loops without pauses come to an end
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    made = FakeTime()
    monkeypatch.setattr(waiting, "time", made)
    return made


Wait = Callable[..., Any]


def on_a_loop(read: Callable[[], Any], expected: object, **how: Any) -> Any:
    return asyncio.run(eventually_async(read, expected, **how))


both = pytest.mark.parametrize("wait", [eventually, on_a_loop])


def reads(*values: Any) -> Callable[[], Any]:
    """Reads one value after the other, then the last one again and again. An exception is raised."""

    def every() -> Iterator[Any]:
        yield from values
        while True:
            yield values[-1]

    remaining = every()

    def read() -> Any:
        value = next(remaining)
        if isinstance(value, Exception):
            raise value
        return value

    return read


@both
def test_the_value_that_equals_is_returned_at_once(wait: Wait, clock: FakeTime) -> None:
    assert wait(reads(5), 5) == 5
    assert clock.now < 1000.1


@both
@pytest.mark.usefixtures("clock")
def test_polls_until_the_value_equals(wait: Wait) -> None:
    assert wait(reads(1, 2, 3), 3) == 3
    assert wait(reads([], ["a"], ["a", "b"], ["a", "b", "c"]), HasLen(2, ...)) == ["a", "b"]


@both
def test_after_the_deadline_the_failure_shows_expected_and_last_value(wait: Wait, clock: FakeTime) -> None:
    with pytest.raises(AssertionError) as caught:
        wait(reads(1, 2, 3), IsInt(ge=4), within_s=2.5)
    first, *values = str(caught.value).splitlines()
    assert first.startswith("not within 2.5 s: ")
    assert values == ["expected: IsInt(ge=4)", "    last: 3"]
    assert 1002.5 < clock.now < 1002.6


@pytest.mark.usefixtures("clock")
def test_the_failure_shows_the_line_that_waits() -> None:
    with pytest.raises(AssertionError, match=r"^not within 30 s: eventually\(reads\(False\), True\)\n"):
        eventually(reads(False), True)

    async def story() -> None:
        await eventually_async(reads(False), True)

    with pytest.raises(AssertionError, match=r"^not within 30 s: await eventually_async\(reads\(False\), True\)\n"):
        asyncio.run(story())


def test_a_last_read_begins_after_the_deadline(clock: FakeTime) -> None:
    """A machine that stands still during one poll makes no test fail."""
    value = reads(False, True)

    def read_slowly() -> Any:
        clock.sleep(100)
        return value()

    assert eventually(read_slowly, True, within_s=1) is True


@both
@pytest.mark.usefixtures("clock")
def test_an_exception_ends_the_wait_at_once(wait: Wait) -> None:
    with pytest.raises(ZeroDivisionError):
        wait(reads(1, ZeroDivisionError(), 2), 2)
    with pytest.raises(ZeroDivisionError):
        wait(reads(1, ZeroDivisionError(), 2), 2, retrying=(OSError,))


@both
@pytest.mark.usefixtures("clock")
def test_a_declared_exception_is_retried_and_shown(wait: Wait) -> None:
    assert wait(reads(ConnectionRefusedError("port 1"), 2), 2, retrying=(OSError,)) == 2
    with pytest.raises(AssertionError, match=r"last: ConnectionRefusedError\('port 1'\)$"):
        wait(reads(ConnectionRefusedError("port 1")), 2, retrying=(OSError,))


@pytest.mark.usefixtures("clock")
def test_the_message_of_a_huge_value_is_bounded() -> None:
    with pytest.raises(AssertionError) as caught:
        eventually(reads(b"x" * 1_000_000), b"")
    assert str(caught.value).endswith("... (1000003 characters)")
    assert len(str(caught.value)) < 5000


def test_the_last_value_is_that_which_was_waited_for_or_that_at_the_deadline(clock: FakeTime) -> None:
    assert last_of(reads(1, 2, 3), lambda value: value == 2) == 2
    assert clock.now < 1001
    assert last_of(reads(1, 2), lambda value: value == 3, within_s=30) == 2
    assert 1030 < clock.now < 1031
