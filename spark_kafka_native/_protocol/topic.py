"""Topic names and topic-partitions."""

import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_TOPIC_NAME_LENGTH = 249
"""Directory names ``topic-partition`` must fit a file system's 255 bytes."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that brokers keep their own state in. Subscriptions leave them out unless they are named."""

_SHOWN_AT_MOST = 8

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """One partition of a topic. ``str()`` has Kafka's form: ``events-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by topic, in their order: requests name each topic once."""
    found: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition)
    return found


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, or None.

    Legal names have 1 to 249 of ASCII letters, digits, ``.``, ``_``, ``-`` and are not ``.`` or ``..``.
    """
    if not name:
        return "topic name is empty"
    if name in {".", ".."}:
        return f"topic name cannot be {name!r}"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"topic name {name[:20]!r}... is {len(name)} characters long; the limit is {MAX_TOPIC_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def listed(items: Iterable[TopicPartition | str]) -> str:
    """Names in order, ``a-0, a-1``; a long list is cut and counted."""
    names = [str(item) for item in sorted(items)]
    more = len(names) - _SHOWN_AT_MOST
    if more <= 0:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN_AT_MOST])} and {more} more"
