"""A flag that is set in one thread and checked in another."""

import pytest

from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation, WorkCancelled


def test_work_goes_on_until_it_is_cancelled_and_says_the_first_reason() -> None:
    cancellation = Cancellation()
    items = cancellation.between(range(10))
    assert [next(items), next(items)] == [0, 1]
    cancellation.cancel("the first")
    cancellation.cancel("another")
    with pytest.raises(WorkCancelled, match="the first"):
        next(items)
    with pytest.raises(WorkCancelled):
        cancellation.check()


def test_what_nobody_cancels_is_never_stopped() -> None:
    NEVER_CANCELLED.check()
    assert list(NEVER_CANCELLED.between("abc")) == ["a", "b", "c"]
