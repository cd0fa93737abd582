"""The thread of a group consumer: its membership, rebalances and automatic commits, whatever the group's protocol."""

import dataclasses
import logging
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.classic_member import ClassicMembership
from spark_kafka_native._client.groups.consumer_protocol_member import ConsumerProtocolMembership
from spark_kafka_native._client.groups.coordinator_link import CoordinatorLink
from spark_kafka_native._client.groups.member_loop import MemberLoop
from spark_kafka_native._client.groups.membership import MemberIdentity, Membership
from spark_kafka_native._client.groups.offset_storage import (
    CoordinatorOffsets,
    DualOffsets,
    OffsetStorage,
    SessionOffsets,
    ZooKeeperOffsets,
)
from spark_kafka_native._client.groups.subscribed_topics import SubscribedTopics
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._client.groups.waits import Interrupted, MemberWaits
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.assigned_stream import AssignedStream
from spark_kafka_native._record_clients.consumer.group_config import (
    CLASSIC,
    KAFKA,
    ZOOKEEPER,
    ConsumerConfig,
)
from spark_kafka_native._record_clients.consumer.reader import S, StreamReader, Topics, longest_request_ms
from spark_kafka_native._record_clients.consumer.rebalance_listener import RebalanceListener
from spark_kafka_native._zookeeper.consumer_znodes import STATIC, Subscription

_log = logging.getLogger(__name__)

S_co = TypeVar("S_co", bound=AssignedStream, covariant=True)


class StreamFactory(Protocol[S_co]):
    """How the streams of a member are made."""

    def __call__(self, cluster: Cluster, reset: Callable[[TopicPartition], int], wake: Callable[[], None], /) -> S_co:
        """A stream of a cluster.

        ``reset`` returns the offset at which to continue where the position has no records; it may raise KafkaError.
        ``wake`` is called when what is processed of a stopped partition has been processed.
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupElsewhere:
    """A group and its offsets in another cluster than the records."""

    cluster: Cluster
    storage: OffsetStorage


class ConsumerMember(Generic[S]):
    """One member of a group, and its streams."""

    def __init__(
        self,
        config: ConsumerConfig,
        topics: Topics,
        streams: int,
        make_stream: StreamFactory[S],
        *,
        listener: RebalanceListener | None = None,
        group: GroupElsewhere | None = None,
    ) -> None:
        """Begin. ``topics`` and ``streams`` are those of `StreamReader`. Raises OSError as it does.

        ``group``: of a classic group whose coordinator is in another cluster.
        """
        self._config = config
        self._discovery = config.discovery.discovery()
        self._cluster = Cluster(config.client, discovery=self._discovery, warns=True)
        self._waits = MemberWaits()
        self._make_stream = make_stream
        self._listener = listener or RebalanceListener()
        self._group = group
        self._link = CoordinatorLink(group.cluster if group else self._cluster, config.group_id, self._waits)
        self.reader: StreamReader[S]
        self._membership: Membership
        if config.group_protocol == ZOOKEEPER:
            self._open_in_zookeeper(topics, streams)
        else:
            self._open_at_coordinator(topics, streams)
        self._is_stopped = self._is_forgotten = False
        self._pid = os.getpid()
        name = f"kafka-consumer-{config.group_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the streams, commit and leave, in the member's thread. Takes no lock that the caller may hold."""
        self._is_stopped = True
        for stream in self.reader.streams:
            stream.end()
        self._waits.stop()

    def forget(self) -> None:
        """As ``stop``, if that was not called, because no stream can be read any more."""
        if not self._is_stopped and self._pid == os.getpid():
            self._is_forgotten = True
            self.stop()

    def join(self) -> None:
        """Wait until the member has left."""
        self._thread.join()

    @property
    def is_calling(self) -> bool:
        """Whether its thread is the current one, which calls the listener."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        try:
            self._membership.run()
        except Exception as error:  # the streams raise it
            text = "group %s: the member has ended, and its streams raise: %s: %s"
            is_known = isinstance(error, KafkaError)
            _log.error(text, self._config.group_id, type(error).__name__, error, exc_info=not is_known)
            for stream in self.reader.streams:
                stream.fail(error)
            with suppress(Interrupted):
                while not self._is_stopped:
                    self._waits.pause(math.inf)
        if self._is_forgotten:
            text = "group %s: a ConsumerConnector was collected as garbage without shutdown(); its member has left"
            _log.warning(text, self._config.group_id)
        for stream in self.reader.streams:
            stream.close()
        self._link.disconnect()
        self._cluster.close(final=True)  # the threads of streams may still have connections
        if self._discovery is not None:
            self._discovery.close()
        self._waits.close()

    @property
    def identity(self) -> MemberIdentity:
        """What commits carry now."""
        return self._membership.identity

    # --- protocols

    def _open_at_coordinator(self, topics: Topics, streams: int) -> None:
        config = self._config
        storage = self._group.storage if self._group else CoordinatorOffsets(self._cluster, config.group_id)
        self.reader = self._reader_of(topics, streams, storage)
        loop = MemberLoop(self._link, config.membership, self.reader)
        subscribed = self._subscribed(topics)
        # A change in ZooKeeper is reported here, too.
        self._cluster.metadata_listeners.add(lambda _: subscribed.outdate())
        is_classic = config.group_protocol == CLASSIC
        self._membership = (
            ClassicMembership(loop, subscribed) if is_classic else ConsumerProtocolMembership(loop, subscribed)
        )

    def _open_in_zookeeper(self, topics: Topics, streams: int) -> None:
        from spark_kafka_native._client.groups.zookeeper.member import ZooKeeperMembership  # noqa: PLC0415 -- imports kazoo
        from spark_kafka_native._client.groups.zookeeper.session import MemberSession  # noqa: PLC0415 -- imports kazoo

        config, membership = self._config, self._config.zookeeper_membership
        session = MemberSession(membership, self._waits)
        storage: OffsetStorage = ZooKeeperOffsets(config.group_id, lambda: session.znodes)
        if config.offsets_storage == KAFKA:
            at_coordinator = SessionOffsets(
                CoordinatorOffsets(self._cluster, config.group_id),
                lambda: session.znodes,
                longest_commit_ms=longest_request_ms(config),
            )
            storage = DualOffsets(at_coordinator, storage) if config.dual_commit_enabled else at_coordinator
        self.reader = self._reader_of(topics, streams, storage)
        subscription = _subscription(topics, streams)
        self._membership = ZooKeeperMembership(session, self._waits, membership, subscription, self.reader)

    def _reader_of(self, topics: Topics, streams: int, storage: OffsetStorage) -> StreamReader[S]:
        def make(reset: Callable[[TopicPartition], int]) -> S:
            return self._make_stream(self._cluster, reset, self._waits.wake)

        return StreamReader(
            self._cluster, self._config, topics, streams, storage, lambda: self.identity, make, self._listener
        )

    def _subscribed(self, topics: Topics) -> SubscribedTopics:
        if not isinstance(topics, TopicFilter):
            return SubscribedTopics(self._cluster, self._config.group_id, names=topics)
        accepts, excludes = topics.accepts, self._config.exclude_internal_topics
        return SubscribedTopics(
            self._cluster,
            self._config.group_id,
            accepts=lambda topic: accepts(topic.name) and not (excludes and topic.internal),
        )


def _subscription(topics: Topics, streams: int) -> Subscription:
    if isinstance(topics, TopicFilter):
        return Subscription(pattern=topics.pattern, streams={topics.expression: streams})
    return Subscription(pattern=STATIC, streams=topics)
