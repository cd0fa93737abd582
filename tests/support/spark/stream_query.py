"""A streaming query without Spark, on a fake cluster or a real one: calls the source in Spark's order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.options.parsing import Query as QueryKind
from spark_kafka_native._spark.options.parsing import parse_source_options
from spark_kafka_native._spark.planning.bounds import OffsetSource
from spark_kafka_native._spark.planning.ranges import OffsetRange
from spark_kafka_native._spark.planning.stream import StreamOffsets
from tests.support.spark.fake_offsets import ManualClock

FROM_OPTIONS: Final = -1
"""As limit of a trigger: what the options say."""


@dataclass
class StreamQuery:
    """A streaming query with a checkpoint; keeps what was read."""

    cluster: OffsetSource
    options: Mapping[str, str]
    clock: ManualClock = field(default_factory=ManualClock)
    offsets_log: list[OffsetMap] = field(default_factory=list)
    commits: int = 0
    read: dict[TopicPartition, list[int]] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    """Records in each batch that was run."""

    def start(self, *, available_now: bool = False) -> "StreamQuery":
        """Start, or start again after a crash: replays the batch that was not committed."""
        defaults = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
        if self.options.keys() & {"subscribePattern", "assign"}:
            del defaults["subscribe"]
        self.parsed = parse_source_options(defaults | dict(self.options), QueryKind.STREAM)
        self.stream = StreamOffsets(self.parsed, self.cluster, self.clock)
        if available_now:
            self.stream.read_what_is_available_now()
        if len(self.offsets_log) > self.commits:
            self._run()
        return self

    def trigger(self, max_offsets: int | None = FROM_OPTIONS, *, crash: bool = False, once: bool = False) -> bool:
        """One round of Spark's loop; False: there was nothing to do. ``crash`` ends it after the write-ahead log."""
        begin = self.offsets_log[-1] if self.offsets_log else self.stream.initial()
        if max_offsets == FROM_OPTIONS:
            max_offsets = self.parsed.max_offsets_per_trigger
        min_offsets = self.parsed.min_offsets_per_trigger
        end = self.stream.latest(begin) if once else self.stream.latest(begin, max_offsets, min_offsets)
        if self.offsets_log and end == begin:
            return False
        self.offsets_log.append(end)
        if not crash:
            self._run()
        return True

    def run_to_the_end(self, max_offsets: int | None = FROM_OPTIONS) -> "StreamQuery":
        """Until there is nothing to do."""
        while self.trigger(max_offsets):
            assert len(self.batches) < 100
        return self

    def later(self, ms: float = 1000) -> "StreamQuery":
        """Some time passes, enough for the cluster to be asked again."""
        self.clock.ms += ms
        return self

    def keep(self, ranges: list[OffsetRange]) -> None:
        """Note what the tasks of a batch read."""
        for piece in ranges:
            self.read.setdefault(piece.topic_partition, []).extend(range(piece.from_offset, piece.until_offset))
        self.batches.append(sum(piece.size for piece in ranges))

    def _run(self) -> None:
        begin = self.offsets_log[self.commits - 1] if self.commits else self.stream.initial()
        self.keep([piece for task in self.stream.plan(begin, self.offsets_log[self.commits]) for piece in task])
        self.commits += 1


def query(cluster: OffsetSource, **options: str) -> StreamQuery:
    return StreamQuery(cluster, options)
