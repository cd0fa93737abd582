"""``OffsetSource`` on a real cluster."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, PartitionLeader
from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED, ClientConfig
from spark_kafka_native._client.consumer.leader_epochs import ends_of_epochs
from spark_kafka_native._client.consumer.offsets import MAX_TIMESTAMP, list_offsets
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._spark.offsets import OffsetMap

_SETTLED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_VANISHING_TRIES: Final = 5
"""Most repetitions of a lookup because partitions were deleted during it."""


class ClusterOffsets:
    """``OffsetSource`` over the connections that this process shares."""

    def __init__(self, config: ClientConfig) -> None:
        """Does not connect yet."""
        self._config = config
        self._topic_ids: dict[str, UUID] = {}

    def topics(self, names: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
        """Partition numbers of the named topics that exist, or of all but the internal ones.

        Raises KafkaError naming a named topic that may not be read, BrokerUnreachable naming every server tried.
        """
        wanted = None if names is None else tuple(names)
        response = self._cluster.metadata(wanted, missing_ok=True)
        if wanted is None:
            self._topic_ids = _ids(response)
            return _partitions(response, leave_out_internal=True)
        others = {name: topic_id for name, topic_id in self._topic_ids.items() if name not in wanted}
        self._topic_ids = others | _ids(response)
        unsettled = [name for name in wanted if name in response.topics and response.topics[name].error not in _SETTLED]
        found = _partitions(response, leave_out_internal=False)
        if not unsettled:
            return found
        # The second request waits while a topic is being created, and raises authorization errors.
        settled = self._cluster.metadata(unsettled)
        self._topic_ids |= _ids(settled)
        return found | _partitions(settled, leave_out_internal=False)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Ids in the last result of ``topics``, without a request; brokers before 2.8 have none."""
        return {name: self._topic_ids[name] for name in topics if name in self._topic_ids}

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        """First, end or by-time offsets; partitions that do not exist are left out.

        Raises KafkaError naming the partition, BrokerUnreachable.
        """
        pending = dict(wanted)
        for _ in range(_VANISHING_TRIES):
            try:
                found = list_offsets(self._cluster, pending) if pending else {}
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                unknown = error
            else:
                return {tp: listed.offset for tp, listed in found.items()}
            existing = self.topics(sorted({tp.topic for tp in pending}))
            pending = {tp: at for tp, at in pending.items() if tp.partition in existing.get(tp.topic, ())}
        raise unknown

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionLeader]:
        """The leader of each partition, from cached metadata if it is fresh. Raises as ``list_offsets``."""
        return self._cluster.leaders(partitions)

    def latest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Largest timestamps, also of open transactions; brokers before 3.0 return none. Raises as `leaders`."""
        wanted = dict.fromkeys(partitions, MAX_TIMESTAMP)
        try:
            found = list_offsets(self._cluster, wanted, isolation=READ_UNCOMMITTED)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        return {tp: listed.timestamp for tp, listed in found.items() if listed.offset >= 0}

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> OffsetMap:
        """End offsets of leader epochs; brokers before 2.3 return none. Raises as ``leaders``."""
        return {tp: end.end_offset for tp, end in ends_of_epochs(self._cluster, epochs).items()}

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's committed offsets; ``read_committed`` waits for offsets in open transactions.

        Raises KafkaError naming the group; BrokerUnreachable.
        """
        stable = self._config.isolation_level == READ_COMMITTED
        return fetch_offsets(self._cluster, group_id, partitions, require_stable=stable, timeout_ms=timeout_ms)

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets for a group without members. Raises as ``committed``."""
        commit_offsets(self._cluster, group_id, offsets, timeout_ms=timeout_ms)

    @property
    def _cluster(self) -> Cluster:
        return shared_cluster(self._config)


def _ids(response: ClusterMetadata) -> dict[str, UUID]:
    known = {name: topic.topic_id for name, topic in response.topics.items() if topic.error is ErrorCode.NONE}
    return {name: topic_id for name, topic_id in known.items() if topic_id != ZERO_UUID}


def _partitions(response: ClusterMetadata, *, leave_out_internal: bool) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(topic.partitions)
        for name, topic in response.topics.items()
        if topic.error is ErrorCode.NONE and not (leave_out_internal and (topic.internal or name in INTERNAL_TOPICS))
    }
