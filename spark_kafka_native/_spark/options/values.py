"""Parsers of option values. Every function raises ValueError with the reason; the caller adds the option's name."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from spark_kafka_native._client.config_def import INT64_MAX, integer
from spark_kafka_native._client.java_regex.patterns import java_pattern
from spark_kafka_native._protocol.topic import topic_name_problem
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.offsets import Ago, NoMatch, OffsetLimit, parse_assignment, parse_offset_limit
from spark_kafka_native._spark.subscription import Assign, Subscribe, SubscribePattern

_MS_PER_UNIT: Final = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 0.001),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
COMMITTED: Final = "committed"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_MS: Final = integer(at_most=INT64_MAX)
_DURATION: Final = re.compile(r"([0-9]+)\s*([a-z]*)")


def duration_ms(text: str) -> int:
    """A Spark time string, ``15m``, ``100ms``, ``2 minutes``, -> milliseconds; without a unit it is milliseconds."""
    matched = _DURATION.fullmatch(text.strip().lower())
    unit = matched[2] or "ms" if matched else ""
    if not matched or unit not in _MS_PER_UNIT:
        raise ValueError(f"{text!r} is not a duration; expected e.g. 100ms, 5s, 15m, 1h or 2 days")
    duration = int(int(matched[1]) * _MS_PER_UNIT[unit])
    if duration > INT64_MAX:
        raise ValueError(f"{text!r} is out of bounds")
    return duration


def point_in_time(text: str) -> int | Ago:
    """Epoch milliseconds; ISO 8601 with a zone, ``2026-11-20T10:00:00Z``; or ``-10m``, ten minutes before now."""
    stripped = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", stripped):
        epoch_ms: int = _EPOCH_MS.parse(stripped)
        return epoch_ms
    if stripped.startswith("-"):
        try:
            return Ago(duration_ms=duration_ms(stripped[1:]))
        except ValueError:
            raise ValueError(
                f"{text!r} is not a duration before now; expected e.g. -90s, -10m, -1h or -2 days"
            ) from None
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        expected = "1700000000000 (epoch ms), 2026-11-20T10:00:00Z or -10m (ten minutes before now)"
        raise ValueError(f"{text!r} is not a point in time; expected e.g. {expected}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write e.g. {stripped}Z for UTC")
    since_epoch_ms: int = _EPOCH_MS.parse((moment - _EPOCH) // timedelta(milliseconds=1))
    return since_epoch_ms


def no_match(text: str) -> NoMatch:
    """``error`` or ``latest``."""
    try:
        return NoMatch(text.strip().lower())
    except ValueError:
        raise ValueError(f"{text!r} is neither error nor latest") from None


def topic(text: str) -> str:
    """A topic name; surrounding white space is removed."""
    name = text.strip()
    if problem := topic_name_problem(name):
        raise ValueError(problem)
    return name


def id_prefix(text: str) -> str:
    """The prefix of transactional ids, and of a topic name."""
    return Names(prefix=text.strip()).prefix


def subscribe(text: str) -> Subscribe:
    """Topic names separated by commas."""
    topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
    if not topics:
        raise ValueError(f"{text!r} names no topic")
    return Subscribe(topics=tuple(topic(name) for name in topics))


def assign(text: str) -> Assign:
    """``{"topicA":[0,1]}``."""
    partitions = parse_assignment(text)
    if not partitions:
        raise ValueError(f"{text!r} names no partition")
    return Assign(partitions=partitions)


def subscribe_pattern(text: str) -> SubscribePattern:
    """A regular expression of Java's."""
    pattern = text.strip()
    if not pattern:
        raise ValueError("the pattern is empty")
    try:
        java_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"{pattern!r} is not a regular expression that can be used here: {error}") from None
    return SubscribePattern(pattern=pattern)


def starting_offsets(text: str) -> OffsetLimit | Literal["committed"]:
    """As ``parse_offset_limit``, or ``committed``, whose group is another option."""
    return COMMITTED if text.strip().lower() == COMMITTED else parse_offset_limit(text, COMMITTED)
