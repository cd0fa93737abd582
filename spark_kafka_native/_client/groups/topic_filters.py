"""Filters of topics, as Kafka's Scala consumers have them: a Java regular expression for whole names."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from spark_kafka_native._client.java_regex.patterns import java_pattern
from spark_kafka_native._zookeeper.consumer_znodes import BLACK_LIST, WHITE_LIST

_QUOTES: Final = "\"'"


class TopicFilter(ABC):
    """Which topics a consumer subscribes to: a `Whitelist` or a `Blacklist`."""

    pattern: ClassVar[str]
    """The name of its kind in ZooKeeper."""

    def __init__(self, expression: str) -> None:
        """``expression``: a Java regular expression; a comma stands for ``|``. Raises ValueError: it cannot be used."""
        if not isinstance(expression, str):
            raise TypeError(f"a topic filter must be str, not {type(expression).__name__}")
        self.expression = expression.strip().replace(",", "|").replace(" ", "").strip(_QUOTES)
        if not self.expression:
            raise ValueError("the expression of a topic filter is empty")
        try:
            self._pattern = java_pattern(self.expression)
        except ValueError as error:
            raise ValueError(f"the topic filter {self.expression!r} cannot be used: {error}") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.expression!r})"

    def matches(self, topic: str) -> bool:
        """Whether the expression matches the whole name."""
        return self._pattern.fullmatch(topic) is not None

    @abstractmethod
    def accepts(self, topic: str) -> bool:
        """Whether to subscribe to a topic."""


class Whitelist(TopicFilter):
    """The topics that the expression matches."""

    pattern = WHITE_LIST

    def accepts(self, topic: str) -> bool:
        """As ``TopicFilter.accepts``."""
        return self.matches(topic)


class Blacklist(TopicFilter):
    """The topics that the expression does not match."""

    pattern = BLACK_LIST

    def accepts(self, topic: str) -> bool:
        """As ``TopicFilter.accepts``."""
        return not self.matches(topic)
