"""The topic ids of a query's offsets: a topic that was deleted and created again has another id.

Offsets alone show a new topic only while it ends before the query's offset. Ids also show a longer one, whose first
records would otherwise be skipped without an error.

A running query stores the ids of the first lookup. Restarts know them if the query commits to a consumer group: the
commit's metadata has the id in Kafka's form, and so has a register (``topic_register``), because brokers delete the
commits of a deleted topic::

    pykafka:1:<topic id>                  the committed offset belongs to this topic
    pykafka:1:<topic id>:<old offset>     so does this one; but while the checkpoint is at the old offset, that offset
                                          belongs to the topic before

Other metadata are ignored. The second form is committed before the first batch of a new topic, so that a restart at any
time knows which topic the checkpoint belongs to.

States of a partition; ``TopicIds`` has each in one of its maps::

    state       map         meaning                              left by
    ----------  ----------  -----------------------------------  -------------------------------------------------------
    unknown                 never looked up, or without ids      find_recreated, record_ids, record_new_partitions,
                                                                 planned_leader -> known;
                                                                 load_commits -> known, new
    known       _ids        offsets belong to this id            find_recreated + accept -> new; update_start without
                                                                 it -> absent
    new         _new_ids,   Spark's start belongs to the old     update_start, once Spark's start has moved,
                _positions  topic, the position to the new one   update_start_of_replay -> known
    absent      _absent     deleted, as it seemed                returned_positions: same id -> known; another id ->
                                                                 unknown

A comparison of (topic id, offset) at the start of a query alone would miss: a topic that is created again while the
query runs, and is longer at the next lookup; the batch in between, whose start Spark still takes from the old topic;
brokers with old metadata, which show an earlier id again (``_is_replaced``); and partitions that are missing for long.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._protocol.ids import format_id, parse_id
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._spark.offsets import OffsetMap

MAX_ABSENT: Final = 10_000
"""Most missing partitions whose offsets are kept, in case they were not deleted."""

_METADATA: Final = re.compile(r"pykafka:1:([A-Za-z0-9_-]{22})(?::([0-9]{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreated:
    """A topic with another id than the query has read; ``partitions`` are those read, sorted."""

    topic: str
    old_id: UUID
    new_id: UUID
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The metadata of a commit: the topic id of its offset, and the last offset of the topic before."""

    topic_id: UUID
    left_at: int | None = None

    @classmethod
    def parse(cls, metadata: str) -> "CommitMark | None":
        """None: metadata of another program or a later release."""
        found = _METADATA.fullmatch(metadata)
        if found is None:
            return None
        topic_id = parse_id(found[1])
        return cls(topic_id=topic_id, left_at=None if found[2] is None else int(found[2]))

    def __str__(self) -> str:
        tail = "" if self.left_at is None else f":{self.left_at}"
        return f"pykafka:1:{format_id(self.topic_id)}{tail}"


class TopicIds:
    """The topic ids of the offsets of one running query.

    From the lookup that finds a new topic to the end of its first micro-batch, Spark's start offsets still belong to
    the old topic. ``translated`` replaces them by offsets of the new one.
    """

    def __init__(self) -> None:
        self._ids: dict[TopicPartition, UUID] = {}
        self._new_ids: dict[TopicPartition, UUID] = {}
        self._positions: OffsetMap = {}
        self._seen_at: OffsetMap = {}
        self._seen: dict[str, list[UUID]] = {}
        """Ids of each topic in the order of lookups; one that is not the last is from a broker with stale metadata."""
        self._absent: dict[TopicPartition, tuple[UUID, int]] = {}

    def record_lookup(self, topic_ids: Mapping[str, UUID]) -> None:
        """Record ids of a lookup. The order of lookups determines which id is later."""
        for topic, topic_id in topic_ids.items():
            seen = self._seen.setdefault(topic, [])
            if topic_id not in seen:
                seen.append(topic_id)

    def record_ids(self, ids: Mapping[TopicPartition, UUID]) -> None:
        """Record the topic ids of offsets."""
        self._ids |= ids

    def record_new_partitions(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> None:
        """Record the present topic ids of new partitions that a batch does not read."""
        for tp in partitions:
            current = topic_ids.get(tp.topic)
            if current is not None and not self._is_replaced(tp.topic, current):
                self._ids.setdefault(tp, current)

    def load_commits(self, commits: Mapping[TopicPartition, OffsetAndMetadata], start: OffsetMap) -> None:
        """Load the commits of an earlier run, at Spark's ``start``."""
        for tp, commit in commits.items():
            mark = CommitMark.parse(commit.metadata)
            if mark is None:
                continue
            if mark.left_at is not None and mark.left_at == start.get(tp):
                self._new_ids[tp], self._positions[tp] = mark.topic_id, commit.offset
            else:
                self._ids[tp] = mark.topic_id
        self._seen_at = start

    def find_recreated(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> list[Recreated]:
        """The topics whose ids have changed; the first id of a topic is recorded.

        A topic without an id, because it was deleted or its brokers are old, is skipped. An id that another one has
        replaced is stale metadata, and is ignored.
        """
        self.record_lookup(topic_ids)
        current_ids = {topic: at for topic, at in topic_ids.items() if not self._is_replaced(topic, at)}
        found: dict[tuple[str, UUID, UUID], list[TopicPartition]] = {}
        for tp in partitions:
            current = current_ids.get(tp.topic)
            if current is None:
                continue
            known = self._new_ids.get(tp) or self._ids.setdefault(tp, current)
            if known is not current and known != current:
                found.setdefault((tp.topic, known, current), []).append(tp)
        return [
            Recreated(topic=topic, old_id=old, new_id=new, partitions=tuple(sorted(partitions)))
            for (topic, old, new), partitions in sorted(found.items())
        ]

    def accept(self, change: Recreated, positions: Mapping[TopicPartition, int], start: OffsetMap) -> None:
        """Read the new topic from ``positions`` while Spark's start is ``start``.

        A partition without a first offset keeps the old topic's offset until a later lookup.
        """
        seen = self._seen.setdefault(change.topic, [change.new_id])
        if change.old_id not in seen:
            seen.insert(0, change.old_id)
        found = {tp: offset for tp, offset in positions.items() if tp in change.partitions}
        self._new_ids |= dict.fromkeys(found, change.new_id)
        self._positions |= found
        self._seen_at = start

    def update_start(self, start: OffsetMap) -> None:
        """Spark's start is ``start``: if it has changed, its offsets belong to the new topics."""
        if start is self._seen_at or start == self._seen_at:
            return
        known = self._ids | self._new_ids
        self._keep_absent(self.translated(self._seen_at), known, start)
        self._ids = {tp: known[tp] for tp in start if tp in known}
        self._positions, self._new_ids = {}, {}
        self._seen_at = start

    def _keep_absent(self, before: OffsetMap, known: Mapping[TopicPartition, UUID], start: OffsetMap) -> None:
        """Keep the last offsets of partitions that are no longer in ``start``, up to ``MAX_ABSENT``."""
        missing = [tp for tp in before.keys() - start.keys() if tp in known]
        self._absent |= {tp: (known[tp], before[tp]) for tp in missing}
        if self._absent:
            absent = [(tp, last) for tp, last in self._absent.items() if tp not in start]
            self._absent = dict(absent[-MAX_ABSENT:])

    def returned_positions(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> OffsetMap:
        """The next offsets of partitions that were missing for a while and have the same topic id.

        They belong to the query again. A partition of a new topic starts at its first offset. Stale ids are ignored.
        """
        self.record_lookup(topic_ids)
        positions: OffsetMap = {}
        for tp in partitions:
            current = topic_ids.get(tp.topic)
            if current is not None and tp in self._absent:
                topic_id, offset = self._absent[tp]
                if current == topic_id or self._is_replaced(tp.topic, current):
                    self._ids[tp], positions[tp] = topic_id, offset
        return positions

    def planned_leader(self, tp: TopicPartition, leaders: Mapping[TopicPartition, PartitionLeader]) -> PartitionLeader:
        """The leader of a partition to be read, with the topic id of its offsets.

        Metadata may have a new topic since the offsets were looked up; a task must not apply the old offsets to it. The
        id of a partition's first read is recorded as the id of its offsets.
        """
        leader = leaders[tp]
        if leader.topic_id == ZERO_UUID:
            return leader
        self.record_lookup({tp.topic: leader.topic_id})
        known = self._new_ids.get(tp) or self._ids.setdefault(tp, leader.topic_id)
        return leader if known == leader.topic_id else leader._replace(topic_id=known)

    def _is_replaced(self, topic: str, topic_id: UUID) -> bool:
        seen = self._seen.get(topic)
        return seen is not None and topic_id != seen[-1] and topic_id in seen

    @property
    def absent_topics(self) -> set[str]:
        """Topics with partitions that the query has read and that are missing now."""
        return {tp.topic for tp in self._absent}

    def update_start_of_replay(self, positions: OffsetMap, start: OffsetMap) -> None:
        """After a replayed batch: ``positions`` are the offsets that it has reached in new topics.

        Those that differ from Spark's ``start`` stay translated.
        """
        self._positions = {tp: offset for tp, offset in positions.items() if start.get(tp, offset) != offset}
        for tp in self._new_ids.keys() - self._positions.keys():
            self._ids[tp] = self._new_ids.pop(tp)
        self._seen_at = start

    @property
    def new_positions(self) -> Mapping[TopicPartition, int]:
        """Partitions whose start belongs to the old topic, with the first offset to read of the new one."""
        return self._positions

    def translated(self, start: OffsetMap) -> OffsetMap:
        """``start`` with offsets of old topics replaced by the first offsets to read of the new ones."""
        return (
            start | {tp: offset for tp, offset in self._positions.items() if tp in start} if self._positions else start
        )

    def distinct_from_start(self, start: OffsetMap, end: OffsetMap) -> OffsetMap:
        """``end``, one offset less if it equals the last offset of the old topic.

        Spark compares offsets, and would otherwise skip the new topic's records as read.
        """
        same = [tp for tp, offset in self._positions.items() if offset < end.get(tp, offset) == start.get(tp)]
        return end | {tp: end[tp] - 1 for tp in same} if same else end

    def by_topic(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        """The topic ids of ``partitions``; of a recreated topic the new one."""
        known = self._ids | self._new_ids
        return {tp.topic: known[tp] for tp in partitions if tp in known}

    def commit_metadata(self, tp: TopicPartition) -> str:
        """The commit metadata for the translated offset of ``tp``; empty if its topic has no id."""
        if tp in self._positions:
            return str(CommitMark(topic_id=self._new_ids[tp], left_at=self._seen_at.get(tp)))
        topic_id = self._ids.get(tp)
        return "" if topic_id is None else str(CommitMark(topic_id=topic_id))
