"""Offset limits, where a query starts and ends, as a sum type; and the offset JSON.

Offset JSON, in options and in checkpoints, has the format of Spark's JVM connector::

    {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}        -2 earliest, -1 latest
    {"topicA":"earliest","topicB":{"0":23}}             all partitions of a topic at once; options only
    {"topicA":"latest-100","topicB":{"0":"earliest"}}   100 offsets before the end, names for partitions; options only

An offset is the next one to read. Spark compares checkpoint offsets as text, so topics are sorted, and partitions are
sorted as numbers.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, assert_never

from spark_kafka_native._client.config_def import INT32_MAX, INT64_MAX
from spark_kafka_native._protocol.nearest import nearest_name
from spark_kafka_native._protocol.topic import TopicPartition

EARLIEST_OFFSET: Final = -2
"""Stands for the first offset that the partition has when it is read."""
LATEST_OFFSET: Final = -1
"""Stands for the end offset that the partition has when it is read."""

OffsetMap = dict[TopicPartition, int]
"""The next offset to read, by partition."""
OffsetJson = dict[str, dict[str, int]]
"""An ``OffsetMap`` as Spark stores it: topic -> partition in decimal -> offset."""

_WORD: Final = re.compile(r"(earliest)|(latest)(?:\s*-\s*([0-9]+))?")
_NAME: Final = re.compile(r"[a-z]")
_OF_JSON: Final = ("true", "false", "null")
_EXAMPLE: Final = '"earliest", "latest", "latest-100" or {"topicA":{"0":23,"1":-1},"topicB":"earliest"}'
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class NoMatch(Enum):
    """The start of a partition whose records are all earlier than the starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earliest:
    """Every partition at its first offset."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Every partition at its end."""


@dataclass(frozen=True, slots=True, order=True)
class BeforeLatest:
    """``count`` offsets before the end of a partition, or at its first offset if it has fewer."""

    count: int


Position = int | BeforeLatest
"""A position in one partition: an offset, -2, -1, or a number of offsets before the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecificOffsets:
    """Positions by partition; ``topics`` has those of whole topics, ``default`` that of every other partition."""

    offsets: Mapping[TopicPartition, Position] = field(default_factory=dict)
    topics: Mapping[str, Position] = field(default_factory=dict)
    default: Position | None = None

    def position(self, tp: TopicPartition) -> Position | None:
        """The position of ``tp``: its own, its topic's or the default; None: there is none."""
        return self.offsets.get(tp, self.topics.get(tp.topic, self.default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ago:
    """A point in time ``duration_ms`` before the moment at which it is looked up."""

    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTimestamp:
    """Every partition at its first record of ``timestamp_ms`` or later."""

    timestamp_ms: int | Ago
    no_match: NoMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimestamps:
    """Each partition at its first record of its timestamp (epoch ms) or later; every other one at ``default``."""

    timestamps: Mapping[TopicPartition, int]
    no_match: NoMatch
    default: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Each partition at the committed offset of a consumer group, or at ``otherwise`` without a commit."""

    group_id: str
    otherwise: Earliest | Latest | BeforeLatest


OffsetLimit = Earliest | Latest | BeforeLatest | SpecificOffsets | GlobalTimestamp | PartitionTimestamps | Committed


def parse_word(text: str) -> Earliest | Latest | BeforeLatest:
    """``earliest``, ``latest`` or ``latest-100`` in any case -> a limit. Raises ValueError."""
    word = _WORD.fullmatch(text.strip().lower())
    if word is None:
        raise ValueError(f"{text!r} is neither earliest nor latest nor of the form latest-100")
    if word[1]:
        return Earliest()
    count = int(word[3] or 0)
    if count > INT64_MAX:
        raise ValueError(f"{count} is out of bounds; expected at most {INT64_MAX}")
    return BeforeLatest(count) if count else Latest()


def parse_position(text: str) -> Position:
    """As ``parse_word``, for single partitions."""
    return _position(parse_word(text))


def parse_offset_limit(text: str, *other_words: str) -> OffsetLimit:
    """A word (``parse_word``) or offset JSON -> a limit.

    Raises ValueError with the reason; for an unknown word, with the nearest one, also of ``other_words``.
    """
    word = text.strip().lower()
    if _WORD.fullmatch(word):
        return parse_word(text)
    if _NAME.match(word) and word not in _OF_JSON:
        raise ValueError(
            f"{text!r} is neither one of these words nor JSON; expected e.g. {_EXAMPLE}{_suggestion(word, other_words)}"
        )
    return _parse_specific(text)


def _suggestion(word: str, other_words: Sequence[str]) -> str:
    name, _, count = word.partition("-")
    near = nearest_name(name.strip(), ("earliest", "latest", *other_words))
    if near is None:
        return ""
    number = f"-{count.strip()}" if near == "latest" and count.strip().isdecimal() else ""
    return f"; did you mean {near}{number}?"


def parse_timestamps(text: str) -> dict[TopicPartition, int]:
    """``{"topic":{"0":1700000000000}}`` -> epoch ms by partition. Raises ValueError saying what is wrong."""
    example = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
    timestamps: dict[TopicPartition, int] = {}
    for topic, value in _load_object(text, example).items():
        timestamps.update(_partition_numbers(topic, value, least=0, what="timestamp", example=example))
    return timestamps


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """``{"topicA":[0,1]}`` -> partitions, sorted. Raises ValueError saying what is wrong."""
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    partitions: set[TopicPartition] = set()
    for topic, numbers in _load_object(text, example).items():
        if not isinstance(numbers, list):
            raise ValueError(f"topic {topic!r} needs a list of partitions; expected e.g. {example}")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT32_MAX:
                raise ValueError(f"{number!r} of topic {topic!r} is not a partition; expected e.g. {example}")
            partitions.add(TopicPartition(topic, number))
    return tuple(sorted(partitions))


def parse_offsets(stored: Mapping[str, Mapping[str, int]]) -> OffsetMap:
    """A checkpoint's offsets, as Spark hands them over -> offsets by partition.

    Raises ValueError: the checkpoint was not written by this source or by the JVM connector.
    """
    example = '{"topicA":{"0":23}}'
    if not isinstance(stored, Mapping):
        raise ValueError(f"{stored!r} is not an object of topics; expected e.g. {example}")
    offsets: OffsetMap = {}
    for topic, value in stored.items():
        offsets.update(_partition_numbers(topic, value, least=0, what="offset", example=example))
    return offsets


def format_offsets(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Offsets by partition -> the form that Spark stores; equal maps give equal text, whatever their order."""
    stored: OffsetJson = {}
    for tp in sorted(offsets):
        stored.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return stored


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the JVM connector's format: one line, sorted, no spaces."""
    return json.dumps(format_offsets(offsets), separators=(",", ":"))


def _position(limit: Earliest | Latest | BeforeLatest) -> Position:
    match limit:
        case Earliest():
            return EARLIEST_OFFSET
        case Latest():
            return LATEST_OFFSET
        case BeforeLatest():
            return limit
        case _:
            assert_never(limit)


def _parse_specific(text: str) -> SpecificOffsets:
    example = _EXAMPLE
    offsets: dict[TopicPartition, Position] = {}
    topics: dict[str, Position] = {}
    for topic, value in _load_object(text, example).items():
        if isinstance(value, str):
            topics[topic] = _parse_named(value, f"topic {topic!r}", example)
        elif isinstance(value, Mapping):
            words = {partition: name for partition, name in value.items() if isinstance(name, str)}
            numbers = {partition: number for partition, number in value.items() if partition not in words}
            offsets.update(_partition_numbers(topic, numbers, least=EARLIEST_OFFSET, what="offset", example=example))
            for partition, name in words.items():
                offsets[_partition(topic, partition, example)] = _parse_named(name, f"{topic}-{partition}", example)
        else:
            raise ValueError(f"topic {topic!r} needs an object of partitions, or a word; expected e.g. {example}")
    return SpecificOffsets(offsets=offsets, topics=topics)


def _parse_named(word: str, where: str, example: str) -> Position:
    try:
        return parse_position(word)
    except ValueError:
        raise ValueError(f"{word!r} of {where} is not an offset; expected e.g. {example}") from None


def _partition_numbers(topic: str, value: object, *, least: int, what: str, example: str) -> OffsetMap:
    """``{"0":23}`` under a topic -> numbers by partition."""
    if not isinstance(value, Mapping):
        raise ValueError(f"topic {topic!r} needs an object of partitions; expected e.g. {example}")
    numbers: OffsetMap = {}
    for partition, number in value.items():
        tp = _partition(topic, partition, example)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= INT64_MAX:
            raise ValueError(f"{number!r} of {topic}-{partition} is not a valid {what}; expected e.g. {example}")
        numbers[tp] = number
    return numbers


def _partition(topic: str, partition: str, example: str) -> TopicPartition:
    if not _PARTITION.fullmatch(partition) or int(partition) > INT32_MAX:
        raise ValueError(f"{partition!r} of topic {topic!r} is not a partition; expected e.g. {example}")
    return TopicPartition(topic, int(partition))


def _load_object(text: str, example: str) -> dict[str, Any]:
    try:
        loaded = json.loads(text, object_pairs_hook=_without_duplicates(example))
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error.msg} at character {error.pos}); expected e.g. {example}") from None
    except RecursionError:
        raise ValueError(f"not valid JSON (nested too deeply); expected e.g. {example}") from None
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError(f"not a JSON object with at least one topic; expected e.g. {example}")
    return loaded


def _without_duplicates(example: str) -> Callable[[Iterable[tuple[str, Any]]], dict[str, Any]]:
    def collect(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        collected: dict[str, Any] = {}
        for name, value in pairs:
            if name in collected:
                raise ValueError(f"{name!r} appears twice; expected e.g. {example}")
            collected[name] = value
        return collected

    return collect
