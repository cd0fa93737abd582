"""A sender's connections to brokers, with the Produce requests that have no response yet."""

import contextlib
import dataclasses
import select
import time
from collections import deque
from collections.abc import Iterable, Iterator

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.producer.partition_queue import PartitionQueue
from spark_kafka_native._client.producer.produce_request import Loaded
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import KafkaError


@dataclasses.dataclass(slots=True, kw_only=True)
class InFlightRequest:
    """The batches of one request, and when its response must have come."""

    load: list[Loaded]
    expires_at: float


@dataclasses.dataclass(slots=True)
class BrokerConnection:
    """One connection; ``requests`` in the order in which they were sent."""

    node: Node
    connection: Connection
    requests: deque[InFlightRequest] = dataclasses.field(default_factory=deque)

    @property
    def address(self) -> HostPort:
        """Where the connection ends; with ``broker.addresses=bootstrap`` not the broker's own address."""
        return self.connection.address

    def queues_in_flight(self) -> list[PartitionQueue]:
        """The partitions of all requests, without those that were given up."""
        queues = (item.queue for request in self.requests for item in request.load)
        return [queue for queue in queues if not queue.is_abandoned]

    def extend_for_throttle(self, queues: Iterable[PartitionQueue], now: float, request_timeout_ms: int) -> None:
        """Extend the timeouts of requests in flight, because the broker responds to them after the throttle.

        The throttle becomes the last error of ``queues``.
        """
        expires_at = now + (self.connection.throttle_ms + request_timeout_ms) / 1000
        for request in self.requests:
            request.expires_at = max(request.expires_at, expires_at)
        for queue in queues:
            queue.last_error = str(self.connection.throttled("Produce"))


class BrokerConnections:
    """At most one connection for each broker, borrowed from the cluster."""

    def __init__(self, cluster: Cluster, wakeup: int | None = None) -> None:
        """``wakeup``: a file descriptor; ``wait`` returns once it is readable."""
        self._cluster = cluster
        self._by_node: dict[int, BrokerConnection] = {}
        self._wakeup = wakeup

    def __iter__(self) -> Iterator[BrokerConnection]:
        return iter(list(self._by_node.values()))

    def connect(self, node: Node, timeout_ms: float) -> BrokerConnection:
        """The connection to a broker, made if there is none, or if it was idle or goes to another address.

        Raises KafkaError as ``Cluster.borrow``.
        """
        broker = self._by_node.get(node.node_id)
        if broker is not None and not broker.requests and (broker.node != node or broker.connection.is_stale()):
            self._cluster.give_back(self._by_node.pop(node.node_id).connection)
            broker = None
        if broker is None:
            connection = self._cluster.borrow(node, Deadline.after_ms(timeout_ms))
            broker = self._by_node[node.node_id] = BrokerConnection(node, connection)
        return broker

    def close(self, broker: BrokerConnection) -> None:
        """Close a broken connection."""
        broker.connection.close()
        self._by_node.pop(broker.node.node_id, None)

    def wait(self, timeout_s: float) -> list[BrokerConnection]:
        """Wait for sockets with requests in flight; the connections that can be read or written now."""
        poller = select.poll()
        brokers: dict[int, BrokerConnection] = {}
        for broker in self._by_node.values():
            if broker.requests:
                events = select.POLLIN | (select.POLLOUT if broker.connection.wants_write else 0)
                brokers[broker.connection.fileno()] = broker
                poller.register(broker.connection, events)
        if self._wakeup is not None:
            poller.register(self._wakeup, select.POLLIN)
        elif not brokers:
            if timeout_s:
                time.sleep(timeout_s)
            return []
        return [brokers[descriptor] for descriptor, _ in poller.poll(timeout_s * 1000) if descriptor in brokers]

    def next_times(self, now: float) -> Iterator[float]:
        """When requests expire and throttles end."""
        for broker in self._by_node.values():
            if broker.requests:
                yield broker.requests[0].expires_at
            if ms := broker.connection.throttle_ms:
                yield now + ms / 1000

    def receive_all(self, timeout_ms: float, longest_throttle_ms: float) -> None:
        """Wait for the responses to all requests, which are ignored. Throttles extend the timeout."""
        deadline = Deadline.after_ms(timeout_ms)
        for broker in self._by_node.values():
            with contextlib.suppress(KafkaError):
                while broker.connection.in_flight:
                    deadline.extend_ms(broker.connection.throttle_ms, longest_throttle_ms)
                    broker.connection.receive(deadline)

    def release(self) -> None:
        """Give the connections back; those with requests in flight are closed."""
        for broker in self._by_node.values():
            self._cluster.give_back(broker.connection)
        self._by_node.clear()
