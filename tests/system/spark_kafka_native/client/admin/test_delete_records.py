from collections.abc import Iterator

import pytest

from spark_kafka_native._client.admin.delete_records import delete_records
from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.steps import Drop, Respond

T = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    versions = {**KAFKA_4_3, DeleteRecordsRequest.api_key: (0, 2)}
    with ScriptedCluster(brokers=3, topics={"t": 3}, versions=versions) as running:
        yield running


def answered(code: ErrorCode = ErrorCode.NONE) -> Respond:
    """Every partition asked about now starts where it was asked to, or at 100 for the high watermark."""

    def make(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        DeleteRecordsPartitionResult(
                            partition_index=part.partition_index,
                            low_watermark=100 if part.offset < 0 else part.offset,
                            error_code=code,
                        )
                        for part in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    return Respond(make)


def test_each_leader_gets_one_request_for_all_of_its_partitions(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DeleteRecordsRequest, answered(), answered(), answered())
    assert delete_records(cluster, {T[0]: 5, T[1]: -1, T[2]: 7}) == {T[0]: 5, T[1]: 100, T[2]: 7}
    assert len(brokers.requests(DeleteRecordsRequest)) == 3


def test_partitions_that_succeeded_before_an_error_are_not_requested_again(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.script(DeleteRecordsRequest, answered(), Drop(), answered(), answered())
    assert delete_records(cluster, {T[0]: 5, T[1]: 6, T[2]: 7}) == {T[0]: 5, T[1]: 6, T[2]: 7}
    asked = [part.partition_index for r in brokers.requests(DeleteRecordsRequest) for part in r.topics[0].partitions]
    assert (len(asked), len(set(asked))) == (4, 3)


def test_a_leader_that_has_moved_is_looked_up_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DeleteRecordsRequest, answered(ErrorCode.NOT_LEADER_OR_FOLLOWER), answered())
    assert delete_records(cluster, {T[0]: 5}) == {T[0]: 5}


def test_a_partition_missing_from_the_response_is_requested_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DeleteRecordsRequest, Respond(lambda _: DeleteRecordsResponse()), answered())
    assert delete_records(cluster, {T[0]: 5}) == {T[0]: 5}
    assert len(brokers.requests(DeleteRecordsRequest)) == 2


def test_an_unknown_topic_is_an_error_without_retries(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match=r"topic missing.*\(UNKNOWN_TOPIC_OR_PARTITION, "):
        delete_records(cluster, {TopicPartition("missing", 0): 5})
    assert len(brokers.requests(MetadataRequest)) == UNKNOWN_TOPIC_TRIES


def test_an_offset_out_of_range_names_the_partition(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DeleteRecordsRequest, answered(ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaError, match="t-0, records before 9000"):
        delete_records(cluster, {T[0]: 9000})
