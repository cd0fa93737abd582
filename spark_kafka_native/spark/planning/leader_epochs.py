"""Logs that were cut between two micro-batches: found by the leader epochs in which a query has planned (KIP-320).

A task compares logs from its plan on. What a new leader lacked of the batches before would show to nobody: its other
records have the same offsets. So the driver remembers who led when each partition was planned last, and when that has
changed asks the new leader where the old one's epoch ended. A checkpoint has no epochs; after a restart the first plan
is where remembering begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_kafka_native.client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.offsets import OffsetMap
from spark_kafka_native.spark.planning.bounds import OffsetSource
from spark_kafka_native.spark.planning.data_loss import DataLoss, truncated
from spark_kafka_native.spark.planning.ranges import OffsetRange


class LeaderEpochs:
    """Who led the partitions of one running query when they were planned last."""

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._cuts: dict[TopicPartition, tuple[int, int]] = {}
        """Where a batch starts by Spark's account, and where its log was cut below that."""

    def compare(
        self, ranges: Sequence[OffsetRange], start: OffsetMap, source: OffsetSource
    ) -> tuple[list[OffsetRange], list[DataLoss]]:
        """The ranges of the micro-batch from ``start``, and what was cut off below it; ``leader`` of each is set.

        A range whose log was cut begins at the cut: the records from there to ``start`` have not been read, others
        have. Planned once more, as Spark does for every use of the stream in a query, the ranges are the same.
        """
        leaders = {piece.topic_partition: piece.leader for piece in ranges if piece.leader is not None}
        before = self._epochs_before(leaders, start)
        self._cuts = {tp: cut for tp, cut in self._cuts.items() if cut[0] == start.get(tp) and tp in leaders}
        for tp, end in (source.ends_of_epochs(before) if before else {}).items():
            if end < start[tp]:
                self._cuts[tp] = (start[tp], end)
        self._leaders |= leaders
        losses = [replace(truncated(tp, at, reach), lasting=False) for tp, (reach, at) in sorted(self._cuts.items())]
        return [self._from_cut(piece) for piece in ranges], losses

    def _epochs_before(
        self, leaders: Mapping[TopicPartition, PartitionLeader], start: OffsetMap
    ) -> dict[TopicPartition, int]:
        """The epochs of partitions that were planned with earlier leaders; a topic made again has other epochs."""
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
