"""Which partition is read from which broker, and waiting for their responses."""

import dataclasses
import math
import select
import time
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.consumer.broker_source import BrokerSource
from spark_kafka_native._client.consumer.cursor import Cursor
from spark_kafka_native._client.pausable_clock import PausableClock
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import LONGEST_POLL_MS

if TYPE_CHECKING:
    from spark_kafka_native._net.alarm import Alarm

_TOGETHER_S: Final = 0.005
"""Partitions that are to be retried within this time are retried together."""
_PARTIAL_S: Final = 0.5
"""How long the other sources wait for the rest of a response."""


@dataclasses.dataclass(slots=True)
class Wakeup:
    """What ends a wait of a `Fetcher`, and its iteration, for its caller."""

    alarm: "Alarm"
    at: float = math.inf
    """A wait ends at this time of ``time.monotonic()``."""
    look_up_ms: float = 2_000
    """Longest request for metadata or offsets, whose wait does not end so; it is repeated."""

    def is_due(self, readable: Container[int]) -> bool:
        """Whether a wait ends now."""
        return self.alarm.fileno() in readable or time.monotonic() >= self.at


class Sources:
    """The brokers that are read from, each with its cursors; the other cursors wait, or are not to be fetched."""

    def __init__(self, cluster: Cluster, isolation: int, clock: PausableClock, wakeup: Wakeup | None = None) -> None:
        """``clock`` is that of ``BrokerSource.expires_at``; pauses between requests are on ``time.monotonic``."""
        self.is_woken = False
        """Whether ``wakeup`` has ended the last wait."""
        self._wakeup = wakeup
        self._cluster = cluster
        self._isolation = isolation
        self._clock = clock
        self._sources: dict[tuple[int, HostPort, str], BrokerSource] = {}
        """By broker, address and rack. The one whose response was taken last is the last."""
        self._source_of: dict[Cursor, BrokerSource] = {}
        self._waiting: dict[Cursor, None] = {}
        self._partial: BrokerSource | None = None
        """The source whose response has come in part."""

    def __iter__(self) -> Iterator[BrokerSource]:
        return iter(list(self._sources.values()))

    def __contains__(self, cursor: Cursor) -> bool:
        """Whether the cursor has a source, or waits for one."""
        return cursor in self._waiting or cursor in self._source_of

    def __bool__(self) -> bool:
        """Whether there is any such cursor."""
        return bool(self._waiting or self._source_of)

    def close(self) -> None:
        """Give the connections back."""
        for source in self:
            source.close()

    def wait(self, cursor: Cursor, pause_ms: float = 0.0) -> None:
        """Have the cursor wait for a source, ``pause_ms`` at least."""
        self.detach(cursor)
        cursor.retry_at = time.monotonic() + pause_ms / 1000
        self._waiting[cursor] = None

    def due(self) -> list[Cursor]:
        """The cursors that are to have a source now."""
        soon = time.monotonic() + _TOGETHER_S
        return [cursor for cursor in self._waiting if cursor.retry_at <= soon]

    def attach(self, cursor: Cursor, node: Node, rack: str) -> None:
        """Read the cursor from a broker, to which requests name ``rack``."""
        self.detach(cursor)
        key = node.node_id, node.address, rack
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = BrokerSource(self._cluster, node, rack=rack, isolation=self._isolation)
        source.cursors[cursor] = None
        self._source_of[cursor] = source

    def detach(self, cursor: Cursor) -> None:
        """Fetch no more of a cursor."""
        self._waiting.pop(cursor, None)
        source = self._source_of.pop(cursor, None)
        if source is not None:
            del source.cursors[cursor]

    def has_cursors(self, source: BrokerSource) -> bool:
        """Whether a source has cursors, without those whose requests are to name another rack by now."""
        if self._cluster.config.client_rack:
            for cursor in [each for each in source.cursors if each.replica.rack(time.monotonic()) != source.rack]:
                self.wait(cursor)
        return bool(source.cursors)

    def continue_after(self, cursor: Cursor) -> None:
        """Put a cursor that got records last in the next request; detach it once all of its range is fetched."""
        source = self._source_of.get(cursor)
        if source is None:
            return  # it is read from another broker from now on
        if cursor.next_offset < cursor.end_offset:
            source.cursors[cursor] = source.cursors.pop(cursor)
        else:
            self.detach(cursor)

    def poll(self) -> tuple[BrokerSource | None, list[BrokerSource]]:
        """Wait until bytes of a response have come, or something is due: that source, and those that got none in time.

        One response is received at a time, so that one is in memory, unless its broker stops in the middle.
        """
        in_flight = polled = [source for source in self if source.in_flight]
        if self._partial is not None and self._partial.in_flight:
            polled = [self._partial]
        # Without cursors the connection is not taken, and would end every wait.
        opening = [source.opening for source in self if source.opening is not None and source.cursors]
        now, on_clock = time.monotonic(), self._clock.now()
        waits_s = [cursor.retry_at - now for cursor in self._waiting]
        waits_s += [source.resume_at - now for source in self if source.cursors and source.is_idle]
        waits_s += [source.expires_at - on_clock for source in polled]
        waits_s += [each.remaining_ms / 1000 for each in opening]
        if len(polled) < len(in_flight):
            waits_s.append(_PARTIAL_S)
        wait_s = max(min(waits_s, default=0.0), 0.0)
        if not polled and not opening and self._wakeup is None:
            if wait_s:
                time.sleep(wait_s)
            return None, []
        poller = select.poll()
        if self._wakeup is not None:
            poller.register(self._wakeup.alarm, select.POLLIN)
            wait_s = min(wait_s, max(self._wakeup.at - now, 0.0))
        for each in opening:
            poller.register(each, select.POLLIN)
        for source in polled:
            wants_write = source.connection.wants_write
            poller.register(source.connection, select.POLLIN | (select.POLLOUT if wants_write else 0))
        descriptors = {descriptor for descriptor, _ in poller.poll(min(wait_s * 1000, LONGEST_POLL_MS))}
        self.is_woken = self._wakeup is not None and self._wakeup.is_due(descriptors)
        ready = [source for source in polled if source.connection.fileno() in descriptors]
        if not descriptors:
            self._partial = None
        # The response of a source that is not polled may have come.
        on_clock = self._clock.now()
        expired = [source for source in polled if source.expires_at <= on_clock and source not in ready]
        return next(iter(ready), None), expired

    def received(self, source: BrokerSource, *, whole: bool) -> None:
        """Note that bytes of a response have come; after the last ones the other sources come first.

        After its first bytes a response may take its timeout once more: its broker works, and the bytes may have waited
        for the rest of another response.
        """
        self._partial = None if whole else source
        if whole:
            key = source.node.node_id, source.node.address, source.rack
            self._sources[key] = self._sources.pop(key)
        elif not source.is_extended:
            source.is_extended = True
            source.expires_at = max(source.expires_at, self._clock.now()) + source.response_timeout_ms / 1000
