"""DeleteRecords: delete the records of partitions before an offset."""

from collections.abc import Iterator, Mapping, Sequence

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, ask_leaders
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before an offset (-1: the high watermark), per partition; the first offset that each has now.

    Raises KafkaError naming the partition: its offset is out of range, or its topic's policy forbids it. Records of
    other partitions may be gone then.
    """
    timeout_ms = min(cluster.config.default_api_timeout_ms, cluster.config.request_timeout_ms)

    def request(
        partitions: Sequence[TopicPartition], _leaders: Leaders, _connection: Connection
    ) -> DeleteRecordsRequest:
        topics = tuple(
            DeleteRecordsTopic(
                name=name,
                partitions=tuple(
                    DeleteRecordsPartition(partition_index=part.partition, offset=before[part]) for part in parts
                ),
            )
            for name, parts in by_topic(partitions).items()
        )
        return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)

    def results(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
        for topic in response.topics:
            for result in topic.partitions:
                partition, code = TopicPartition(topic.name, result.partition_index), ErrorCode.of(result.error_code)
                if code is ErrorCode.NONE:
                    yield partition, result.low_watermark
                else:
                    detail = f"{partition}, records before {before.get(partition)}"
                    yield partition, KafkaError(code, detail, operation="DELETE")

    return ask_leaders(cluster, list(before), request, results)
