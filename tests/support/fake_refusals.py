"""The response of a scripted broker to a request that it refuses: one error code for all parts of it."""

from typing import Any

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages import (
    create_topics,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
)
from spark_kafka_native.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from spark_kafka_native.protocol.messages.fetch import FetchRequest, FetchResponse
from spark_kafka_native.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from spark_kafka_native.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from spark_kafka_native.protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from spark_kafka_native.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from spark_kafka_native.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from spark_kafka_native.protocol.messages.produce import ProduceRequest, ProduceResponse
from spark_kafka_native.protocol.schema import Request, Response
from tests.support.fake_transactions import refuse_transactional


def refuse(request: Request[Any], code: ErrorCode) -> Response:
    """An answer that gives every partition or topic of ``request`` the same error code, and does nothing."""
    match request:
        case ProduceRequest():
            return ProduceResponse(
                responses=tuple(
                    produce.TopicProduceResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=tuple(
                            produce.PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                            for part in topic.partition_data
                        ),
                    )
                    for topic in request.topic_data
                )
            )
        case FetchRequest():
            return FetchResponse(
                responses=tuple(
                    fetch.FetchableTopicResponse(
                        topic=topic.topic,
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            fetch.PartitionData(partition_index=part.partition, error_code=code, high_watermark=-1)
                            for part in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
        case ListOffsetsRequest():
            return ListOffsetsResponse(
                topics=tuple(
                    list_offsets.ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=tuple(
                            list_offsets.ListOffsetsPartitionResponse(
                                partition_index=part.partition_index, error_code=code
                            )
                            for part in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
        case MetadataRequest():
            return MetadataResponse(
                brokers=(metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1),),
                topics=tuple(
                    metadata.MetadataResponseTopic(name=topic.name, error_code=code) for topic in request.topics or ()
                ),
            )
        case InitProducerIdRequest():
            return InitProducerIdResponse(error_code=code)
        case FindCoordinatorRequest():
            return FindCoordinatorResponse(
                error_code=ErrorCode.NONE if request.coordinator_keys else code,
                coordinators=tuple(
                    find_coordinator.Coordinator(key=key, error_code=code) for key in request.coordinator_keys
                ),
            )
        case OffsetFetchRequest():
            return OffsetFetchResponse(error_code=code)
        case OffsetCommitRequest():
            return OffsetCommitResponse(
                topics=tuple(
                    offset_commit.OffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            offset_commit.OffsetCommitResponsePartition(
                                partition_index=part.partition_index, error_code=code
                            )
                            for part in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
        case CreateTopicsRequest():
            return CreateTopicsResponse(
                topics=tuple(
                    create_topics.CreatableTopicResult(name=topic.name, error_code=code) for topic in request.topics
                )
            )
        case _:
            return _refuse_others(request, code)


def _refuse_others(request: Request[Any], code: ErrorCode) -> Response:
    if not isinstance(request, OffsetForLeaderEpochRequest):
        return refuse_transactional(request, code)
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    offset_for_leader_epoch.EpochEndOffset(error_code=code, partition=part.partition)
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
