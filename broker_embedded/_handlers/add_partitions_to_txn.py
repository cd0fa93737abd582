"""AddPartitionsToTxn (24) v0-v5: add partitions to a transaction before records are written to them (KIP-98).

v2  PRODUCER_FENCED; before it, INVALID_PRODUCER_EPOCH
v3  flexible; the last version that clients send
v4  several transactions, and verifying without adding: between brokers (KIP-890)
v5  TRANSACTION_ABORTABLE

If one partition of a transaction does not exist, none is added: the other ones are OPERATION_NOT_ATTEMPTED. Up to v3
internal topics are TOPIC_AUTHORIZATION_FAILED, because clients must not add them.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import producer_error_code
from broker_embedded._replica.partitions import Partitions
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition

_FENCED_SINCE: Final = 2
_BATCHES_SINCE: Final = 4


@handles(AddPartitionsToTxnRequest, "0-5")
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext, partitions: Partitions, transactions: Transactions
) -> AddPartitionsToTxnResponse:
    """Add the partitions to each transaction, or verify that they are in it."""
    if context.version >= _BATCHES_SINCE:
        return AddPartitionsToTxnResponse(
            results_by_transaction=tuple(
                [
                    AddPartitionsToTxnResult(
                        transactional_id=transaction.transactional_id,
                        topic_results=await _results(transaction, context, partitions, transactions),
                    )
                    for transaction in request.transactions
                ]
            )
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _results(only, context, partitions, transactions)
    )


async def _results(
    transaction: AddPartitionsToTxnTransaction,
    context: RequestContext,
    partitions: Partitions,
    transactions: Transactions,
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    wanted = {TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions}
    refused = {partition: code for partition in wanted if (code := _refusal(partition, context, partitions))}
    if refused:
        codes = {partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in wanted}
    else:
        try:
            codes = await _add_or_verify(transaction, wanted, context, transactions)
        except KafkaError as error:
            codes = dict.fromkeys(wanted, producer_error_code(error, context.version, fenced_since=_FENCED_SINCE))
    return _by_topic(transaction.topics, codes)


def _refusal(partition: TopicPartition, context: RequestContext, partitions: Partitions) -> ErrorCode | None:
    if context.version < _BATCHES_SINCE and partition.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None if partitions.has(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _add_or_verify(
    transaction: AddPartitionsToTxnTransaction,
    wanted: AbstractSet[TopicPartition],
    context: RequestContext,
    transactions: Transactions,
) -> dict[TopicPartition, ErrorCode]:
    """An error code per partition. Raises KafkaError for all of them."""
    name = transaction.transactional_id
    producer = ProducerIdAndEpoch(producer_id=transaction.producer_id, epoch=transaction.producer_epoch)
    if not transaction.verify_only:
        between_brokers = context.version >= _BATCHES_SINCE
        version = TransactionVersion.TV_2 if between_brokers else TransactionVersion.TV_0
        await transactions.add_partitions(name, producer, wanted, version)
        return dict.fromkeys(wanted, ErrorCode.NONE)
    outside = transactions.missing_partitions(name, producer, wanted)
    return {
        partition: ErrorCode.TRANSACTION_ABORTABLE if partition in outside else ErrorCode.NONE for partition in wanted
    }


def _by_topic(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
