"""The znodes of consumer groups below ``/consumers/GROUP``, in the formats of Apache Kafka 0.8 to 3.9.

``ids/CONSUMER``            ephemeral: what a consumer subscribes to, and with how many streams
``owners/TOPIC/PARTITION``  ephemeral: the thread that reads a partition, ``CONSUMER-NUMBER``
``offsets/TOPIC/PARTITION`` the next offset to read, as decimal text
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.json_data import InvalidZnode, decode_json, encode_json

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
_PATTERNS: Final = (STATIC, WHITE_LIST, BLACK_LIST)
MAX_STREAMS: Final = 10_000
"""Most streams of a consumer for a topic. A larger number in a znode of another consumer is not valid."""
_OFFSET: Final = re.compile(rb"[+-]?[0-9]{1,100}")
_INT64: Final = range(-(2**63), 2**63)


class ThreadId(NamedTuple):
    """A stream of a consumer. ``str()`` is its name in ZooKeeper, by which Kafka's consumers sort."""

    consumer_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The streams of a consumer: by topic, or for one expression (``WHITE_LIST``, ``BLACK_LIST``)."""

    pattern: str
    streams: Mapping[str, int]


class GroupPaths:
    """The paths of a group's znodes."""

    def __init__(self, group_id: str) -> None:
        self.ids = f"/consumers/{group_id}/ids"
        self._owners = f"/consumers/{group_id}/owners"
        self._offsets = f"/consumers/{group_id}/offsets"

    def consumer(self, consumer_id: str) -> str:
        """The registration of a consumer."""
        return f"{self.ids}/{consumer_id}"

    def owner(self, partition: TopicPartition) -> str:
        """The owner of a partition."""
        return f"{self._owners}/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        """The committed offset of a partition."""
        return f"{self._offsets}/{partition.topic}/{partition.partition}"


def encode_subscription(subscription: Subscription, timestamp_ms: int) -> bytes:
    """The registration of a consumer."""
    entries = {
        "version": 1,
        "subscription": dict(subscription.streams),
        "pattern": subscription.pattern,
        "timestamp": str(timestamp_ms),
    }
    return encode_json(entries)


def decode_subscription(data: bytes) -> Subscription:
    """The registration of a consumer. Raises InvalidZnode."""
    entries = decode_json(data)
    pattern, streams = entries.get("pattern"), entries.get("subscription")
    if pattern not in _PATTERNS:
        raise InvalidZnode(f"its pattern is not one of {', '.join(_PATTERNS)}")
    if not isinstance(streams, dict) or not all(_is_count(count) for count in streams.values()):
        raise InvalidZnode(f"its subscription does not give from 1 to {MAX_STREAMS} streams for each topic")
    if pattern != STATIC and len(streams) != 1:
        raise InvalidZnode("its subscription does not have one expression")
    return Subscription(pattern=pattern, streams=streams)


def decode_offset(data: bytes) -> int:
    """A committed offset, as Kafka's consumers read it; it may be negative. Raises InvalidZnode."""
    if not _OFFSET.fullmatch(data) or int(data) not in _INT64:
        raise InvalidZnode(f"{data!r:.40} is not an offset")
    return int(data)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_STREAMS
