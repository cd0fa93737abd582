"""The offsets of a stream on the driver: its start, its end, and the next micro-batch.

Spark stores the end of every micro-batch in its checkpoint but, for a Python source, not the start of the first. If a
query fails between writing the end of batch 0 and finishing it, Spark calls ``initialOffset`` again and reads from that
offset: with ``startingOffsets=latest`` that skips the records that arrived in between. So there are three rules:

1. In the first batch of a new query, every partition whose start may be another offset at a later lookup (``latest``,
   committed offsets) ends at its start. Spark runs that empty batch, and stores the start as its end. A later lookup of
   ``earliest`` or a given offset returns the same start, so a query from ``earliest`` has no extra batch, in particular
   not with Trigger.AvailableNow. With AvailableNow and ``latest`` the next run continues from the empty batch.
2. When that first batch is replayed, those partitions are empty again, whatever the initial offset is now.
3. The JVM connector does not use these rules, and stores the start of its first batch in a file. Such a batch is an
   error without option ``jvmCheckpoint``, the path of that file, because its start is unknown.

A topic that was deleted and created again is found by its id (``topic_ids``). Finished offsets may be committed to a
consumer group (``group_progress``).
"""

import math
from collections.abc import Mapping
from uuid import UUID

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import DataLossError, DataLossKind, PlanError
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, Committed, OffsetMap
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.assignment import select_existing, select_partitions
from spark_kafka_native._spark.planning.available_now import check_reachable, check_same_partitions
from spark_kafka_native._spark.planning.bounds import Clock, Edge, OffsetSource, bind_limit, may_move, resolve
from spark_kafka_native._spark.planning.checkpoint_topics import OtherTopics, not_named, planned_without
from spark_kafka_native._spark.planning.data_loss import (
    BatchPlan,
    accept_or_raise,
    deleted_partitions,
    plan_batch,
    plan_replayed_first_batch,
    topic_recreated,
)
from spark_kafka_native._spark.planning.group_progress import GroupProgress
from spark_kafka_native._spark.planning.jvm_checkpoint import read_initial_offsets
from spark_kafka_native._spark.planning.latest import LatestOffsets
from spark_kafka_native._spark.planning.leader_epochs import LeaderEpochs
from spark_kafka_native._spark.planning.packing import Task, pack
from spark_kafka_native._spark.planning.ranges import split_ranges
from spark_kafka_native._spark.planning.rates import delay_batch, limit_offsets
from spark_kafka_native._spark.planning.topic_ids import CommitMark, TopicIds
from spark_kafka_native._spark.subscription import SubscribePattern, describe, unnamed


class StreamOffsets:
    """Offsets of one running stream, in the driver's source process; never pickled, not thread-safe.

    All requests go through ``source``, so that tests need no cluster.
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
        self._latest_called = False
        self._planned = False
        self._replayed: tuple[OffsetMap, OffsetMap] | None = None
        self._available_now = False
        self._target: OffsetMap | None = None
        self._target_ids: Mapping[str, UUID] = {}
        self._last_batch_ms = -math.inf

    def initial(self) -> OffsetMap:
        """The start of a new query; constant for the life of this object, because Spark calls it twice.

        Raises PlanError: a topic that the option names does not exist, or the starting limit names other partitions;
        OptionError: option ``jvmCheckpoint`` has no initial offsets.
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
            self._ids.record_ids({tp: ids[tp.topic] for tp in self._initial if tp.topic in ids})
            if isinstance(starting, Committed):
                commits = self._source.committed(starting.group_id, self._initial)
                marks = {tp: CommitMark.parse(commit.metadata) for tp, commit in commits.items()}
                self._ids.record_ids({tp: mark.topic_id for tp, mark in marks.items() if mark is not None})
        return dict(self._initial)

    def read_what_is_available_now(self) -> None:
        """Stop at the end offsets of the first call of ``latest``, not of now.

        Before that call Spark may replay a batch of an earlier run, which has its own end.
        """
        self._available_now = True

    def latest(self, start: OffsetMap, max_offsets: int | None = None, min_offsets: int | None = None) -> OffsetMap:
        """The end of the micro-batch that begins at ``start``; ``start`` itself if there is nothing to read.

        The batch has at most ``max_offsets`` offsets, and waits for ``min_offsets`` up to ``maxTriggerDelay``, but not
        the first batch with records, nor with Trigger.AvailableNow, which would leave the last records unread. None: no
        limit. The result is empty only if ``start`` is: with an empty offset in the checkpoint every partition would be
        new, and read again from its first record.

        Offsets before ``start`` are finished, and are committed to the group if the option is set.

        Spark writes the result to its offset log before it plans the batch. So a ``start`` with partitions that the
        options do not name, or that were deleted, raises PlanError or DataLossError here if ``failOnDataLoss`` is true.
        """
        if not self._latest_called:
            self._accept_or_refuse(not_named(start, self._options.subscription))
        is_new = not self._latest_called and not self._planned and start == self._initial
        if not self._latest_called and not is_new:
            self._resume(start)
        self._latest_called = True
        self._ids.update_start(start)
        available = self._available(start)
        end = self._end_of_batch(start, available, max_offsets, min_offsets, is_first_batch=is_new)
        deleted = start.keys() - end.keys() if self._options.fail_on_data_loss else ()
        if self._progress is not None:
            # Commit at once if partitions were deleted, because the query fails; at the end of Trigger.AvailableNow;
            # before the first batch of a new topic, because a restart would apply the old offsets to the new topic.
            is_before_new_topic = bool(self._ids.new_positions) and end != start
            at_once = bool(deleted) or (self._available_now and end == start) or is_before_new_topic
            finished = self._ids.translated(start)
            self._progress.report(finished, available, self._ids, at_once=at_once)
        if deleted:
            accept_or_raise(deleted_partitions(deleted), fail=True)
        return end

    @property
    def known_latest(self) -> OffsetMap | None:
        """The end offsets of all partitions at the last lookup; None before the first."""
        return self._ends.known

    def plan(self, start: OffsetMap, end: OffsetMap, *, from_elsewhere: bool = False) -> list[Task]:
        """The tasks of the micro-batch from ``start`` to ``end``; ``from_elsewhere``: another connector wrote the end.

        Raises DataLossError: its records are lost and ``failOnDataLoss`` is true, or, whatever that option is, end
        offsets of Trigger.AvailableNow no longer exist. PlanError: rule 3; an earlier run has planned the batch for
        other partitions and ``failOnDataLoss`` is true.
        """
        self._check_available_now(end)
        replays = not self._latest_called
        if replays:
            if self._initial is not None and from_elsewhere and self._options.jvm_checkpoint is None:
                raise _start_unknown()
            removed = self._removed_in_replay(start, end)
            start, end = self._replay(start, end)
        else:
            removed = unnamed(self._options.subscription, start.keys() - end.keys())
            start = self._ids.translated(start) | self._returned(end)
        if removed:
            start = {tp: offset for tp, offset in start.items() if tp not in removed}
        self._planned = True
        plan = self._plan(start, end, replays_first_batch=replays and self._looked_up_again)
        for loss in plan.losses:
            accept_or_raise(loss, fail=self._options.fail_on_data_loss)
        unread = end.keys() - start.keys() - {piece.topic_partition for piece in plan.ranges}
        self._ids.record_new_partitions(unread, self._source.topic_ids({tp.topic for tp in unread}))
        leaders = self._source.leaders(piece.topic_partition for piece in plan.ranges) if plan.ranges else {}
        led = [piece._replace(leader=self._ids.planned_leader(piece.topic_partition, leaders)) for piece in plan.ranges]
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

    # --- end offsets

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
        latest = self._ends.look_up(self._ids.translated(start))
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
            # Rule 1 above. Partitions found after the start belong to the next batch.
            known = [tp for tp in begin if tp in available]
            available = {tp: begin[tp] if self._may_move(tp) else available[tp] for tp in known}
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
        end = self._ids.distinct_from_start(start, end)
        if end != start:
            self._last_batch_ms = now_ms
        return end

    @property
    def _looked_up_again(self) -> bool:
        """In a replay: whether its start was looked up again, and not read from Spark or a file."""
        return self._initial is not None and self._options.jvm_checkpoint is None

    def _may_move(self, tp: TopicPartition) -> bool:
        return self._options.jvm_checkpoint is None and may_move(self._options.starting, tp)

    def _earliest(self, partitions: list[TopicPartition]) -> OffsetMap:
        return self._source.list_offsets(dict.fromkeys(partitions, EARLIEST_OFFSET)) if partitions else {}

    def _plan(self, start: OffsetMap, end: OffsetMap, *, replays_first_batch: bool) -> BatchPlan:
        if replays_first_batch:

            def is_empty(tp: TopicPartition) -> bool:
                return self._may_move(tp) and tp not in self._ids.new_positions

            earliest = self._earliest([tp for tp in end if not is_empty(tp)])
            return plan_replayed_first_batch(start, end, earliest, is_empty)
        earliest = self._earliest([tp for tp in end if end[tp] > start.get(tp, -1)])
        return plan_batch(start, end, earliest, new_topics_start_at_zero=self._subscribes_to_a_pattern)

    # --- topics that were deleted and created again

    def _resume(self, start: OffsetMap) -> None:
        """Continue from the checkpoint, perhaps after a replayed batch."""
        if self._replayed is None:
            self._remember_topics(start)
        else:
            reached = self._replayed[1]
            positions = {tp: reached[tp] for tp in self._ids.new_positions if tp in reached}
            self._ids.update_start_of_replay(positions, start)

    def _remember_topics(self, start: OffsetMap) -> None:
        if self._progress is not None:
            self._ids.load_commits(self._progress.commits(start), start)
            self._ids.record_ids(self._progress.registered(start))

    def _returned(self, available: OffsetMap) -> OffsetMap:
        """The next offsets of partitions that were missing for a while, so that no record is read twice."""
        if not self._ids.absent_topics:
            return {}
        return self._ids.returned_positions(available, self._source.topic_ids(self._ids.absent_topics))

    def _find_recreated(self, start: OffsetMap, latest: OffsetMap) -> None:
        ids = self._source.topic_ids({tp.topic for tp in start})
        for change in self._ids.find_recreated(start, ids):
            loss = topic_recreated(change, start, latest, commits_ids=self._progress is not None)
            accept_or_raise(loss, fail=self._options.fail_on_data_loss)
            self._ids.accept(change, self._earliest([tp for tp in change.partitions if tp in latest]), start)

    def _replay(self, start: OffsetMap, end: OffsetMap) -> tuple[OffsetMap, OffsetMap]:
        """The limits of a batch of an earlier run, whose topics may have been created again since.

        Of a new topic the batch has the first offset to the old end, or to the end of the topic if that is lower.
        """
        if self._replayed is None:
            self._replayed = start, end
            if self._progress is not None:
                select_partitions(self._options, self._source)  # for the present topic ids
                self._remember_topics(start)
                latest = self._source.list_offsets(dict.fromkeys(start, LATEST_OFFSET))
                self._find_recreated(start, latest)
                if self._ids.new_positions:
                    reached = {tp: min(offset, latest.get(tp, offset)) for tp, offset in end.items()}
                    self._replayed = self._ids.translated(start), reached
        return self._replayed

    # --- a checkpoint of other topics

    def _removed_in_replay(self, start: OffsetMap, end: OffsetMap) -> set[TopicPartition]:
        """Partitions of ``start`` that a batch of an earlier run lacks although the cluster has them.

        Raises PlanError: the options do not name all partitions of the batch, or name those that it lacks.
        """
        removed = set() if self._looked_up_again else start.keys() - end.keys()
        if removed:
            found = self._source.topics(sorted({tp.topic for tp in removed}))
            others = unnamed(self._options.subscription, removed)
            left_out = {tp for tp in removed - others if tp.partition in found.get(tp.topic, ())}
            self._accept_or_refuse(planned_without(left_out, start, end) if left_out else None)
            removed = left_out | others
        self._accept_or_refuse(not_named(start.keys() | end.keys(), self._options.subscription))
        return removed

    def _accept_or_refuse(self, other: OtherTopics | None) -> None:
        if other is None:
            return
        if self._options.fail_on_data_loss:
            raise other.error()
        self._ends.warn_once(f"{other.reason}; failOnDataLoss is false, so the query continues without them")

    # --- data loss

    @property
    def _subscribes_to_a_pattern(self) -> bool:
        return isinstance(self._options.subscription, SubscribePattern)

    def _nothing_left(self, start: OffsetMap) -> None:
        if not start:
            return
        reached = listed(f"{tp}@{offset}" for tp, offset in start.items())
        reason = f"no topic of {describe(self._options.subscription)} exists any more; read up to {reached}"
        if self._options.fail_on_data_loss and not self._subscribes_to_a_pattern:
            raise DataLossError.of(DataLossKind.PARTITIONS_DELETED, reason)
        self._ends.warn_once(f"{reason}. The query waits for such a topic")

    def _check_available_now(self, end: OffsetMap) -> None:
        if self._target is None or not end:
            return
        check_same_partitions(end, self._target)
        topics = {tp.topic for tp in end}
        self._source.topics(sorted(topics))
        latest = self._source.list_offsets(dict.fromkeys(end, LATEST_OFFSET))
        planned = {topic: topic_id for topic, topic_id in self._target_ids.items() if topic in topics}
        check_reachable(end, latest, planned, self._source.topic_ids(topics))


def _start_unknown() -> PlanError:
    return PlanError(
        "KAFKA_START_OF_FIRST_BATCH_UNKNOWN",
        "the checkpoint has a first micro-batch that Spark's JVM connector began and did not finish. Its start is in "
        "the checkpoint's directory 'sources', whose path a Python source does not get. Set option 'jvmCheckpoint' to "
        "the path of the checkpoint directory, or finish that batch with the JVM connector. "
        "Nothing was read",
    )
