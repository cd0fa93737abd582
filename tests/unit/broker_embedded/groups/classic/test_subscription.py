"""What consumers read, as far as they say it."""

import pytest

from broker_embedded.groups.classic.subscription import subscribed_topics
from tests.support.group_driver import subscription


def test_topics_of_all_members() -> None:
    assert subscribed_topics([subscription("t", "u"), subscription("u", "v"), subscription()]) == frozenset("tuv")
    assert subscribed_topics([]) == frozenset()


def test_newer_versions_begin_like_the_first() -> None:
    newer = b"\x00\x03" + subscription("t")[2:] + b"\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"
    assert subscribed_topics([newer]) == frozenset("t")


@pytest.mark.parametrize("length", range(len(subscription("t")) - 4))
def test_one_that_is_not_understood_leaves_all_unknown(length: int) -> None:
    assert subscribed_topics([subscription("t"), subscription("t")[:length]]) is None
