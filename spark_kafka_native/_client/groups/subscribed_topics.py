"""The topics of a group's member: given names, or the existing topics that a filter accepts."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, TopicMetadata
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import listed

_log = logging.getLogger(__name__)

_METADATA_MS: Final = 5_000
"""Longest request for metadata in a member's thread, which cannot be interrupted; the caller repeats it."""
_MISSING_MS: Final = 1_000
"""Age of metadata without a topic of the subscription, after which brokers are asked again."""


def longest_metadata_ms(cluster: Cluster) -> float:
    """Of a Metadata request in a member's thread, which is repeated later."""
    return min(_METADATA_MS, cluster.config.default_api_timeout_ms)


def warn_of_missing(group_id: str, missing: frozenset[str], before: frozenset[str]) -> None:
    """Warn of the topics of a subscription that do not exist, if one of them was not missing ``before``."""
    if missing - before:
        _log.warning("group %s: these topics do not exist yet: %s", group_id, listed(missing))


class SubscribedTopics:
    """`Topics` of a member. ``outdate`` is for other threads."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        names: Iterable[str] = (),
        accepts: Callable[[TopicMetadata], bool] | None = None,
    ) -> None:
        """The topics ``names``, or with ``accepts`` all topics for which it is true."""
        self._cluster = cluster
        self._group_id = group_id
        self._names = frozenset(names)
        self._accepts = accepts
        self._missing: frozenset[str] = frozenset()
        """Topics of ``names`` that did not exist at the last request."""
        self._asked_at = 0.0
        self._is_outdated = True

    def subscribed(self) -> frozenset[str]:
        """As ``Topics.subscribed``."""
        if self._accepts is not None:
            topics = self._metadata(None).topics.values()
            self._names = frozenset(topic.name for topic in topics if self._accepts(topic))
        else:
            missing = self._find_missing()
            warn_of_missing(self._group_id, missing, self._missing)
            self._missing = missing
        return self._names

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """As ``Topics.partition_counts``."""
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata(topics).topics.items()
            if topic.error is ErrorCode.NONE and topic.partitions
        }

    def is_outdated(self) -> bool:
        """As ``Topics.is_outdated``."""
        age_ms = (time.monotonic() - self._asked_at) * 1000
        limit_ms = self._cluster.config.metadata_max_age_ms
        return self._is_outdated or age_ms >= (min(limit_ms, _MISSING_MS) if self._missing else limit_ms)

    def outdate(self) -> None:
        """Ask brokers again soon, because topics have changed."""
        self._is_outdated = True

    def _find_missing(self) -> frozenset[str]:
        """The topics of ``names`` that have no metadata yet. Raises KafkaError: one may not be described."""
        found = self._metadata(self._names)
        errors = {name: error for name in self._names if (error := found.error_of(name)) is not None}
        for error in errors.values():
            if not error.retriable:
                raise error
        return frozenset(errors)

    def _metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Of these topics, None for all of them."""
        self._is_outdated = False
        self._asked_at = time.monotonic()
        wanted = None if topics is None else sorted(topics)
        if wanted == []:
            return ClusterMetadata()
        return self._cluster.metadata(wanted, missing_ok=True, timeout_ms=longest_metadata_ms(self._cluster))
