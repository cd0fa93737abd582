"""Truncations between two micro-batches, found by the leader epochs of earlier plans (KIP-320).

A task detects a truncation after its plan. A truncation of earlier batches is not visible in offsets, because other
records may have the same ones. So the driver stores the leader of each partition's last plan. If it has changed, the
new leader returns the end offset of the old leader's epoch. A checkpoint has no epochs: after a restart the first plan
stores them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import AfterRestart
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.bounds import OffsetSource
from spark_kafka_native._spark.planning.data_loss import DataLoss, truncated
from spark_kafka_native._spark.planning.ranges import OffsetRange


class LeaderEpochs:
    """The leaders of a running query's partitions in their last plans."""

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._cuts: dict[TopicPartition, tuple[int, int]] = {}
        """The start of a batch that Spark has stored, and the lower offset at which the log was truncated."""

    def compare(
        self, ranges: Sequence[OffsetRange], start: OffsetMap, source: OffsetSource
    ) -> tuple[list[OffsetRange], list[DataLoss]]:
        """The ranges of the micro-batch from ``start``, and the losses below it; ``leader`` of each range is set.

        A range whose log was truncated begins at the truncation, because the new records below ``start`` have not been
        read. A repeated plan, which Spark makes for every use of the stream in a query, returns the same ranges.
        """
        leaders = {piece.topic_partition: piece.leader for piece in ranges if piece.leader is not None}
        before = self._epochs_before(leaders, start)
        self._cuts = {tp: cut for tp, cut in self._cuts.items() if cut[0] == start.get(tp) and tp in leaders}
        for tp, end in (source.ends_of_epochs(before) if before else {}).items():
            if end < start[tp]:
                self._cuts[tp] = (start[tp], end)
        self._leaders |= leaders
        losses = [
            replace(truncated(tp, cut, begin), restart=AfterRestart.CONTINUES)
            for tp, (begin, cut) in sorted(self._cuts.items())
        ]
        return [self._from_cut(piece) for piece in ranges], losses

    def _epochs_before(
        self, leaders: Mapping[TopicPartition, PartitionLeader], start: OffsetMap
    ) -> dict[TopicPartition, int]:
        """The epochs of partitions that were planned with earlier leaders of the same topic id."""
        return {
            tp: known.leader_epoch
            for tp, leader in leaders.items()
            if tp in start
            and (known := self._leaders.get(tp)) is not None
            and known.topic_id == leader.topic_id
            and NO_EPOCH < known.leader_epoch < leader.leader_epoch
        }

    def _from_cut(self, piece: OffsetRange) -> OffsetRange:
        cut = self._cuts.get(piece.topic_partition)
        return piece if cut is None or piece.from_offset > cut[0] else piece._replace(from_offset=cut[1])
