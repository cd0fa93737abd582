"""A query's progress, committed to a consumer group for tools that show lag, and for queries that start from it.

The query continues from Spark's checkpoint alone, never from the group. Three rules:

1. Only offsets of finished micro-batches are committed: the argument of ``latestOffset``. A run with
   Trigger.AvailableNow is committed to its last offset. Trigger.Once ends without that call, so the next run commits.
2. A committed offset never decreases, unless the topic has another id or the offset is greater than the end. Running
   queries commit at most once a second. Unchanged partitions are committed again only when a run begins and every six
   hours, because brokers expire the offsets of a group without members, by default after a week.
3. If the broker rejects the first commit of a run with an error that is not retriable (no permission; a group with
   members), the query fails. After its first commit a run logs such errors, continues, and retries.
"""

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.bounds import Clock, OffsetSource
from spark_kafka_native._spark.planning.topic_ids import CommitMark, TopicIds
from spark_kafka_native._spark.planning.topic_register import TopicRegister

COMMIT_TIMEOUT_MS: Final = 5_000.0
"""Timeout of a commit, during which a running query waits."""
INTERVAL_MS: Final = 1_000.0
"""Interval of commits of a running query."""
MAX_PARTITIONS: Final = 2_000
"""Most partitions of one OffsetCommit, which is one record batch of at most 1 MiB in ``__consumer_offsets``."""
REFRESH_MS: Final = 6 * 3600 * 1000.0
"""Interval at which unchanged offsets are committed again."""
LONGEST_PAUSE_MS: Final = 60_000.0
"""Upper bound of the pause after failed commits, which doubles."""

_log = logging.getLogger(__name__)


class GroupProgress:
    """The commits of one run of a query to ``group_id``."""

    def __init__(self, group_id: str, source: OffsetSource, clock: Clock) -> None:
        self._group_id = group_id
        self._source = source
        self._clock = clock
        self._register = TopicRegister(group_id, source, timeout_ms=COMMIT_TIMEOUT_MS)
        self._committed: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self._settled: OffsetMap | None = None
        self._has_committed = False
        self._pause_ms = INTERVAL_MS
        self._due_at_ms = -math.inf
        self._refresh_at_ms = -math.inf

    def commits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of ``partitions``. Raises KafkaError naming the group, PlanError as ``report``."""
        try:
            self._learn(partitions)
        except KafkaError as error:
            if error.retriable:
                raise
            raise self._refused(error) from error
        found = {tp: self._committed[tp] for tp in partitions}
        return {tp: commit for tp, commit in found.items() if commit is not None}

    def registered(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, UUID]:
        """The registered topic ids of partitions that have no committed offset any more."""
        lost = [tp for tp in partitions if self._committed.get(tp) is None]
        ids = self._register.recall({tp.topic for tp in lost}) if lost else {}
        return {tp: ids[tp.topic] for tp in lost if tp.topic in ids}

    def report(self, finished: OffsetMap, ends: Mapping[TopicPartition, int], ids: TopicIds, *, at_once: bool) -> None:
        """Commit the changes in ``finished`` if the interval is over or ``at_once``; ``ends`` has existing partitions.

        Raises PlanError: the broker rejected the first commit of this run.
        """
        now_ms = self._clock.now_ms()
        refresh = now_ms >= self._refresh_at_ms
        if (finished is self._settled and not refresh) or (now_ms < self._due_at_ms and not at_once):
            return
        try:
            self._learn([tp for tp in finished if tp in ends], timeout_ms=COMMIT_TIMEOUT_MS)
            offsets = {
                tp: OffsetAndMetadata(offset=offset, metadata=ids.commit_metadata(tp))
                for tp, offset in finished.items()
                if tp in ends
            }
            changed = {
                tp: commit
                for tp, commit in offsets.items()
                if _is_changed(self._committed[tp], commit, ends[tp], refresh=refresh)
            }
            for some in _chunks(changed):
                self._source.commit(self._group_id, some, timeout_ms=COMMIT_TIMEOUT_MS)
                self._committed |= some
        except KafkaError as error:
            self._failed(error, now_ms)
            return
        self._settled = finished if finished.keys() <= ends.keys() else None
        self._has_committed = True
        self._pause_ms = INTERVAL_MS
        self._due_at_ms = now_ms + INTERVAL_MS
        if refresh:
            self._refresh_at_ms = now_ms + REFRESH_MS
        self._register.note(ids.by_topic(finished), refresh=refresh)

    def _learn(self, partitions: Collection[TopicPartition], *, timeout_ms: float | None = None) -> None:
        unknown = [tp for tp in partitions if tp not in self._committed]
        if unknown:
            found = self._source.committed(self._group_id, unknown, timeout_ms=timeout_ms)
            self._committed |= {tp: found.get(tp) for tp in unknown}

    def _failed(self, error: KafkaError, now_ms: float) -> None:
        if not error.retriable and not self._has_committed:
            raise self._refused(error) from error
        _log.warning(
            "offsets of the query could not be committed to group %s: %s; retrying in %d s",
            self._group_id,
            error,
            self._pause_ms // 1000,
        )
        self._due_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def _refused(self, error: KafkaError) -> PlanError:
        return PlanError(
            "KAFKA_GROUP_COMMIT_REFUSED",
            f"option 'commitOffsetsToGroup': the broker rejects commits to the group of option 'kafka.group.id': "
            f"{error}. Name a group that no consumer uses and that the user has permission to read, "
            "or remove the option",
        )


def _is_changed(known: OffsetAndMetadata | None, commit: OffsetAndMetadata, end: int, *, refresh: bool) -> bool:
    if known is None or _is_of_another_topic(known.metadata, commit.metadata):
        return True
    if commit.offset == known.offset:
        return refresh or commit.metadata not in {"", known.metadata}
    return commit.offset > known.offset or known.offset > end


def _is_of_another_topic(known: str, metadata: str) -> bool:
    if known == metadata:  # the usual case, without parsing
        return False
    old, new = CommitMark.parse(known), CommitMark.parse(metadata)
    return old is not None and new is not None and old.topic_id != new.topic_id


def _chunks(commits: dict[TopicPartition, OffsetAndMetadata]) -> Iterator[dict[TopicPartition, OffsetAndMetadata]]:
    entries = iter(commits.items())
    while some := dict(islice(entries, MAX_PARTITIONS)):
        yield some
