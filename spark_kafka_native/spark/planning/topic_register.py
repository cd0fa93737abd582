"""Which topics, by id, the commits of a group belong to, kept where the deletion of a topic does not reach.

Brokers drop a topic's commits together with the topic, metadata and all; so whether a topic was made again while a
query was down cannot be told from its own commits. The register is a second group, named after the first, that commits
partitions of ``__consumer_offsets``, which nobody deletes. Their offsets mean nothing; the metadata are lines::

    pykafka:1 <key><topic id> <key><topic id> ...       key: 8 characters of a hash of the topic's name

A topic stands in the partition that its key says. A cluster that forbids this (ACLs), or has no such topic, has no
register: the query runs on, and says once what cannot be known then.
"""

import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final
from uuid import UUID

from spark_kafka_native.client.admin.groups import CommittedOffset
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.ids import format_id, parse_id
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.planning.bounds import OffsetSource

SUFFIX: Final = ".pykafka-topics"
"""Of the second group's id."""
SHELF: Final = "__consumer_offsets"
MOST_METADATA_BYTES: Final = 4096
"""What brokers take unless ``offset.metadata.max.bytes`` says otherwise; topics beyond that are not registered."""

_HEAD: Final = "pykafka:1"
_ENTRY: Final = re.compile(r" ([A-Za-z0-9_-]{8})([A-Za-z0-9_-]{22})", re.ASCII)

_log = logging.getLogger(__name__)


class TopicRegister:
    """The register of one group."""

    def __init__(self, group_id: str, source: OffsetSource, *, timeout_ms: float) -> None:
        self._group_id = group_id + SUFFIX
        self._source = source
        self._timeout_ms = timeout_ms
        self._slots: int | None = None
        self._written: dict[TopicPartition, str] = {}
        self._usable = True

    def recall(self, topics: Iterable[str]) -> dict[str, UUID]:
        """The ids under which ``topics`` were registered last; those that were not are left out."""
        try:
            places = {topic: place for topic in topics if (place := self._place(topic)) is not None}
            commits = self._source.committed(self._group_id, sorted(set(places.values())), timeout_ms=self._timeout_ms)
        except KafkaError as error:
            self._give_up(error)
            return {}
        self._written |= {place: commit.metadata for place, commit in commits.items()}
        found = {place: _parse(commit.metadata) for place, commit in commits.items()}
        ids = {topic: found.get(place, {}).get(_key(topic)) for topic, place in places.items()}
        return {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}

    def note(self, ids: Mapping[str, UUID], *, refresh: bool) -> None:
        """Register the topics that the query reads now, and no others; ``refresh``: again if they are there already."""
        try:
            shelves: dict[TopicPartition, str] = {}
            for topic in sorted(ids):
                place = self._place(topic)
                entry = f" {_key(topic)}{format_id(ids[topic])}"
                if place is not None and len(shelves.get(place, _HEAD)) + len(entry) <= MOST_METADATA_BYTES:
                    shelves[place] = shelves.get(place, _HEAD) + entry
            news = {place: text for place, text in shelves.items() if refresh or self._written.get(place) != text}
            if news:
                commits = {place: CommittedOffset(offset=0, metadata=text) for place, text in news.items()}
                self._source.commit(self._group_id, commits, timeout_ms=self._timeout_ms)
                self._written |= news
        except KafkaError as error:
            self._give_up(error)

    def _place(self, topic: str) -> TopicPartition | None:
        if not self._usable:
            return None
        if self._slots is None:
            self._slots = len(self._source.topics([SHELF]).get(SHELF, ()))
        if self._slots == 0:
            self._slots = None  # it is made with the first group of a cluster
            return None
        return TopicPartition(SHELF, int.from_bytes(_digest(topic)) % self._slots)

    def _give_up(self, error: KafkaError) -> None:
        if not error.retriable and self._usable:
            self._usable = False
            _log.warning(
                "a topic that is deleted and created again while the query is down will not be recognised, because "
                "topic ids cannot be kept as commits of group %s to %s: %s",
                self._group_id,
                SHELF,
                error,
            )


def _digest(topic: str) -> bytes:
    return blake2b(topic.encode(), digest_size=6).digest()


def _key(topic: str) -> str:
    return urlsafe_b64encode(_digest(topic)).decode()


def _parse(metadata: str) -> dict[str, UUID]:
    """Ids by key; nothing if somebody else wrote it."""
    if not metadata.startswith(f"{_HEAD} "):
        return {}
    return {key: parse_id(topic_id) for key, topic_id in _ENTRY.findall(metadata)}
