"""The thread of a group consumer that keeps its membership, whatever the protocol of the group."""

import logging
import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

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
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.group_config import (
    CLASSIC,
    KAFKA,
    ZOOKEEPER,
    ConsumerConfig,
)
from spark_kafka_native._record_clients.consumer.reader import StreamReader
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._zookeeper.consumer_znodes import STATIC, Subscription

_log = logging.getLogger(__name__)

Topics = Mapping[str, int] | TopicFilter


class ConsumerMember:
    """One member of a group, and its streams of ``topics``: so many of each topic, or ``streams`` of a filter."""

    def __init__(self, config: ConsumerConfig, topics: Topics, streams: int) -> None:
        """Begin. Raises OSError: the process has no descriptors left."""
        self._config = config
        self._discovery = config.discovery.discovery()
        self._cluster = Cluster(config.client, discovery=self._discovery, warns=True)
        self._waits = MemberWaits()
        self._link = CoordinatorLink(self._cluster, config.group_id, self._waits)
        self._of_topics: Mapping[str, Sequence[StreamPartitions]] | None = None
        if isinstance(topics, TopicFilter):
            self.streams = self._new_streams(streams)
        else:
            self._of_topics = {topic: self._new_streams(count) for topic, count in topics.items()}
            self.streams = [stream for of_topic in self._of_topics.values() for stream in of_topic]
        self.reader: StreamReader
        self._membership: Membership
        if config.group_protocol == ZOOKEEPER:
            self._open_in_zookeeper(topics)
        else:
            self._open_at_coordinator(topics)
        self._is_stopped = self._is_forgotten = False
        self._pid = os.getpid()
        name = f"kafka-consumer-{config.group_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def streams_of(self, topic: str) -> Sequence[StreamPartitions]:
        """The streams that read a topic."""
        return self.streams if self._of_topics is None else self._of_topics[topic]

    def stop(self) -> None:
        """End the streams, commit and leave, in the member's thread. Takes no lock that the caller may hold."""
        self._is_stopped = True
        for stream in self.streams:
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

    def _run(self) -> None:
        try:
            self._membership.run()
        except Exception as error:  # the streams raise it
            _log.error("%s", error)
            for stream in self.streams:
                stream.fail(error)
            with suppress(Interrupted):
                while not self._is_stopped:
                    self._waits.pause(math.inf)
        if self._is_forgotten:
            _log.warning("group %s: a consumer was forgotten without shutdown; it has left", self._config.group_id)
        for stream in self.streams:
            stream.close()
        self._link.disconnect()
        self._cluster.close(final=True)  # the threads of streams may still have connections
        if self._discovery is not None:
            self._discovery.close()
        self._waits.close()

    def _new_streams(self, count: int) -> list[StreamPartitions]:
        timeout_ms = self._config.consumer_timeout_ms
        return [
            StreamPartitions(self._cluster, timeout_ms=timeout_ms, reset=self._reset, processed=self._waits.wake)
            for _ in range(count)
        ]

    def _reset(self, partition: TopicPartition) -> int:
        return self.reader.reset(partition)

    def _identity(self) -> MemberIdentity:
        return self._membership.identity

    # --- protocols

    def _open_at_coordinator(self, topics: Topics) -> None:
        config = self._config
        self.reader = StreamReader(
            self._cluster,
            config,
            self.streams,
            self.streams_of,
            self._identity,
            CoordinatorOffsets(self._cluster, config.group_id),
        )
        loop = MemberLoop(self._link, config.membership, self.reader)
        subscribed = self._subscribed(topics)
        # A change in ZooKeeper is reported here, too.
        self._cluster.metadata_listeners.add(lambda _: subscribed.outdate())
        is_classic = config.group_protocol == CLASSIC
        self._membership = (
            ClassicMembership(loop, subscribed) if is_classic else ConsumerProtocolMembership(loop, subscribed)
        )

    def _open_in_zookeeper(self, topics: Topics) -> None:
        from spark_kafka_native._client.groups.zookeeper.member import ZooKeeperMembership  # noqa: PLC0415 -- imports kazoo
        from spark_kafka_native._client.groups.zookeeper.session import MemberSession  # noqa: PLC0415 -- imports kazoo

        config, membership = self._config, self._config.zookeeper_membership
        session = MemberSession(membership, self._waits)
        offsets: OffsetStorage = ZooKeeperOffsets(config.group_id, lambda: session.znodes)
        if config.offsets_storage == KAFKA:
            at_coordinator = CoordinatorOffsets(self._cluster, config.group_id)
            coordinator = SessionOffsets(at_coordinator, lambda: session.znodes)
            offsets = DualOffsets(coordinator, offsets) if config.dual_commit_enabled else coordinator
        self.reader = StreamReader(self._cluster, config, self.streams, self.streams_of, self._identity, offsets)
        subscription = _subscription(topics, len(self.streams))
        self._membership = ZooKeeperMembership(
            session, self._waits, config.zookeeper_membership, subscription, self.reader
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
