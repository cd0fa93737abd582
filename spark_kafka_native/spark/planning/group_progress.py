"""A query's progress, committed to a consumer group for tools that show lag, and for queries that start from there.

Spark's checkpoint alone says where the query goes on; the group is told, never asked. Three rules:

1. Only finished micro-batches are committed: what ``latestOffset`` is called with. A run with Trigger.AvailableNow is
   committed to its last offset; Trigger.Once ends without that call, so its batch is committed by the next run.
2. A commit never goes backwards, unless the topic is another one (its id says so) or the old commit lies beyond its
   end. Running queries commit once a second at most. Unchanged partitions are committed again only when a run begins
   and every six hours after, because brokers let a commit of a group without members expire, by default in a week.
3. A commit that a broker refuses for good when a run makes its first one fails the query: it was asked for and can
   never work (no permission; a group with members, who alone may commit). Once a run has committed, no trouble with
   the group ends it: it warns, reads on, and tries again.
"""

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from spark_kafka_native.client.admin.groups import CommittedOffset
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.errors import PlanError
from spark_kafka_native.spark.offsets import OffsetMap
from spark_kafka_native.spark.planning.bounds import OffsetSource
from spark_kafka_native.spark.planning.pacing import Clock
from spark_kafka_native.spark.planning.topic_ids import CommitMark, TopicIds
from spark_kafka_native.spark.planning.topic_register import TopicRegister

COMMIT_TIMEOUT_MS: Final = 5_000.0
"""How long the group may hold a running query up."""
INTERVAL_MS: Final = 1_000.0
"""Pause between two commits of a running query."""
MOST_PARTITIONS: Final = 2_000
"""Of one commit: it is one message in ``__consumer_offsets``, which may have 1 MiB."""
REFRESH_MS: Final = 6 * 3600 * 1000.0
"""How often what has not changed is committed again."""
LONGEST_PAUSE_MS: Final = 60_000.0
"""Pauses after failed commits double up to this."""

_log = logging.getLogger(__name__)


class GroupProgress:
    """What one run of a query has committed to ``group_id``."""

    def __init__(self, group_id: str, source: OffsetSource, clock: Clock) -> None:
        self._group_id = group_id
        self._source = source
        self._clock = clock
        self._register = TopicRegister(group_id, source, timeout_ms=COMMIT_TIMEOUT_MS)
        self._committed: dict[TopicPartition, CommittedOffset | None] = {}
        self._settled: OffsetMap | None = None
        self._has_committed = False
        self._pause_ms = INTERVAL_MS
        self._due_at_ms = -math.inf
        self._refresh_at_ms = -math.inf

    def commits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """What has been committed of ``partitions``. Raises KafkaError naming the group, PlanError as ``report``."""
        try:
            self._learn(partitions)
        except KafkaError as error:
            if error.retriable:
                raise
            raise self._refused(error) from error
        found = {tp: self._committed[tp] for tp in partitions}
        return {tp: commit for tp, commit in found.items() if commit is not None}

    def registered(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, UUID]:
        """The topics of partitions that have no commit any more, as they were when they had one."""
        lost = [tp for tp in partitions if self._committed.get(tp) is None]
        ids = self._register.recall({tp.topic for tp in lost}) if lost else {}
        return {tp: ids[tp.topic] for tp in lost if tp.topic in ids}

    def report(self, finished: OffsetMap, ends: Mapping[TopicPartition, int], ids: TopicIds, *, at_once: bool) -> None:
        """Commit ``finished`` where that is news, if it is time or to be ``at_once``; ``ends``: partitions that exist.

        Raises PlanError: the first commit of this run was refused for good.
        """
        now_ms = self._clock.now_ms()
        refresh = now_ms >= self._refresh_at_ms
        if (finished is self._settled and not refresh) or (now_ms < self._due_at_ms and not at_once):
            return
        try:
            self._learn([tp for tp in finished if tp in ends], timeout_ms=COMMIT_TIMEOUT_MS)
            reached = {
                tp: CommittedOffset(offset=offset, metadata=ids.metadata_of(tp))
                for tp, offset in finished.items()
                if tp in ends
            }
            news = {
                tp: commit
                for tp, commit in reached.items()
                if _is_news(self._committed[tp], commit, ends[tp], refresh=refresh)
            }
            for some in _chunks(news):
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
            "the progress of the query could not be committed to group %s: %s; tried again in %d s",
            self._group_id,
            error,
            self._pause_ms // 1000,
        )
        self._due_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def _refused(self, error: KafkaError) -> PlanError:
        return PlanError(
            "KAFKA_GROUP_COMMIT_REFUSED",
            f"option 'commitOffsetsToGroup' cannot be honoured for the group of option 'kafka.group.id', "
            f"{self._group_id}: {error}. Name a group that is the query's own and that it has permission to read, or "
            "leave the option out",
        )


def _is_news(known: CommittedOffset | None, commit: CommittedOffset, end: int, *, refresh: bool) -> bool:
    if known is None or _is_of_another_topic(known.metadata, commit.metadata):
        return True
    if commit.offset == known.offset:
        return refresh or commit.metadata not in {"", known.metadata}
    return commit.offset > known.offset or known.offset > end


def _is_of_another_topic(known: str, metadata: str) -> bool:
    if known == metadata:  # as nearly always: nothing is to be parsed then
        return False
    old, new = CommitMark.parse(known), CommitMark.parse(metadata)
    return old is not None and new is not None and old.topic_id != new.topic_id


def _chunks(commits: dict[TopicPartition, CommittedOffset]) -> Iterator[dict[TopicPartition, CommittedOffset]]:
    entries = iter(commits.items())
    while some := dict(islice(entries, MOST_PARTITIONS)):
        yield some
