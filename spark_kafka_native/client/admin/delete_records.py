"""DeleteRecords: delete the records of partitions before an offset."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.leaders import Leaders, PartitionErrors, ask_leaders
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from spark_kafka_native.protocol.topic import TopicPartition, by_topic

HIGH_WATERMARK: Final = -1
"""Instead of an offset: everything that consumers may have read by now."""


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
) -> dict[TopicPartition, int]:
    """Delete the records before an offset, per partition; the first offset that each has now.

    Raises KafkaError naming the partition: its offset is out of range, or its topic's policy forbids it. Records of
    other partitions may be gone then.
    """
    patience_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    query = _Deletion(before, round(min(patience_ms, cluster.config.request_timeout_ms)))
    return ask_leaders(cluster, list(before), query, timeout_ms=timeout_ms)


@dataclasses.dataclass(frozen=True, slots=True)
class _Deletion:
    """DeleteRecords for ``ask_leaders``."""

    before: Mapping[TopicPartition, int]
    timeout_ms: int

    def request(
        self, partitions: Sequence[TopicPartition], _leaders: Leaders, _connection: Connection
    ) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(name=name, partitions=tuple(map(self._requested, parts)))
                for name, parts in by_topic(partitions).items()
            ),
            timeout_ms=self.timeout_ms,
        )

    def _requested(self, partition: TopicPartition) -> DeleteRecordsPartition:
        return DeleteRecordsPartition(partition_index=partition.partition, offset=self.before[partition])

    def take(self, response: DeleteRecordsResponse, found: dict[TopicPartition, int]) -> PartitionErrors:
        errors: PartitionErrors = {}
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                code = ErrorCode.of(result.error_code)
                if code is ErrorCode.NONE:
                    found[partition] = result.low_watermark
                else:
                    errors[partition] = KafkaError(code, f"{partition}, records before {self.before.get(partition)}")
        return errors
