"""Which topic a query's offsets belong to, by its id: one that was deleted and made again is another topic.

Offsets alone show that only while the new topic is shorter than the place that the query has reached. Ids show it at
once, also when the new topic has overtaken: offsets [0, n) of the new topic would then never be read, and nobody told.

While a query runs, the ids of the first look are remembered. Across restarts they are known if the query commits to a
consumer group: the id goes along in the commit's metadata, spelled as Kafka spells it, and into a register
(``topic_register``), because brokers drop the commits of a topic that is deleted::

    pykafka:1:<topic id>                  the committed offset belongs to this topic
    pykafka:1:<topic id>:<old offset>     so does this one; but as long as the checkpoint stands at the old offset, that
                                          is the place at which the topic before was left

Any other metadata says nothing. The second form is committed before the first batch of a new topic is run, so that a
restart at any moment knows of which topic the checkpoint speaks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from spark_kafka_native.client.admin.groups import CommittedOffset
from spark_kafka_native.client.cluster.metadata import PartitionLeader
from spark_kafka_native.protocol.ids import format_id, parse_id
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID
from spark_kafka_native.spark.offsets import OffsetMap

MOST_ABSENT: Final = 10_000
"""Partitions that were deleted whose places are kept, in case they were not."""

_METADATA: Final = re.compile(r"pykafka:1:([A-Za-z0-9_-]{22})(?::([0-9]{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreated:
    """A topic that has another id than the one that the query has read; ``partitions`` are those read, sorted."""

    topic: str
    old_id: UUID
    new_id: UUID
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The metadata of a commit: the topic that its offset belongs to, and where the topic before was left."""

    topic_id: UUID
    left_at: int | None = None

    @classmethod
    def parse(cls, metadata: str) -> "CommitMark | None":
        """None: somebody else wrote it, or a later release of this."""
        found = _METADATA.fullmatch(metadata)
        if found is None:
            return None
        topic_id = parse_id(found[1])
        return cls(topic_id=topic_id, left_at=None if found[2] is None else int(found[2]))

    def __str__(self) -> str:
        tail = "" if self.left_at is None else f":{self.left_at}"
        return f"pykafka:1:{format_id(self.topic_id)}{tail}"


class TopicIds:
    """The ids that the offsets of one running query belong to.

    Between the moment at which a new topic is seen and the end of the first micro-batch that reads it, the offsets that
    Spark calls its start are still those of the old topic. ``translated`` says where they are in the new one.
    """

    def __init__(self) -> None:
        self._ids: dict[TopicPartition, UUID] = {}
        self._new_ids: dict[TopicPartition, UUID] = {}
        self._positions: OffsetMap = {}
        self._seen_at: OffsetMap = {}
        self._seen: dict[str, list[UUID]] = {}
        """Ids of each topic as they came up; one that is not the last comes from a broker that lags behind."""
        self._absent: dict[TopicPartition, tuple[UUID, int]] = {}

    def note(self, topic_ids: Mapping[str, UUID]) -> None:
        """Take note of ids as the cluster tells them: only the order in which they come up says which is later."""
        for topic, topic_id in topic_ids.items():
            seen = self._seen.setdefault(topic, [])
            if topic_id not in seen:
                seen.append(topic_id)

    def belong(self, ids: Mapping[TopicPartition, UUID]) -> None:
        """Take note of the topics that offsets belong to, where that is known."""
        self._ids |= ids

    def begin(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> None:
        """Partitions that come with a batch of which nothing is read: their ends belong to the topic of now."""
        for tp in partitions:
            current = topic_ids.get(tp.topic)
            if current is not None and not self._is_replaced(tp.topic, current):
                self._ids.setdefault(tp, current)

    def resume(self, commits: Mapping[TopicPartition, CommittedOffset], start: OffsetMap) -> None:
        """Take up what an earlier run has committed, at Spark's ``start``."""
        for tp, commit in commits.items():
            mark = CommitMark.parse(commit.metadata)
            if mark is None:
                continue
            if mark.left_at is not None and mark.left_at == start.get(tp):
                self._new_ids[tp], self._positions[tp] = mark.topic_id, commit.offset
            else:
                self._ids[tp] = mark.topic_id
        self._seen_at = start

    def look(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> list[Recreated]:
        """The topics that have been made again since their ids were noted; an id seen first is taken as it is.

        A topic without an id, because it is gone or its brokers are old, is left until it has one. An id that another
        has replaced comes from a broker that lags behind, and says nothing.
        """
        self.note(topic_ids)
        telling = {topic: at for topic, at in topic_ids.items() if not self._is_replaced(topic, at)}
        found: dict[tuple[str, UUID, UUID], list[TopicPartition]] = {}
        for tp in partitions:
            current = telling.get(tp.topic)
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
        """Read the new topic on at ``positions``, for as long as Spark's start is ``start``.

        Where a first offset was not found the place is still the old topic's, until another look finds it.
        """
        seen = self._seen.setdefault(change.topic, [change.new_id])
        if change.old_id not in seen:
            seen.insert(0, change.old_id)
        places = {tp: offset for tp, offset in positions.items() if tp in change.partitions}
        self._new_ids |= dict.fromkeys(places, change.new_id)
        self._positions |= places
        self._seen_at = start

    def settle(self, start: OffsetMap) -> None:
        """Spark has got to ``start``: if it has moved on, its offsets are those of the new topics, and of no others."""
        if start is self._seen_at or start == self._seen_at:
            return
        known = self._ids | self._new_ids
        self._keep_absent(self.translated(self._seen_at), known, start)
        self._ids = {tp: known[tp] for tp in start if tp in known}
        self._positions, self._new_ids = {}, {}
        self._seen_at = start

    def _keep_absent(self, before: OffsetMap, known: Mapping[TopicPartition, UUID], start: OffsetMap) -> None:
        """Keep the places of partitions that ``start`` has no more, those that were left last."""
        gone = [tp for tp in before.keys() - start.keys() if tp in known]
        self._absent |= {tp: (known[tp], before[tp]) for tp in gone}
        if self._absent:
            absent = [(tp, place) for tp, place in self._absent.items() if tp not in start]
            self._absent = dict(absent[-MOST_ABSENT:])

    def returned(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]) -> OffsetMap:
        """Where to go on in partitions that were absent for a while, deleted as it seemed, and are of the same topic.

        They belong to it again. A new topic of that name is another one, and begins at its first offset; an id that
        another has replaced says nothing.
        """
        self.note(topic_ids)
        places: OffsetMap = {}
        for tp in partitions:
            current = topic_ids.get(tp.topic)
            if current is not None and tp in self._absent:
                topic_id, offset = self._absent[tp]
                if current == topic_id or self._is_replaced(tp.topic, current):
                    self._ids[tp], places[tp] = topic_id, offset
        return places

    def confirmed(self, tp: TopicPartition, leaders: Mapping[TopicPartition, PartitionLeader]) -> PartitionLeader:
        """The leader of a partition that is to be read, with the id of the topic that its offsets belong to.

        Metadata may have come to know of a new topic since the offsets were looked up; a task must not read that by
        the offsets of the old one. What a partition is read by first is what its offsets belong to from then on.
        """
        leader = leaders[tp]
        if leader.topic_id == ZERO_UUID:
            return leader
        self.note({tp.topic: leader.topic_id})
        believed = self._new_ids.get(tp) or self._ids.setdefault(tp, leader.topic_id)
        return leader if believed == leader.topic_id else leader._replace(topic_id=believed)

    def _is_replaced(self, topic: str, topic_id: UUID) -> bool:
        seen = self._seen.get(topic)
        return seen is not None and topic_id != seen[-1] and topic_id in seen

    @property
    def absent_topics(self) -> set[str]:
        """Topics whose partitions the query has read and has no more."""
        return {tp.topic for tp in self._absent}

    def settle_at(self, positions: OffsetMap, start: OffsetMap) -> None:
        """As ``settle``, when it is known already that Spark will be at ``start``, where the logs end before that."""
        self._positions = {tp: offset for tp, offset in positions.items() if start.get(tp, offset) != offset}
        for tp in self._new_ids.keys() - self._positions.keys():
            self._ids[tp] = self._new_ids.pop(tp)
        self._seen_at = start

    @property
    def awaiting(self) -> Mapping[TopicPartition, int]:
        """Partitions whose start is still the old topic's, with the place to read the new one from."""
        return self._positions

    def translated(self, start: OffsetMap) -> OffsetMap:
        """``start`` with offsets of old topics replaced by those to read the new ones from."""
        return (
            start | {tp: offset for tp, offset in self._positions.items() if tp in start} if self._positions else start
        )

    def moved_on(self, start: OffsetMap, end: OffsetMap) -> OffsetMap:
        """``end``, one offset less where it happens to be the number at which the old topic was left.

        Spark compares offsets, and would take the new topic's records for read.
        """
        same = [tp for tp, offset in self._positions.items() if offset < end.get(tp, offset) == start.get(tp)]
        return end | {tp: end[tp] - 1 for tp in same} if same else end

    def by_topic(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        """The ids of the topics that ``partitions`` belong to, new ones where those are being read."""
        known = self._ids | self._new_ids
        return {tp.topic: known[tp] for tp in partitions if tp in known}

    def metadata_of(self, tp: TopicPartition) -> str:
        """What to commit along with the translated offset of ``tp``; empty if its topic has no id."""
        if tp in self._positions:
            return str(CommitMark(topic_id=self._new_ids[tp], left_at=self._seen_at.get(tp)))
        topic_id = self._ids.get(tp)
        return "" if topic_id is None else str(CommitMark(topic_id=topic_id))
