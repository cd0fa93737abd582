"""DescribeProducers (61) v0: the active producers of partitions, and their open transactions (KIP-664).

v0  flexible

A transaction is hanging if it is open here and unknown to its coordinator.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import merge_repeated
from broker_embedded._log.append.producer_state import ProducerEntry
from broker_embedded._replica.partitions import Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from spark_kafka_native._protocol.topic import topic_name_problem


@handles(DescribeProducersRequest, "0")
def describe_producers(
    request: DescribeProducersRequest, _context: RequestContext, partitions: Partitions
) -> DescribeProducersResponse:
    """Every producer of each requested partition. A repeated partition is answered once."""
    topics = merge_repeated(request.topics, lambda topic: topic.name, joined="partition_indexes")
    return DescribeProducersResponse(topics=tuple(_of_topic(topic, partitions) for topic in topics))


def _of_topic(topic: TopicRequest, partitions: Partitions) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=tuple(_of_partition(topic.name, index, partitions) for index in topic.partition_indexes),
    )


def _of_partition(topic: str, index: int, partitions: Partitions) -> PartitionResponse:
    try:
        problem = topic_name_problem(topic)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        producers = partitions.get(topic, index).log.producers.entries
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(partition_index=index, active_producers=tuple(map(_state, producers)))


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.batches[-1].timestamp if entry.batches else entry.seen_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=-1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
    )
