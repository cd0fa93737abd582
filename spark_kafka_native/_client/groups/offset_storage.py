"""Where the offsets of a group are committed: at its coordinator, in ZooKeeper, or in both while a group migrates."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from spark_kafka_native._client.admin.committed_offsets import commit_each, fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_COMMITTED
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.consumer_znodes import GroupPaths, decode_offset
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode

if TYPE_CHECKING:
    from spark_kafka_native._zookeeper.znode_client import ZnodeClient

_NO_OFFSET: Final = -1
"""As an empty znode: Kafka's consumers begin where ``auto.offset.reset`` says."""


class OffsetStorage(Protocol):
    """The committed offsets of one group. Threads may share it."""

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """The offsets of the partitions that have one. Raises KafkaError."""
        ...

    def commit(
        self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity, *, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets as a member -> the errors of partitions; the offsets of all others are committed.

        Raises KafkaError: an error that is not of one partition; then some offsets may have been committed.
        """
        ...


class CoordinatorOffsets:
    """Offsets at the coordinator of the group, with ``offsets.storage=kafka``."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """As ``OffsetStorage.fetch``. With ``read_committed`` it waits for the end of transactions with offsets."""
        stable = self._cluster.config.isolation_level == READ_COMMITTED
        found = fetch_offsets(self._cluster, self._group_id, partitions, require_stable=stable, timeout_ms=timeout_ms)
        return {partition: each.offset for partition, each in found.items()}

    def commit(
        self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity, *, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """As ``OffsetStorage.commit``."""
        return commit_each(
            self._cluster,
            self._group_id,
            offsets,
            member_id=identity.member_id,
            generation=identity.generation,
            instance_id=identity.instance_id,
            timeout_ms=timeout_ms,
        )


class ZooKeeperOffsets:
    """Offsets in ZooKeeper, with ``offsets.storage=zookeeper``. Requests have ``zookeeper.connection.timeout.ms``."""

    def __init__(self, group_id: str, session: Callable[[], "ZnodeClient"]) -> None:
        """``session``: that of the member now; it raises ZooKeeperError if there is none."""
        self._paths = GroupPaths(group_id)
        self._session = session

    def fetch(
        self,
        partitions: Collection[TopicPartition],
        *,
        timeout_ms: float,  # noqa: ARG002 -- zookeeper.connection.timeout.ms applies
    ) -> dict[TopicPartition, int]:
        """As ``OffsetStorage.fetch``."""
        paths = {self._paths.offset(partition): partition for partition in partitions}
        try:
            found = self._session().values(paths)
        except ZooKeeperError as error:
            raise _kafka_error(error) from error
        offsets = {paths[path]: _offset(path, data) for path, data in found.items() if data}
        return {partition: offset for partition, offset in offsets.items() if offset != _NO_OFFSET}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        identity: MemberIdentity,  # noqa: ARG002 -- ZooKeeper does not know it
        *,
        timeout_ms: float,  # noqa: ARG002 -- zookeeper.connection.timeout.ms applies
    ) -> dict[TopicPartition, KafkaError]:
        """As ``OffsetStorage.commit``."""
        try:
            self._session().put({self._paths.offset(part): b"%d" % offset for part, offset in offsets.items()})
        except ZooKeeperError as error:
            raise _kafka_error(error) from error
        return {}


class SessionOffsets:
    """Offsets that are committed only while the session of the member exists: then no other member has its partitions.

    A process that was stopped for longer than the session timeout may not know yet that its session has ended. The
    coordinator does not know the members of a group in ZooKeeper, so a commit must end before its partitions move.
    """

    def __init__(
        self, offsets: OffsetStorage, session: Callable[[], "ZnodeClient"], *, longest_commit_ms: float
    ) -> None:
        """``session``: as of `ZooKeeperOffsets`. ``longest_commit_ms``: a rebalance waits longer than that."""
        self._offsets = offsets
        self._session = session
        self._longest_commit_ms = longest_commit_ms

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """As ``OffsetStorage.fetch``."""
        return self._offsets.fetch(partitions, timeout_ms=timeout_ms)

    def commit(
        self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity, *, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """As ``OffsetStorage.commit``."""
        try:
            self._session().check_session()
        except ZooKeeperError as error:
            raise _kafka_error(error) from error
        return self._offsets.commit(offsets, identity, timeout_ms=min(timeout_ms, self._longest_commit_ms))


class DualOffsets:
    """Offsets in both, with ``dual.commit.enabled``, while the members of a group change from one to the other."""

    def __init__(self, coordinator: OffsetStorage, zookeeper: OffsetStorage) -> None:
        self._coordinator = coordinator
        self._zookeeper = zookeeper

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """As ``OffsetStorage.fetch``: of two offsets the greater."""
        found = self._coordinator.fetch(partitions, timeout_ms=timeout_ms)
        for partition, offset in self._zookeeper.fetch(partitions, timeout_ms=timeout_ms).items():
            found[partition] = max(offset, found.get(partition, offset))
        return found

    def commit(
        self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity, *, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """As ``OffsetStorage.commit``, at the coordinator first."""
        errors = self._coordinator.commit(offsets, identity, timeout_ms=timeout_ms)
        accepted = {partition: offset for partition, offset in offsets.items() if partition not in errors}
        return errors | self._zookeeper.commit(accepted, identity, timeout_ms=timeout_ms)


def _offset(path: str, data: bytes) -> int:
    try:
        offset = decode_offset(data)
    except InvalidZnode as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {path}: {error}") from None
    if offset < _NO_OFFSET:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {path}: offset {offset} is negative")
    return offset


def _kafka_error(error: ZooKeeperError) -> KafkaError:
    is_lost = isinstance(error, ConnectionLost)
    return KafkaError(ErrorCode.NETWORK_EXCEPTION if is_lost else ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
