"""The topics of a group's member: given names, or the existing topics that a filter accepts."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import TopicMetadata
from spark_kafka_native._protocol.errors import ErrorCode

METADATA_MS: Final = 5_000
"""Longest request for metadata in a member's thread, which cannot be interrupted; the caller repeats it."""


class SubscribedTopics:
    """`Topics` of a member. ``outdate`` is for other threads."""

    def __init__(
        self, cluster: Cluster, *, names: Iterable[str] = (), accepts: Callable[[TopicMetadata], bool] | None = None
    ) -> None:
        """The topics ``names``, or with ``accepts`` all topics for which it is true."""
        self._cluster = cluster
        self._names = frozenset(names)
        self._accepts = accepts
        self._asked_at = 0.0
        self._is_outdated = True

    def subscribed(self) -> frozenset[str]:
        """As ``Topics.subscribed``."""
        if self._accepts is not None:
            self._note_request()
            topics = self._cluster.metadata(timeout_ms=METADATA_MS).topics.values()
            self._names = frozenset(topic.name for topic in topics if self._accepts(topic))
        return self._names

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """As ``Topics.partition_counts``."""
        self._note_request()
        wanted = sorted(topics)
        found: Mapping[str, TopicMetadata] = {}
        if wanted:
            found = self._cluster.metadata(wanted, missing_ok=True, timeout_ms=METADATA_MS).topics
        return {
            name: len(topic.partitions)
            for name, topic in found.items()
            if topic.error is ErrorCode.NONE and topic.partitions
        }

    def is_outdated(self) -> bool:
        """As ``Topics.is_outdated``."""
        age_ms = (time.monotonic() - self._asked_at) * 1000
        return self._is_outdated or age_ms >= self._cluster.config.metadata_max_age_ms

    def outdate(self) -> None:
        """Ask brokers again soon, because topics have changed."""
        self._is_outdated = True

    def _note_request(self) -> None:
        self._is_outdated = False
        self._asked_at = time.monotonic()
