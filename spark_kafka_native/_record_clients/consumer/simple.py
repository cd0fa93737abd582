"""The simple consumer: ``spark_kafka_native.clients.SimpleConsumer``."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from spark_kafka_native._client.admin.committed_offsets import (
    OffsetAndMetadata,
    commit_offsets,
    fetch_offsets,
    find_coordinator,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, Node
from spark_kafka_native._client.config import READ_COMMITTED
from spark_kafka_native._client.config_def import INT32_MAX, INT64_MAX
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_before
from spark_kafka_native._client.consumer.stateless_fetch import FetchPosition, fetch_records
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.arguments import check_integer, check_partition, check_text, check_topic
from spark_kafka_native._record_clients.consumer.fetches import FetchRequest, FetchResult
from spark_kafka_native._record_clients.consumer.simple_config import SimpleConsumerConfig
from spark_kafka_native._record_clients.errors import ClientClosed


class SimpleConsumer:
    """Reads partitions from given offsets on, and keeps no state between calls. Threads may share it.

    ::

        with SimpleConsumer({"bootstrap.servers": "localhost:9092"}) as consumer:
            result = consumer.fetch(FetchRequest("events", partition=0, offset=0))
            for record in result.records:
                print(record.offset, record.value)
            print("continue at", result.next_offset)

    ``options`` are Kafka's consumer properties; docs/options.md lists their older names. Requests go to the leaders of
    their partitions. Leaders that have moved and broken connections are retried until ``default.api.timeout.ms``.
    """

    LATEST_TIME: Final = LATEST
    EARLIEST_TIME: Final = EARLIEST

    def __init__(self, options: Mapping[str, object], *, broker_id: int | None = None) -> None:
        """Does not connect yet. ``broker_id``: read from the replicas on this broker, not from the leaders.

        Raises ConfigError naming the option.
        """
        config = SimpleConsumerConfig.parse(options)
        if broker_id is not None and config.client.broker_addresses == "bootstrap":
            raise ConfigError("broker.addresses", "bootstrap cannot be combined with broker_id: any broker may respond")
        self._broker_id = None if broker_id is None else check_integer("broker_id", broker_id, 0, INT32_MAX)
        self._discovery = config.discovery.discovery()
        self._cluster = Cluster(config.client, discovery=self._discovery)
        self._calls = itertools.count()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calls of other threads are not ended; they have their timeouts."""
        self._is_closed = True
        self._cluster.close()
        if self._discovery is not None:
            self._discovery.close()

    # --- records

    def fetch(self, request: FetchRequest) -> FetchResult:
        """Records of one partition. Empty if it has none at or after the offset within ``fetch.max.wait.ms``.

        Raises KafkaError naming the partition; OffsetOutOfRange has the earliest and the latest offset;
        BrokerUnreachable.
        """
        (result,) = self.multifetch([request])
        if result.error is not None:
            raise result.error
        return result

    def multifetch(self, requests: Iterable[FetchRequest]) -> list[FetchResult]:
        """Records of several partitions, in the order of ``requests``: one request per broker, to all at once.

        The error of a partition is in its result, and the other partitions have their records. The call returns when
        each partition has a result, within ``default.api.timeout.ms``. A partition that is requested several times gets
        as many requests, one after the other.

        Decoded records take 50 MB in all, or ``fetch.max.bytes`` or a request's ``max_bytes`` if that is more, and at
        most one batch besides. Partitions beyond that have no records and keep their offset; which they are changes
        from call to call.
        """
        cluster, wanted = self._usable(), _list("requests", requests)
        indexes: dict[TopicPartition, list[int]] = {}
        for index, request in enumerate(wanted):
            if not isinstance(request, FetchRequest):
                raise TypeError(f"a request must be a FetchRequest, not {type(request).__name__}")
            indexes.setdefault(request.check(), []).append(index)
        results: dict[int, FetchResult] = {}
        deadline = cluster.deadline()
        for turn in range(max(map(len, indexes.values()), default=0)):
            asked = {partition: where[turn] for partition, where in indexes.items() if turn < len(where)}
            order = _rotated(list(asked), next(self._calls))
            positions = {partition: self._position(wanted[asked[partition]]) for partition in order}
            found = fetch_records(cluster, positions, deadline, broker_id=self._broker_id)
            results |= {index: FetchResult.of(wanted[index], found[part]) for part, index in asked.items()}
        return [results[index] for index in range(len(wanted))]

    # --- offsets

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int = 1) -> list[int]:
        """At most ``max_offsets`` offsets to begin at, in descending order.

        ``time_ms``: milliseconds since 1970, LATEST_TIME or EARLIEST_TIME. The offsets are the first ones of the log's
        segments that were last written at or before it; before them the high watermark, with LATEST_TIME or a time
        that is not before the broker's clock. With EARLIEST_TIME it is the log start offset alone. The list is empty if
        no segment is that old.

        Brokers from Kafka 4.0 on do not list segments (KIP-896). There the list has one or two offsets: that of the
        first record with a timestamp at or after ``time_ms``, or the high watermark if there is none; and the log start
        offset. Raises KafkaError naming the partition; BrokerUnreachable.
        """
        topic_partition = check_partition((topic, partition))
        check_integer("time_ms", time_ms, EARLIEST, INT64_MAX)
        check_integer("max_offsets", max_offsets, 1, INT32_MAX)
        return offsets_before(self._usable(), topic_partition, time_ms, max_offsets, broker_id=self._broker_id)

    def find_coordinator(self, group_id: str) -> Node:
        """The broker that keeps the offsets of a group. Raises KafkaError naming the group; BrokerUnreachable."""
        return find_coordinator(self._usable(), check_text("group_id", group_id))

    def commit_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], OffsetAndMetadata | int]) -> None:
        """Commit the offsets at which the group's next consumer is to begin: (topic, partition) -> offset.

        Raises KafkaError naming the group and partition, also for a group with active members; BrokerUnreachable. The
        offsets of other partitions may have been committed then.
        """
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets must be a mapping of partitions to offsets, not {type(offsets).__name__}")
        commits = {check_partition(partition): _committed(offset) for partition, offset in offsets.items()}
        commit_offsets(self._usable(), check_text("group_id", group_id), commits)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group, of ``partitions`` or of all. Partitions without one are left out.

        Brokers before Kafka 0.10.2 need ``partitions``.
        With ``isolation.level=read_committed`` it waits for transactions that are about to commit offsets (KIP-447).
        Raises KafkaError naming the group; BrokerUnreachable.
        """
        wanted = (
            None
            if partitions is None
            else [check_partition(partition) for partition in _list("partitions", partitions)]
        )
        stable = self._cluster.config.isolation_level == READ_COMMITTED
        return fetch_offsets(self._usable(), check_text("group_id", group_id), wanted, require_stable=stable)

    # --- metadata

    def metadata(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        """The brokers, and the partitions and leaders of ``topics``, or of all topics.

        Raises KafkaError naming the topic; BrokerUnreachable.
        """
        names = None if topics is None else [check_topic(topic) for topic in _list("topics", topics)]
        return self._usable().metadata(names)

    # --- inside

    def _position(self, request: FetchRequest) -> FetchPosition:
        default = self._cluster.config.max_partition_fetch_bytes
        return FetchPosition(request.offset, default if request.max_bytes is None else request.max_bytes)

    def _usable(self) -> Cluster:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        return self._cluster


def _rotated(partitions: list[TopicPartition], by: int) -> list[TopicPartition]:
    """Another partition first in each call, because the first ones get the memory of a call."""
    start = by % max(len(partitions), 1)
    return partitions[start:] + partitions[:start]


def _list(name: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list, not {type(values).__name__}")
    return list(values)


def _committed(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    found = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset=offset)
    check_integer("offset", found.offset, 0, INT64_MAX)
    check_integer("leader_epoch", found.leader_epoch, -1, INT32_MAX)
    check_text("metadata", found.metadata)
    return found
