"""The same requests to the bundled broker and to Apache Kafka, whose responses must be equal."""

import functools
import inspect
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from tests.support.requests.broker_differences import RESPONSES
from tests.support.requests.conversation import Conversation


def compare_brokers(story: Callable[..., None]) -> Callable[..., None]:
    """A test that tells the story to both brokers of fixture ``both``; the first parameter is one of them."""
    broker, *parameters = inspect.signature(story).parameters.values()

    @functools.wraps(story)
    def test(both: Any, **arguments: Any) -> None:
        both.tell(lambda broker: story(broker, **arguments))

    both = inspect.Parameter("both", broker.kind)
    test.__signature__ = inspect.Signature([both, *parameters])  # type: ignore[attr-defined]  # pytest reads it
    return test


class Both:
    """Two conversations with equal requests. `tests.support.requests.broker_differences` lists intended differences."""

    def __init__(self, ours: Conversation, theirs: Conversation) -> None:
        self.ours, self.theirs = ours, theirs

    def tell(self, story: Callable[[Conversation], None]) -> None:
        """Tell both, and compare answer by answer."""
        before = len(self.ours.responses)
        story(self.ours)
        self.theirs.expected = tuple(self.ours.responses)
        story(self.theirs)
        assert len(self.ours.responses) > before
        wrong = []
        for (question, our_response), (same_question, their_response) in zip(
            self.ours.responses, self.theirs.responses, strict=True
        ):
            assert question == same_question
            meant = any(fnmatchcase(question, pattern) for pattern in RESPONSES)
            if (our_response != their_response) != meant:
                wrong.append(f"{question}\n  ours:   {our_response}\n  theirs: {their_response}")
        assert not wrong, "\n".join(wrong)
