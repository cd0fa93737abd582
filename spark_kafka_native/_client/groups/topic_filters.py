"""Filters of topics, as Kafka's Scala consumers have them: a Java regular expression for whole names."""

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

import re2

from spark_kafka_native._client.java_regex.patterns import java_pattern
from spark_kafka_native._zookeeper.consumer_znodes import BLACK_LIST, WHITE_LIST

_QUOTES: Final = "\"'"
_MAX_PROGRAM_BYTES: Final = 1 << 17
"""RE2's ``max_mem``, for the program and its cache of states. More would let an expression compile longer."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


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
            pattern = java_pattern(self.expression)
        except ValueError as error:
            raise ValueError(f"the topic filter {self.expression!r} cannot be used: {error}") from None
        linear = _linear_pattern(pattern)
        self.is_linear: bool = linear is not None
        """Whether the time of a match is linear in the length of the name."""
        self._pattern = linear or pattern

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


def _linear_pattern(pattern: re.Pattern[str]) -> Any:
    """The pattern of RE2 that matches the same names; None: RE2 has none, or the expression is too large."""
    options = re2.Options()
    options.max_mem = _MAX_PROGRAM_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        # RE2 has \z where Python has \Z.
        return re2.compile(_ESCAPE.sub(lambda found: r"\z" if found[1] == "Z" else found[0], pattern.pattern), options)
    except re2.error:
        return None
