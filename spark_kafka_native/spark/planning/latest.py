"""The ends of all partitions of a stream, asked of the cluster no more often than is useful.

Spark asks for the latest offset every 11 ms or so while it has nothing to do. The cluster is asked four times a second
then, for the list of partitions once a second, and at once again as soon as something moves.
"""

import logging
from collections.abc import Collection
from typing import Final

from spark_kafka_native.spark.errors import listed
from spark_kafka_native.spark.offsets import LATEST_OFFSET, OffsetMap
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.assignment import select_partitions, unknown_topics
from spark_kafka_native.spark.planning.bounds import OffsetSource
from spark_kafka_native.spark.planning.data_loss import lagging_partitions
from spark_kafka_native.spark.planning.pacing import Clock, RefreshPacer
from spark_kafka_native.spark.planning.topic_ids import TopicIds
from spark_kafka_native.spark.subscription import Selection

PARTITIONS_EVERY_MS: Final = 1_000.0
"""How often an idle stream looks for new partitions."""

_log = logging.getLogger(__name__)


class LatestOffsets:
    """The last answer, and when to ask again."""

    def __init__(self, options: SourceOptions, source: OffsetSource, clock: Clock, ids: TopicIds) -> None:
        self._options = options
        self._source = source
        self._clock = clock
        self._ids = ids
        self._pacer = RefreshPacer()
        self._selection: Selection | None = None
        self._selected_at_ms = 0.0
        self._warned: set[str] = set()
        self._believed: Collection[str] = frozenset()
        """Topics and partitions that were looked for in vain."""
        self.known: OffsetMap | None = None
        """The last answer; None before the first."""

    @property
    def due(self) -> bool:
        """Whether it is time to ask."""
        return self.known is None or self._pacer.due(self._clock.now_ms())

    def ask(self, known: OffsetMap) -> OffsetMap:
        """The ends of all partitions, by a query that has read up to ``known``.

        Topics that are missing, and partitions that are gone or shorter than ``known``, are looked at again before
        that is believed; once it is, it is not waited for a second time. A topic that has another id than the one that
        was read needs no second look.
        """
        latest: OffsetMap = {}
        unknown: set[str] = set()
        doubtful: set[str] = set()
        for attempt in range(self._options.offset_retries + 1):
            if attempt:
                self._clock.sleep_ms(self._options.offset_retry_interval_ms)
            selection = self._select(anew=attempt > 0)
            latest = self._source.list_offsets(dict.fromkeys(selection.partitions, LATEST_OFFSET))
            unknown = set(selection.missing_topics) - {tp.topic for tp in known}
            lagging = lagging_partitions(known, latest)
            if lagging:
                other = self._ids.look(lagging, self._source.topic_ids({tp.topic for tp in lagging}))
                lagging = sorted(set(lagging) - {tp for change in other for tp in change.partitions})
            doubtful = unknown | {str(tp) for tp in lagging}
            if doubtful <= set(self._believed):
                break
        self._believed = doubtful
        if unknown:
            self._missing_topics(unknown)
        self._pacer.looked_up(self._clock.now_ms(), moved=latest != self.known)
        self.known = latest
        return latest

    def warn_once(self, message: str) -> None:
        """Log what would otherwise be said many times a second."""
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)

    def _select(self, *, anew: bool) -> Selection:
        now_ms = self._clock.now_ms()
        recent = self._pacer.idle and now_ms < self._selected_at_ms + PARTITIONS_EVERY_MS
        if self._selection is None or anew or not recent:
            self._selection = select_partitions(self._options, self._source)
            self._selected_at_ms = now_ms
            self._ids.note(self._source.topic_ids({tp.topic for tp in self._selection.partitions}))
            if missing := self._selection.missing_partitions:
                self.warn_once(f"assigned partitions that do not exist are not read: {listed(missing)}")
        return self._selection

    def _missing_topics(self, unknown: set[str]) -> None:
        if self._options.fail_on_data_loss:
            raise unknown_topics(self._options, unknown)
        self.warn_once(f"subscribed topics do not exist: {listed(unknown)}")
