"""What the driver of a stream knows: where it started, how far it may read, and what the next micro-batch is.

Spark keeps the end of every micro-batch in its checkpoint but, for a Python source, never the start of the first. If a
query dies between writing the end of batch 0 and finishing it, Spark asks for the initial offset again and reads from
there: with ``startingOffsets=latest`` that skips whatever arrived in between. Hence three rules:

1. In the first batch of a new query, every partition whose start would be looked up differently later (``latest``, a
   group's commits) ends where it starts. Spark runs that batch although it is empty, and its end is the start, written
   down. Partitions that start at ``earliest`` or at a given offset are looked up the same again and need no such
   detour, so a query from ``earliest`` has no extra batch, in particular not with Trigger.AvailableNow. With
   AvailableNow and ``latest`` the empty batch is what makes the next run go on from here.
2. When that first batch is replayed, those partitions are empty again, whatever the initial offset is by now.
3. A first batch that the JVM connector wrote follows neither rule: it keeps the start in a file of its own. Without
   option ``jvmCheckpoint``, which says where that is, such a batch is refused: where it starts would be a guess.

A topic that was deleted and made again is known by its id (``topic_ids``); what is finished may be committed to a
consumer group (``group_progress``).
"""

import math
from collections.abc import Mapping
from uuid import UUID

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.errors import DataLossError, DataLossKind, PlanError, listed
from spark_kafka_native.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, Committed, OffsetMap
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.assignment import select_existing, select_partitions
from spark_kafka_native.spark.planning.available_now import check_reachable, check_same_partitions
from spark_kafka_native.spark.planning.bounds import Edge, OffsetSource, bind_limit, may_move, resolve
from spark_kafka_native.spark.planning.data_loss import (
    BatchPlan,
    accept_or_raise,
    other_topic,
    plan_batch,
    plan_replayed_first_batch,
)
from spark_kafka_native.spark.planning.group_progress import GroupProgress
from spark_kafka_native.spark.planning.jvm_checkpoint import read_initial_offsets
from spark_kafka_native.spark.planning.latest import LatestOffsets
from spark_kafka_native.spark.planning.leader_epochs import LeaderEpochs
from spark_kafka_native.spark.planning.pacing import Clock
from spark_kafka_native.spark.planning.packing import Task, pack
from spark_kafka_native.spark.planning.ranges import split_ranges
from spark_kafka_native.spark.planning.rates import delay_batch, limit_offsets
from spark_kafka_native.spark.planning.topic_ids import CommitMark, TopicIds
from spark_kafka_native.spark.subscription import SubscribePattern, describe


class StreamOffsets:
    """Offsets of one running stream; lives in the driver's source process, never pickled, not thread-safe.

    The cluster is reached through ``source`` alone, so that this logic is tested without one.
    """

    def __init__(self, options: SourceOptions, source: OffsetSource, clock: Clock) -> None:
        self._options = options
        self._source = source
        self._clock = clock
        self._ids = TopicIds()
        self._epochs = LeaderEpochs()
        self._ends = LatestOffsets(options, source, clock, self._ids)
        group = options.group_id if options.commit_to_group else None
        self._progress = None if group is None else GroupProgress(group, source, clock)
        self._initial: OffsetMap | None = None
        self._asked_for_latest = False
        self._planned = False
        self._replayed: tuple[OffsetMap, OffsetMap] | None = None
        self._available_now = False
        self._target: OffsetMap | None = None
        self._target_ids: Mapping[str, UUID] = {}
        self._last_batch_ms = -math.inf

    def initial(self) -> OffsetMap:
        """Where a new query starts; the same answer for the life of this object, as Spark asks twice.

        Raises PlanError: a topic asked for by name does not exist, or the starting limit names other partitions;
        OptionError: option ``jvmCheckpoint`` does not lead to a start.
        """
        if self._initial is None:
            if self._options.jvm_checkpoint is not None:
                self._initial = read_initial_offsets(self._options.jvm_checkpoint)
                return dict(self._initial)
            selection = select_existing(self._options, self._source, self._clock)
            ids = self._source.topic_ids({tp.topic for tp in selection.partitions})
            starting = self._options.starting
            limit = bind_limit(starting, selection.partitions, self._source, self._clock, Edge.STARTING)
            self._initial = resolve(limit, self._source)
            self._ids.belong({tp: ids[tp.topic] for tp in self._initial if tp.topic in ids})
            if isinstance(starting, Committed):
                commits = self._source.committed(starting.group_id, self._initial)
                marks = {tp: CommitMark.parse(commit.metadata) for tp, commit in commits.items()}
                self._ids.belong({tp: mark.topic_id for tp, mark in marks.items() if mark is not None})
        return dict(self._initial)

    def read_what_is_available_now(self) -> None:
        """Stop at what the cluster has when ``latest`` is called first, not now.

        Between the two Spark may replay a batch of an earlier run, which has its own end.
        """
        self._available_now = True

    def latest(self, start: OffsetMap, max_offsets: int | None = None, min_offsets: int | None = None) -> OffsetMap:
        """The end of the micro-batch that begins at ``start``; ``start`` itself if there is nothing to read.

        Reads at most ``max_offsets`` offsets, and waits for ``min_offsets`` as long as ``maxTriggerDelay`` says, but
        not in the first batch with records, nor with Trigger.AvailableNow, which would leave the last ones unread; None
        stands for no limit. Never empty unless ``start`` is: an empty offset in the checkpoint would make every
        partition new, and read again from its first record.

        All that is before ``start`` is finished, and is committed to the group if that is wanted.
        """
        is_new = not self._asked_for_latest and not self._planned and start == self._initial
        if not self._asked_for_latest and not is_new:
            self._go_on(start)
        self._asked_for_latest = True
        self._ids.settle(start)
        available = self._available(start)
        end = self._end_of_batch(start, available, max_offsets, min_offsets, is_first_batch=is_new)
        if self._progress is not None:
            # Before the first batch of a new topic, so that no restart takes the old offsets for the new topic's.
            at_once = (self._available_now and end == start) or (bool(self._ids.awaiting) and end != start)
            finished = self._ids.translated(start)
            self._progress.report(finished, available, self._ids, at_once=at_once)
        return end

    @property
    def known_latest(self) -> OffsetMap | None:
        """The ends of all partitions at the last look-up; None before the first."""
        return self._ends.known

    def plan(self, start: OffsetMap, end: OffsetMap, *, from_elsewhere: bool = False) -> list[Task]:
        """The tasks of the micro-batch from ``start`` to ``end``; ``from_elsewhere``: another connector wrote the end.

        Raises DataLossError: records in it are gone and ``failOnDataLoss`` is true; or a batch of Trigger.AvailableNow
        cannot be what was promised, in which case the option does not matter. PlanError: rule 3.
        """
        self._check_available_now(end)
        replays = not self._asked_for_latest
        if replays:
            if self._initial is not None and from_elsewhere and self._options.jvm_checkpoint is None:
                raise _start_unknown()
            start, end = self._replay(start, end)
        else:
            start = self._ids.translated(start) | self._returned(end)
        self._planned = True
        plan = self._plan(start, end, replays_first_batch=replays and self._looked_up_again)
        for loss in plan.losses:
            accept_or_raise(loss, fail=self._options.fail_on_data_loss)
        unread = end.keys() - start.keys() - {piece.topic_partition for piece in plan.ranges}
        self._ids.begin(unread, self._source.topic_ids({tp.topic for tp in unread}))
        leaders = self._source.leaders(piece.topic_partition for piece in plan.ranges) if plan.ranges else {}
        led = [piece._replace(leader=self._ids.confirmed(piece.topic_partition, leaders)) for piece in plan.ranges]
        ranges, cut_off = self._epochs.compare(led, start, self._source)
        for loss in cut_off:
            accept_or_raise(loss, fail=self._options.fail_on_data_loss)
        pieces = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        return pack(
            pieces,
            {},
            max_partitions=self._options.max_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )

    # --- what there is to read

    def _available(self, start: OffsetMap) -> OffsetMap:
        if self._available_now:
            if self._target is None:
                self._target = self._look(start)
                self._target_ids = self._source.topic_ids({tp.topic for tp in self._target})
            return self._target
        if self._ends.known is None or self._ends.due:
            return self._look(start)
        return self._ends.known

    def _look(self, start: OffsetMap) -> OffsetMap:
        latest = self._ends.ask(self._ids.translated(start))
        self._find_recreated(start, latest)
        return latest

    def _end_of_batch(
        self,
        start: OffsetMap,
        available: OffsetMap,
        max_offsets: int | None,
        min_offsets: int | None,
        *,
        is_first_batch: bool,
    ) -> OffsetMap:
        begin = self._ids.translated(start) | self._returned(available)
        if is_first_batch:
            available = self._first_end(begin, available)
        if not available:
            self._nothing_left(start)
            return start
        if max_offsets is not None or min_offsets is not None:
            new = [tp for tp in available if tp not in begin]
            earliest = self._earliest(new)
            begin = begin | {tp: earliest.get(tp, available[tp]) for tp in new}
        now_ms = self._clock.now_ms()
        if min_offsets is not None and not self._available_now:
            waited_ms, longest_ms = now_ms - self._last_batch_ms, self._options.max_trigger_delay_ms
            if delay_batch(begin, available, min_offsets, waited_ms=waited_ms, max_delay_ms=longest_ms):
                return start
        end = available if max_offsets is None else limit_offsets(begin, available, max_offsets)
        end = self._ids.moved_on(start, end)
        if end != start:
            self._last_batch_ms = now_ms
        return end

    def _first_end(self, start: OffsetMap, available: OffsetMap) -> OffsetMap:
        """The end of batch 0: see rule 1 above. Partitions found since the start come with the next batch."""
        return {tp: start[tp] if self._may_move(tp) else available[tp] for tp in start if tp in available}

    @property
    def _looked_up_again(self) -> bool:
        """In a replay: whether its start is another look at the cluster, and not what Spark or a file has kept."""
        return self._initial is not None and self._options.jvm_checkpoint is None

    def _may_move(self, tp: TopicPartition) -> bool:
        return self._options.jvm_checkpoint is None and may_move(self._options.starting, tp)

    def _earliest(self, partitions: list[TopicPartition]) -> OffsetMap:
        return self._source.list_offsets(dict.fromkeys(partitions, EARLIEST_OFFSET)) if partitions else {}

    def _plan(self, start: OffsetMap, end: OffsetMap, *, replays_first_batch: bool) -> BatchPlan:
        if replays_first_batch:

            def is_empty(tp: TopicPartition) -> bool:
                return self._may_move(tp) and tp not in self._ids.awaiting

            earliest = self._earliest([tp for tp in end if not is_empty(tp)])
            return plan_replayed_first_batch(start, end, earliest, is_empty)
        earliest = self._earliest([tp for tp in end if end[tp] > start.get(tp, -1)])
        return plan_batch(start, end, earliest, alarm_at_new_topics=self._topics_come_by_themselves)

    # --- topics that are other topics now

    def _go_on(self, start: OffsetMap) -> None:
        """A query goes on from its checkpoint, perhaps after a batch that was replayed."""
        if self._replayed is None:
            self._remember_topics(start)
        else:
            reached = self._replayed[1]
            self._ids.settle_at({tp: reached[tp] for tp in self._ids.awaiting if tp in reached}, start)

    def _remember_topics(self, start: OffsetMap) -> None:
        """The topics that an earlier run has read, as the group's commits say."""
        if self._progress is not None:
            self._ids.resume(self._progress.commits(start), start)
            self._ids.belong(self._progress.registered(start))

    def _returned(self, available: OffsetMap) -> OffsetMap:
        """Where to go on in partitions that were gone for a while, so that none of their records is read twice."""
        if not self._ids.absent_topics:
            return {}
        return self._ids.returned(available, self._source.topic_ids(self._ids.absent_topics))

    def _find_recreated(self, start: OffsetMap, latest: OffsetMap) -> None:
        ids = self._source.topic_ids({tp.topic for tp in start})
        for change in self._ids.look(start, ids):
            accept_or_raise(other_topic(change, start, latest), fail=self._options.fail_on_data_loss)
            self._ids.accept(change, self._earliest([tp for tp in change.partitions if tp in latest]), start)

    def _replay(self, start: OffsetMap, end: OffsetMap) -> tuple[OffsetMap, OffsetMap]:
        """A batch of an earlier run, whose topics may have been made again since; Spark asks once or several times.

        Of a new topic it reads from the first offset up to the old end, or as far as there is something.
        """
        if self._replayed is None:
            self._replayed = start, end
            if self._progress is not None:
                select_partitions(self._options, self._source)  # brings the ids of now
                self._remember_topics(start)
                latest = self._source.list_offsets(dict.fromkeys(start, LATEST_OFFSET))
                self._find_recreated(start, latest)
                if self._ids.awaiting:
                    reached = {tp: min(offset, latest.get(tp, offset)) for tp, offset in end.items()}
                    self._replayed = self._ids.translated(start), reached
        return self._replayed

    # --- what is wrong

    @property
    def _topics_come_by_themselves(self) -> bool:
        return isinstance(self._options.subscription, SubscribePattern)

    def _nothing_left(self, start: OffsetMap) -> None:
        if not start:
            return
        reason = f"every topic of {describe(self._options.subscription)} is gone; it was read up to {_as_json(start)}"
        if self._options.fail_on_data_loss and not self._topics_come_by_themselves:
            raise DataLossError.of(DataLossKind.PARTITIONS_DELETED, reason)
        self._ends.warn_once(f"{reason}. The query waits for them to come back")

    def _check_available_now(self, end: OffsetMap) -> None:
        if self._target is None or not end:
            return
        check_same_partitions(end, self._target)
        topics = {tp.topic for tp in end}
        self._source.topics(sorted(topics))
        latest = self._source.list_offsets(dict.fromkeys(end, LATEST_OFFSET))
        promised = {topic: topic_id for topic, topic_id in self._target_ids.items() if topic in topics}
        check_reachable(end, latest, promised, self._source.topic_ids(topics))


def _start_unknown() -> PlanError:
    return PlanError(
        "KAFKA_START_OF_FIRST_BATCH_UNKNOWN",
        "the checkpoint has a first micro-batch that was begun by Spark's JVM connector and not finished. Where it "
        "starts stands in the checkpoint's directory 'sources', which Spark does not show to a Python source. Set "
        "option 'jvmCheckpoint' to the path of the checkpoint directory, or let the JVM connector finish that batch. "
        "Nothing was read",
    )


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    return listed(f"{tp}@{offset}" for tp, offset in offsets.items())
