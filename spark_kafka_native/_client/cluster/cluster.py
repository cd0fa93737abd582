"""A Kafka cluster: its cached metadata, and requests to its brokers.

Metadata is kept per topic until it is older than ``metadata.max.age.ms`` or is marked stale (``mark_stale``). Every
wait has a deadline; within it, requests are retried after growing pauses.
"""

import dataclasses
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self, TypeVar
from uuid import UUID

from spark_kafka_native._client.cluster.any_broker import AnyBroker
from spark_kafka_native._client.cluster.kept_producers import KeptProducers
from spark_kafka_native._client.cluster.known_coordinators import KnownCoordinators
from spark_kafka_native._client.cluster.metadata import (
    ClusterMetadata,
    MetadataListeners,
    Node,
    PartitionLeader,
    TopicMetadata,
)
from spark_kafka_native._client.cluster.misdirected import MISDIRECTED, is_misdirected
from spark_kafka_native._client.cluster.pending_connection import PendingConnections
from spark_kafka_native._client.cluster.pool import ConnectionPool
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import BrokerNotAvailable, NoSuchPartition
from spark_kafka_native._client.retry import Backoff, give_up, retry
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition

if TYPE_CHECKING:
    from spark_kafka_native._client.cluster.discovered import DiscoveredBrokers, Discovery
    from spark_kafka_native._zookeeper.registry import Change

ResponseT = TypeVar("ResponseT", bound=Response)
T = TypeVar("T")

UNKNOWN_TOPIC_TRIES: Final = 4
"""A topic just made is unknown to some brokers for a moment; one still unknown after so many questions is missing."""


class Cluster:
    """One cluster, its cached metadata and its idle connections. Threads may share it."""

    def __init__(self, config: ClientConfig, *, discovery: "Discovery | None" = None, warns: bool = False) -> None:
        """Does not connect yet.

        ``discovery`` finds the brokers, instead of ``bootstrap.servers``; the caller closes it. ``warns``: log a
        warning when no broker can be reached, once, and again after a response. Raises ValueError: no brokers given.
        """
        if discovery is None and not config.bootstrap_servers:
            raise ValueError(f"{config.servers_option}: a cluster without bootstrap.servers needs a discovery")
        self.config = config
        self.coordinators = KnownCoordinators()
        self.kept_producers = KeptProducers()
        self.pending_connections = PendingConnections()
        self._pool = ConnectionPool(config)
        self._only_bootstrap = config.broker_addresses == "bootstrap"
        self._lock = threading.Lock()
        self._metadata = ClusterMetadata()
        self._last_response: tuple[MetadataResponse, ClusterMetadata] | None = None
        self._updated_at: dict[str, float] = {}
        self.metadata_listeners = MetadataListeners()
        self._discovered: DiscoveredBrokers | None = None
        if discovery is not None:
            from spark_kafka_native._client.cluster import discovered  # noqa: PLC0415 -- Spark's processes do without it

            self._discovered = discovered.DiscoveredBrokers(discovery, config)
            discovery.listen(self._note_change)
        self._any_broker = AnyBroker(config, self._pool, self._known_addresses, self._discovered, warns=warns)
        _clusters.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, final: bool = False) -> None:
        """Close idle connections, forget all metadata and producer ids. The cluster may be used again.

        With ``final`` connections in use are closed when they are given back.
        """
        with self._lock:
            self._metadata, self._last_response = ClusterMetadata(), None
            self._updated_at.clear()
        self.coordinators.clear()
        self.kept_producers.clear()
        self._pool.close(final=final)

    # --- metadata

    @property
    def cluster_id(self) -> str | None:
        """The cluster id of the last Metadata response; None before the first one."""
        return self._metadata.cluster_id

    def topic_ids_in_memory(self, names: Iterable[str]) -> dict[str, UUID]:
        """The topic ids in the cached metadata; topics that are not cached are left out."""
        known = self._metadata.topics
        return {name: known[name].topic_id for name in names if name in known}

    def topic_in_memory(self, name: str) -> TopicMetadata | None:
        """A topic in the cached metadata, however old; None if it is not there, or had an error."""
        topic = self._metadata.topics.get(name)
        return topic if topic is not None and topic.error is ErrorCode.NONE and topic.partitions else None

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        create: bool = False,
        missing_ok: bool = False,
        throttled_ok: bool = True,
        timeout_ms: float | None = None,
    ) -> ClusterMetadata:
        """Ask for the cluster's brokers and ``topics``, None for all of them; never answered from memory.

        ``create`` lets brokers that are set up so create missing topics, and waits for them until the deadline.
        ``missing_ok`` returns topics in error with ``TopicMetadata.error`` set, instead of asking again and raising.
        ``throttled_ok=False`` raises Throttled while all brokers throttle this client, instead of waiting.
        The deadline is ``timeout_ms``, by default ``default.api.timeout.ms``, from now.

        Raises KafkaError naming the topic: unknown, invalid, forbidden. BrokerUnreachable: names every server tried.
        NoBrokersFound: ZooKeeper has no brokers.
        """
        deadline = self.deadline(timeout_ms)
        if not throttled_ok:
            self._any_broker.check_throttle()
        names = None if topics is None else tuple(dict.fromkeys(topics))
        backoff, unknown_tries = self.backoff(), 0
        failure: KafkaError | None = None
        while True:
            try:
                response = self._ask_metadata(names, create, deadline)
            except BrokerUnreachable as error:
                give_up(failure, error)
            checked = () if missing_ok or names is None else names
            errors = (response.error_of(name, create=create) for name in checked)
            failure = next(filter(None, errors), None)
            if failure is None:
                return response
            unknown_tries += failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create
            if not failure.retriable or unknown_tries >= UNKNOWN_TOPIC_TRIES or not deadline.pause(backoff.next_ms()):
                raise failure

    def topic(self, name: str, *, create: bool = False, timeout_ms: float | None = None) -> TopicMetadata:
        """One topic, from memory while that is fresh. Raises as ``metadata``."""
        return self.topics([name], create=create, timeout_ms=timeout_ms)[name]

    def topics(
        self, names: Iterable[str], *, create: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicMetadata]:
        """Topics by name, from memory where that is fresh, the others with one request. Raises as ``metadata``."""
        with self._lock:
            found = {name: self._metadata.topics.get(name) if self._is_fresh(name) else None for name in names}
        unknown = [name for name, topic in found.items() if topic is None]
        updated = self.metadata(unknown, create=create, timeout_ms=timeout_ms).topics if unknown else {}
        return {name: topic or updated[name] for name, topic in found.items()}

    def leader(self, partition: TopicPartition, deadline: Deadline | None = None) -> PartitionLeader:
        """Who leads a partition, from memory while that is fresh. Raises as ``leaders``."""
        return self.leaders([partition], deadline)[partition]

    def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
    ) -> dict[TopicPartition, PartitionLeader]:
        """Who leads each of ``partitions``, from memory where that is fresh; waits for elections to end.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, naming the partition; BrokerUnreachable.
        """
        wanted = list(dict.fromkeys(partitions))
        until = deadline or self.deadline()
        backoff, unknown_tries = self.backoff(), 0
        last: KafkaError | None = None
        while True:
            try:
                leaders, errors = self.find_leaders(wanted, until)
            except BrokerUnreachable as error:
                give_up(last, error)
            if not errors:
                return leaders
            last = next(iter(errors.values()))
            self.mark_stale(*(partition.topic for partition in errors))
            unknown_tries += last.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not last.retriable or unknown_tries >= UNKNOWN_TOPIC_TRIES or not until.pause(backoff.next_ms()):
                raise last

    def find_leaders(
        self, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> tuple[dict[TopicPartition, PartitionLeader], dict[TopicPartition, KafkaError]]:
        """The leaders of ``partitions``, and the errors of those that have none now; at most two Metadata requests.

        Raises BrokerUnreachable.
        """
        stale = sorted(topic for topic in {partition.topic for partition in partitions} if not self._is_fresh(topic))
        found = self.metadata(stale, missing_ok=True, timeout_ms=deadline.remaining_ms) if stale else ClusterMetadata()
        topic_errors = {name: error for name in stale if (error := found.error_of(name)) is not None}
        leaders = self._metadata.leaders(partition for partition in partitions if partition.topic not in topic_errors)
        errors = {
            partition: topic_errors.get(partition.topic) or self._metadata.no_leader(partition)
            for partition in partitions
            if partition not in leaders
        }
        outdated = {part.topic for part, error in errors.items() if isinstance(error, NoSuchPartition)}.difference(
            stale
        )
        if outdated:  # partitions may have been added
            self.mark_stale(*outdated)
            return self.find_leaders(partitions, deadline)
        return leaders, errors

    def known_leader(self, partition: TopicPartition) -> PartitionLeader | None:
        """The leader of a partition, if it is in memory and fresh. Sends no request."""
        return self._metadata.leaders([partition]).get(partition) if self._is_fresh(partition.topic) else None

    def mark_stale(self, *topics: str) -> None:
        """Request the metadata of these topics again at the next use, because it has proved to be outdated."""
        with self._lock:
            for topic in topics:
                self._updated_at.pop(topic, None)

    # --- asking brokers

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """``timeout_ms`` from now, by default ``default.api.timeout.ms``."""
        return Deadline.after_ms(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def backoff(self) -> Backoff:
        """Pauses between retries, by ``retry.backoff.ms`` and ``retry.backoff.max.ms``."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    def retrying(self, action: Callable[[Deadline], T], timeout_ms: float | None = None) -> T:
        """``action(deadline)`` until it succeeds or the deadline passes, over retriable errors.

        The deadline is ``timeout_ms``, by default ``default.api.timeout.ms``, from now. Raises the last KafkaError.
        """
        deadline = self.deadline(timeout_ms)
        return retry(lambda: action(deadline), deadline, self.backoff())

    def node(self, node_id: int, deadline: Deadline) -> Node:
        """Where a broker listens. Raises BrokerNotAvailable: it is not in the cluster, or not at the moment."""
        brokers = self._metadata.brokers
        if node_id not in brokers:
            brokers = self.metadata([], timeout_ms=deadline.remaining_ms).brokers
        if node_id not in brokers:
            raise BrokerNotAvailable(node_id, brokers)
        return brokers[node_id]

    def any_node(self, deadline: Deadline) -> Node:
        """One of the brokers, not always the same. Raises as ``metadata``."""
        return random.choice(list(self.metadata([], timeout_ms=deadline.remaining_ms).brokers.values()))

    def send(
        self,
        node_id: int | None,
        request: Request[ResponseT],
        *,
        deadline: Deadline | None = None,
        max_version: int | None = None,
    ) -> ResponseT:
        """Ask the broker ``node_id``, or any broker for None, and wait for the response.

        While the broker cannot be reached or the connection breaks, the request is sent again until the deadline (by
        default ``default.api.timeout.ms`` from now): it may be carried out more than once.
        Raises BrokerUnreachable, ConnectionLost, RequestTimeout, Throttled, UnsupportedApiVersion.
        """
        until = deadline or self.deadline()
        if node_id is None:
            return self._any_broker.ask(request, until, max_version)
        return retry(lambda: self.send_once(node_id, request, until, max_version), until, self.backoff())

    def send_once(
        self, node_id: int, request: Request[ResponseT], deadline: Deadline, max_version: int | None = None
    ) -> ResponseT:
        """As ``send``, without a retry."""
        with self.lent(self.node(node_id, deadline), deadline) as connection:
            response = connection.call(request, timeout_ms=deadline.remaining_ms, max_version=max_version)
            if self.is_from_another_broker(response):
                connection.close()
            return response

    @contextmanager
    def lent(self, node: Node, deadline: Deadline) -> Iterator[Connection]:
        """A connection that only the caller uses for the length of a ``with`` block. Raises BrokerUnreachable.

        KafkaErrors of the block are noted as by ``note_error``.
        """
        connection = self.borrow(node, deadline)
        try:
            yield connection
        except KafkaError as error:
            self.note_error(connection, error)
            raise
        finally:
            self.give_back(connection)

    def borrow_idle(self, node: Node) -> Connection | None:
        """As ``borrow``, but without connecting: None if no connection is idle."""
        if self._only_bootstrap:
            return self._pool.borrow_idle_for(node.node_id, self.config.bootstrap_servers)
        return self._pool.borrow_idle(node.address)

    def borrow(self, node: Node, deadline: Deadline) -> Connection:
        """A connection that only the caller uses, until ``give_back``.

        With ``broker.addresses=bootstrap`` it may be to another broker (``note_error``).
        Raises BrokerUnreachable, which names the advertised.listeners of a broker that is no bootstrap server.
        """
        if self._only_bootstrap:
            return self._pool.borrow_for(node.node_id, self.config.bootstrap_servers, deadline)
        try:
            return self._pool.borrow(node.address, deadline)
        except BrokerUnreachable as error:
            self._forget_broker(node)
            if node.address in self.config.bootstrap_servers:
                raise
            raise BrokerUnreachable({node.address: node.unreachable(error.tried[node.address])}) from error

    def address_of(self, node: Node) -> HostPort:
        """Where a connection to a broker is made; with ``broker.addresses=bootstrap`` to the first bootstrap server."""
        return self.config.bootstrap_servers[0] if self._only_bootstrap else node.address

    def is_from_another_broker(self, response: Response) -> bool:
        """As ``note_error``, from the error codes in a response: whether to close its connection."""
        return self._only_bootstrap and is_misdirected(response)

    def note_error(self, connection: Connection, error: KafkaError) -> None:
        """Close a connection whose broker is not the leader, coordinator or controller that it was borrowed for.

        Only with ``broker.addresses=bootstrap``: the next connection may be to another broker.
        """
        if self._only_bootstrap and error.code in MISDIRECTED:
            connection.close()

    def note_timeout(self, address: HostPort) -> None:
        """Ask other brokers first, because this one did not respond in time.

        For callers that wait by themselves; a connection that raised RequestTimeout says it in ``give_back``.
        """
        self._pool.note_timeout(address)

    def give_back(self, connection: Connection) -> None:
        """Return a borrowed connection; a broken one, or one with requests in flight, is closed."""
        self._pool.give_back(connection)

    # --- inside

    def _ask_metadata(self, names: tuple[str, ...] | None, create: bool, deadline: Deadline) -> ClusterMetadata:
        wanted = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        backoff = self.backoff()
        while True:
            response = self._any_broker.ask(request, deadline)
            if response.brokers and response.error_code != ErrorCode.REBOOTSTRAP_REQUIRED:
                learned = self._learn(self._read(response))
                if names is None:
                    return learned
                if self._discovered is not None:
                    self._discovered.watch(names)
                # Old brokers may have got a request for more: see any_broker.
                return dataclasses.replace(learned, topics={n: learned.topics[n] for n in names if n in learned.topics})
            # A broker that is starting knows no broker yet; REBOOTSTRAP_REQUIRED (KIP-1102) means that ours are gone.
            self.close()
            if not deadline.pause(backoff.next_ms()):
                raise KafkaError(ErrorCode.of(response.error_code), "the cluster's metadata names no broker")

    def _read(self, response: MetadataResponse) -> ClusterMetadata:
        """The values in a response; the same objects for the same bytes as before (see ``net.response_cache``)."""
        last = self._last_response
        if last is None or last[0] is not response:
            last = self._last_response = response, ClusterMetadata.of(response)
        return last[1]

    def _learn(self, response: ClusterMetadata) -> ClusterMetadata:
        """Add a response to the cached metadata; the response, with later leaders where those are known."""
        now = time.monotonic()
        with self._lock:
            self._metadata = self._metadata.merged_with(response)
            for name, topic in response.topics.items():
                if topic.error is ErrorCode.NONE:
                    is_awaited = self._discovered is not None and self._discovered.is_awaited(topic, now)
                    self._updated_at[name] = now - (self._awaited_age_s if is_awaited else 0.0)
                else:
                    self._updated_at.pop(name, None)
            after = self._metadata
        self.metadata_listeners.report(lambda: self._metadata)
        return dataclasses.replace(response, topics={name: after.topics[name] for name in response.topics})

    @property
    def _awaited_age_s(self) -> float:
        """The age of metadata that is outdated already: it is requested again after ``retry.backoff.max.ms``."""
        return max(self.config.metadata_max_age_ms - self.config.retry_backoff_max_ms, 0) / 1000

    def _note_change(self, change: "Change") -> None:
        """Brokers or topics have changed in ZooKeeper. Called in a thread of the discovery."""
        assert self._discovered is not None
        with self._lock:
            self._metadata, stale, lost = self._discovered.note(change, self._metadata)
        self.mark_stale(*stale)
        self.metadata_listeners.report(lambda: self._metadata)
        if lost is not None:
            self.coordinators.forget_broker(lost.broker_id)
            for endpoint in lost.endpoints:
                self._pool.close_idle(endpoint.address)

    def _forget_broker(self, node: Node) -> None:
        """Request the metadata before the broker is used again, because its address may have changed."""
        with self._lock:
            brokers = {number: known for number, known in self._metadata.brokers.items() if known != node}
            self._metadata = dataclasses.replace(self._metadata, brokers=brokers)
        self.metadata_listeners.report(lambda: self._metadata)

    def _known_addresses(self) -> list[HostPort]:
        return [] if self._only_bootstrap else [node.address for node in self._metadata.brokers.values()]

    def _is_fresh(self, topic: str) -> bool:
        updated_at = self._updated_at.get(topic)
        return updated_at is not None and (time.monotonic() - updated_at) * 1000 < self.config.metadata_max_age_ms

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self.metadata_listeners.reset_after_fork()
        self.kept_producers.clear()  # they are the parent's
        self._pool.reset_after_fork()
        self.pending_connections = PendingConnections()


_clusters: "weakref.WeakSet[Cluster]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Another thread may have held a lock when the process forked: replace the locks and drop the connections."""
    for cluster in list(_clusters):
        cluster._reset_after_fork()  # noqa: SLF001 -- same module


os.register_at_fork(after_in_child=_after_fork_in_child)
