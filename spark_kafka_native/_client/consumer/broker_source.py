"""One broker and the partitions that are read from it: one connection, one Fetch in flight."""

import functools
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import NO_EPOCH, Node
from spark_kafka_native._client.cluster.pending_connection import PendingConnection
from spark_kafka_native._client.consumer.cursor import Cursor
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_TOPIC_IDS_SINCE: Final = 13
_LAST_FETCHED_EPOCH_SINCE: Final = 12
_GRACE_MS: Final = 1_000
"""A broker that waits for records until the very deadline still gets its empty response through."""


class BrokerSource:
    """A broker, the cursors that are read from it, and its Fetch in flight.

    Topics are named by their ids where those are known and the broker understands that (version 13), else by name.
    Fetch sessions (KIP-227) are not used. Partitions that got records come last in the next request, because
    ``fetch.max.bytes`` bounds a response and the broker fills it in the order of the request.
    """

    def __init__(self, cluster: Cluster, node: Node, *, rack: str, isolation: int) -> None:
        """Does not connect yet. ``rack`` is the one that requests name."""
        self.node = node
        self.rack = rack
        self.cursors: dict[Cursor, None] = {}
        """In the order of the next request."""
        self.resume_at = 0.0
        """The next Fetch is not sent before this time of ``time.monotonic``.

        Set after a response without records, and by a throttle.
        """
        self.opening: PendingConnection | None = None
        self.in_flight = False
        self.is_extended = False
        """Whether ``expires_at`` of the response in flight was extended."""
        self.expires_at = 0.0
        """When the response in flight must have come: ``response_timeout_ms`` after its request, extended once.

        On the fetcher's clock, which is paused while the caller uses rows.
        """
        self.response_timeout_ms = 0.0
        self.backoff = cluster.backoff()
        self._cluster = cluster
        self._isolation = isolation
        self._connection: Connection | None = None
        self._requested: dict[Cursor, int] = {}

    @property
    def connection(self) -> Connection:
        """The open connection."""
        assert self._connection is not None
        return self._connection

    def close(self) -> None:
        """Give the connection back; it is closed if a response is outstanding."""
        opening, self.opening = self.opening, None
        if opening is not None:
            self._cluster.pending_connections.abandon(opening)
        connection, self._connection, self.in_flight = self._connection, None, False
        if connection is not None:
            self._cluster.give_back(connection)

    def disconnect(self) -> None:
        """Close the connection, because a response was damaged or its broker is another one."""
        if self._connection is not None:
            self._connection.close()
        self.close()

    @property
    def is_idle(self) -> bool:
        """Whether neither a response nor a connection is waited for."""
        return not self.in_flight and self.opening is None

    def connect(self, deadline: Deadline) -> bool:
        """Start connecting, or check on it. True once the connection is open; until then ``opening`` is polled.

        Raises BrokerUnreachable; ConnectionLost; AuthenticationFailed.
        """
        if self._connection is None and self.opening is None:
            self._connection = self._cluster.borrow_idle(self.node)
            if self._connection is None:
                borrow = functools.partial(self._cluster.borrow, self.node)
                address = self._cluster.address_of(self.node)
                self.opening = self._cluster.pending_connections.begin(address, borrow, deadline)
        if self.opening is not None:
            try:
                connection = self.opening.take()
            except BaseException:
                self.close()  # or each iteration would have the same error again
                raise
            if connection is not None:
                self._connection, self.opening = connection, None
        return self._connection is not None

    @property
    def names_topics(self) -> bool:
        """Whether the next Fetch names topics instead of sending their ids."""
        return self.connection.version_of(FetchRequest, self._max_version) < _TOPIC_IDS_SINCE

    @property
    def _max_version(self) -> int | None:
        has_ids = all(cursor.fetch_topic_id != ZERO_UUID for cursor in self.cursors)
        return None if has_ids else _TOPIC_IDS_SINCE - 1

    def send(self, deadline: Deadline) -> float:
        """Send the Fetch for all cursors -> milliseconds within which the response must come.

        The broker waits for records until ``deadline`` at most.

        Raises ConnectionLost, RequestTimeout, UnsupportedApiVersion, AuthenticationFailed.
        """
        config, max_version = self._cluster.config, self._max_version
        # Only a batch that was cut off raises the limit of a response, to that batch's size.
        raised = [each.max_bytes for each in self.cursors if each.max_bytes > config.max_partition_fetch_bytes]
        sends_epochs = self.connection.version_of(FetchRequest, max_version) >= _LAST_FETCHED_EPOCH_SINCE
        max_wait_ms = min(config.fetch_max_wait_ms, deadline.remaining_ms)
        request = FetchRequest(
            max_wait_ms=round(max_wait_ms),
            min_bytes=config.fetch_min_bytes,
            max_bytes=max([config.fetch_max_bytes, *raised]),
            isolation_level=self._isolation,
            topics=tuple(self._topics(sends_epochs=sends_epochs)),
            rack_id=self.rack,
        )
        self.connection.send(request, deadline=deadline, max_version=max_version)
        self._requested = {cursor: cursor.next_offset for cursor in self.cursors}
        self.in_flight, self.is_extended = True, False
        return min(config.request_timeout_ms + config.fetch_max_wait_ms, deadline.remaining_ms + _GRACE_MS)

    def _topics(self, *, sends_epochs: bool) -> Iterator[FetchTopic]:
        topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
        for cursor in self.cursors:
            topics.setdefault((cursor.partition.topic, cursor.fetch_topic_id), []).append(
                FetchPartition(
                    partition=cursor.partition.partition,
                    current_leader_epoch=cursor.leader_epoch,
                    fetch_offset=cursor.next_offset,
                    last_fetched_epoch=cursor.next_epoch if sends_epochs else NO_EPOCH,
                    partition_max_bytes=cursor.max_bytes,
                )
            )
        for (topic, topic_id), partitions in topics.items():
            yield FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))

    def receive(self) -> FetchResponse | None:
        """The response, once all of it has come. Does not wait. Raises ConnectionLost."""
        self.connection.write_some()
        self.connection.read_some()
        received = self.connection.next_response()
        if received is None:
            return None
        self.in_flight = False
        _, response = received
        assert isinstance(response, FetchResponse)
        return response

    def parts_of(self, response: FetchResponse) -> "list[tuple[Cursor, PartitionData | None]]":
        """The cursors that are still where they were when the request was sent, and their parts of the response."""
        names = {cursor.fetch_topic_id: cursor.partition.topic for cursor in self._requested}
        parts = {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        }
        return [
            (cursor, parts.get(cursor.partition))
            for cursor, offset in self._requested.items()
            if cursor in self.cursors and cursor.next_offset == offset
        ]


def is_throttled(response: FetchResponse) -> bool:
    """Whether a quota left the response without any partition: the same Fetch has to be sent again (KIP-219)."""
    return response.throttle_time_ms > 0 and not response.responses and not response.error_code
