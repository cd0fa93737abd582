"""The thread of a group consumer that keeps its membership, whatever the protocol of the group."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

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
    ZooKeeperOffsets,
)
from spark_kafka_native._client.groups.subscribed_topics import SubscribedTopics
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._client.groups.waits import MemberWaits
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
StreamsOf = Callable[[str], Sequence[StreamPartitions]]


class ConsumerMember:
    """One member of a group, whose ``streams`` read ``topics``: streams by topic, or a filter.

    ``streams_of`` returns the streams of a topic.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        topics: Topics,
        streams: Sequence[StreamPartitions],
        streams_of: StreamsOf,
    ) -> None:
        """Begin. Raises OSError: the process has no descriptors left."""
        self._cluster = cluster
        self._config = config
        self._streams = streams
        self._waits = MemberWaits()
        self._link = CoordinatorLink(cluster, config.group_id, self._waits)
        self.reader: StreamReader
        self._membership: Membership
        if config.group_protocol == ZOOKEEPER:
            self._open_in_zookeeper(topics, streams_of)
        else:
            self._open_at_coordinator(topics, streams_of)
        name = f"kafka-consumer-{config.group_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at the streams, because a record has been processed."""
        self._waits.wake()

    def stop(self, *, finished_in: int | None) -> None:
        """End the streams, commit and leave. The records that the thread ``finished_in`` processes are committed."""
        if finished_in is not None:
            self.reader.acknowledge(finished_in)
        for stream in self._streams:
            stream.close()
        self._waits.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._link.disconnect()
        self._waits.close()

    def _run(self) -> None:
        try:
            self._membership.run()
        except Exception as error:  # the streams raise it
            _log.error("%s", error)
            for stream in self._streams:
                stream.fail(error)

    def _identity(self) -> MemberIdentity:
        return self._membership.identity

    # --- protocols

    def _open_at_coordinator(self, topics: Topics, streams_of: StreamsOf) -> None:
        config = self._config
        self.reader = StreamReader(
            self._cluster,
            config,
            self._streams,
            streams_of,
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

    def _open_in_zookeeper(self, topics: Topics, streams_of: StreamsOf) -> None:
        # It imports kazoo.
        from spark_kafka_native._client.groups.zookeeper.member import ZooKeeperMembership  # noqa: PLC0415 -- as said
        from spark_kafka_native._client.groups.zookeeper.session import MemberSession  # noqa: PLC0415 -- as said

        config, membership = self._config, self._config.zookeeper_membership
        session = MemberSession(membership, self._waits)
        offsets: OffsetStorage = ZooKeeperOffsets(config.group_id, lambda: session.znodes)
        if config.offsets_storage == KAFKA:
            coordinator = CoordinatorOffsets(self._cluster, config.group_id)
            offsets = DualOffsets(coordinator, offsets) if config.dual_commit_enabled else coordinator
        self.reader = StreamReader(self._cluster, config, self._streams, streams_of, self._identity, offsets)
        subscription = _subscription(topics, len(self._streams))
        self._membership = ZooKeeperMembership(
            session, self._waits, config.zookeeper_membership, subscription, self.reader
        )

    def _subscribed(self, topics: Topics) -> SubscribedTopics:
        if not isinstance(topics, TopicFilter):
            return SubscribedTopics(self._cluster, names=topics)
        accepts, excludes = topics.accepts, self._config.exclude_internal_topics
        return SubscribedTopics(
            self._cluster, accepts=lambda topic: accepts(topic.name) and not (excludes and topic.internal)
        )


def _subscription(topics: Topics, streams: int) -> Subscription:
    if isinstance(topics, TopicFilter):
        return Subscription(pattern=topics.pattern, streams={topics.expression: streams})
    return Subscription(pattern=STATIC, streams=topics)
