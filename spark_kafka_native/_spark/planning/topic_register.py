"""The topic ids of a group's commits, in a second group that the deletion of a topic does not affect.

Brokers delete a topic's commits with the topic, including their metadata, so these do not show that a topic was created
again while a query was down. The register is a second group with the suffix ``.pykafka-topics``. It commits partitions
of ``__consumer_offsets``, which is never deleted. The offsets have no meaning; the metadata are lines::

    pykafka:1 <key><topic id> <key><topic id> ...       key: 8 characters of a hash of the topic's name

The key of a topic determines its partition. If the cluster forbids these commits (ACLs) or has no such topic, there is
no register: the query continues, and logs a warning once.
"""

import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final
from uuid import UUID

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.ids import format_id, parse_id
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.bounds import OffsetSource

SUFFIX: Final = ".pykafka-topics"
"""Of the second group's id."""
REGISTER_TOPIC: Final = "__consumer_offsets"
MAX_METADATA_BYTES: Final = 4096
"""Default of ``offset.metadata.max.bytes``; topics beyond that are not registered."""

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
        """The registered ids of ``topics``; topics without one are left out."""
        try:
            slots = {topic: slot for topic in topics if (slot := self._slot(topic)) is not None}
            commits = self._source.committed(self._group_id, sorted(set(slots.values())), timeout_ms=self._timeout_ms)
        except KafkaError as error:
            self._give_up(error)
            return {}
        self._written |= {slot: commit.metadata for slot, commit in commits.items()}
        found = {slot: _parse(commit.metadata) for slot, commit in commits.items()}
        ids = {topic: found.get(slot, {}).get(_key(topic)) for topic, slot in slots.items()}
        return {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}

    def note(self, ids: Mapping[str, UUID], *, refresh: bool) -> None:
        """Register the topics that the query reads, and no others; ``refresh``: also if they are registered already."""
        try:
            lines: dict[TopicPartition, str] = {}
            for topic in sorted(ids):
                slot = self._slot(topic)
                entry = f" {_key(topic)}{format_id(ids[topic])}"
                if slot is not None and len(lines.get(slot, _HEAD)) + len(entry) <= MAX_METADATA_BYTES:
                    lines[slot] = lines.get(slot, _HEAD) + entry
            changed = {slot: text for slot, text in lines.items() if refresh or self._written.get(slot) != text}
            if changed:
                commits = {slot: OffsetAndMetadata(offset=0, metadata=text) for slot, text in changed.items()}
                self._source.commit(self._group_id, commits, timeout_ms=self._timeout_ms)
                self._written |= changed
        except KafkaError as error:
            self._give_up(error)

    def _slot(self, topic: str) -> TopicPartition | None:
        if not self._usable:
            return None
        if self._slots is None:
            self._slots = len(self._source.topics([REGISTER_TOPIC]).get(REGISTER_TOPIC, ()))
        if self._slots == 0:
            self._slots = None  # brokers create the topic with the cluster's first group
            return None
        return TopicPartition(REGISTER_TOPIC, int.from_bytes(_digest(topic)) % self._slots)

    def _give_up(self, error: KafkaError) -> None:
        if not error.retriable and self._usable:
            self._usable = False
            _log.warning(
                "a topic that is deleted and created again while the query is down will not be detected, because topic "
                "ids cannot be stored as commits of group %s to %s: %s",
                self._group_id,
                REGISTER_TOPIC,
                error,
            )


def _digest(topic: str) -> bytes:
    return blake2b(topic.encode(), digest_size=6).digest()


def _key(topic: str) -> str:
    return urlsafe_b64encode(_digest(topic)).decode()


def _parse(metadata: str) -> dict[str, UUID]:
    """Ids by key; empty for metadata of another program."""
    if not metadata.startswith(f"{_HEAD} "):
        return {}
    return {key: parse_id(topic_id) for key, topic_id in _ENTRY.findall(metadata)}
