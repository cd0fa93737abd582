"""The end offsets of all partitions of a stream, with a limited rate of requests.

While Spark is idle it calls ``latestOffset`` about every 11 ms. The source then sends ListOffsets four times a second
and Metadata once a second, and at every call again after offsets have moved.
"""

import logging
from dataclasses import dataclass
from typing import Final

from spark_kafka_native._protocol.topic import listed
from spark_kafka_native._spark.offsets import LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.assignment import select_partitions, unknown_topics
from spark_kafka_native._spark.planning.bounds import Clock, OffsetSource
from spark_kafka_native._spark.planning.data_loss import lagging_partitions
from spark_kafka_native._spark.planning.topic_ids import TopicIds
from spark_kafka_native._spark.subscription import SelectedPartitions

PARTITIONS_EVERY_MS: Final = 1_000.0
"""Interval at which an idle stream looks up partitions."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RefreshPacer:
    """The time of the next offset lookup: at once after offsets have moved, then at pauses that double up to 250 ms."""

    SHORTEST_MS: Final = 15.0
    LONGEST_MS: Final = 250.0

    _pause_ms: float = 0.0
    _due_at_ms: float = 0.0

    def due(self, now_ms: float) -> bool:
        """Whether the next lookup is due."""
        return now_ms >= self._due_at_ms

    @property
    def idle(self) -> bool:
        """Whether no offset had moved at the last lookup."""
        return self._pause_ms > 0

    def looked_up(self, now_ms: float, *, moved: bool) -> None:
        """Record a lookup at ``now_ms``."""
        self._pause_ms = 0.0 if moved else min(max(2 * self._pause_ms, self.SHORTEST_MS), self.LONGEST_MS)
        self._due_at_ms = now_ms + self._pause_ms


class LatestOffsets:
    """The end offsets of the last lookup, and the time of the next one."""

    def __init__(self, options: SourceOptions, source: OffsetSource, clock: Clock, ids: TopicIds) -> None:
        self._options = options
        self._source = source
        self._clock = clock
        self._ids = ids
        self._pacer = RefreshPacer()
        self._selection: SelectedPartitions | None = None
        self._selected_at_ms = 0.0
        self._warned: set[str] = set()
        self._confirmed_missing: set[str] = set()
        """Missing topics and lagging partitions that several lookups have confirmed."""
        self.known: OffsetMap | None = None
        """The result of the last lookup; None before the first."""

    @property
    def due(self) -> bool:
        """Whether the next lookup is due."""
        return self.known is None or self._pacer.due(self._clock.now_ms())

    def look_up(self, known: OffsetMap) -> OffsetMap:
        """The end offsets of all partitions, for a query that has read up to ``known``.

        Missing topics and partitions, and partitions that end before ``known``, are looked up several times. The next
        call does not repeat these lookups. A topic with another id than the one that was read needs no repetition.
        """
        latest: OffsetMap = {}
        unknown: set[str] = set()
        missing: set[str] = set()
        for attempt in range(self._options.offset_retries + 1):
            if attempt:
                self._clock.sleep_ms(self._options.offset_retry_interval_ms)
            selection = self._select(refresh=attempt > 0)
            latest = self._source.list_offsets(dict.fromkeys(selection.partitions, LATEST_OFFSET))
            unknown = set(selection.missing_topics) - {tp.topic for tp in known}
            lagging = lagging_partitions(known, latest)
            if lagging:
                other = self._ids.find_recreated(lagging, self._source.topic_ids({tp.topic for tp in lagging}))
                lagging = sorted(set(lagging) - {tp for change in other for tp in change.partitions})
            missing = unknown | {str(tp) for tp in lagging}
            if missing <= self._confirmed_missing:
                break
        self._confirmed_missing = missing
        if unknown:
            self._missing_topics(unknown)
        self._pacer.looked_up(self._clock.now_ms(), moved=latest != self.known)
        self.known = latest
        return latest

    def warn_once(self, message: str) -> None:
        """Log a warning once, not at every lookup."""
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)

    def _select(self, *, refresh: bool) -> SelectedPartitions:
        now_ms = self._clock.now_ms()
        recent = self._pacer.idle and now_ms < self._selected_at_ms + PARTITIONS_EVERY_MS
        if self._selection is None or refresh or not recent:
            self._selection = select_partitions(self._options, self._source)
            self._selected_at_ms = now_ms
            self._ids.record_lookup(self._source.topic_ids({tp.topic for tp in self._selection.partitions}))
            if missing := self._selection.missing_partitions:
                self.warn_once(f"assigned partitions that do not exist are not read: {listed(missing)}")
        return self._selection

    def _missing_topics(self, unknown: set[str]) -> None:
        if self._options.fail_on_data_loss:
            raise unknown_topics(self._options, unknown)
        self.warn_once(f"subscribed topics do not exist: {listed(unknown)}")
