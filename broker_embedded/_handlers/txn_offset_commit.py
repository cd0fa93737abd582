"""TxnOffsetCommit (28) v0-v5: store offsets of a group that take effect when a transaction is committed (KIP-98).

v2  leader epochs (KIP-320)
v3  member, generation and instance (KIP-447); older versions do not check the member
v4  TRANSACTION_ABORTABLE where the group's offsets are not part of the transaction; before it, INVALID_TXN_STATE
v5  adds the group's partition to the transaction, so that AddOffsetsToTxn is not necessary (KIP-890)

The response is sent once the commit is in the log of ``__consumer_offsets``. If the transaction is open in that log, it
was verified before. If not, it is verified now, and the transactional id's lock is held until the commit is in the log,
so that no marker is written between.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._groups.offsets import OffsetCommit
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.image import ClusterImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

_ABORTABLE_SINCE: Final = 4
_ADDS_SINCE: Final = 5


@handles(TxnOffsetCommitRequest, "0-5")
async def txn_offset_commit(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    configs: DynamicConfigs,
    shielded_tasks: ShieldedTasks,
    groups: Groups,
    topics: Topics,
    transactions: Transactions,
) -> TxnOffsetCommitResponse:
    """Commit the offsets; an error code per partition."""
    image = topics.image
    existing = [_that_exist(topic, image) for topic in request.topics]
    commits = [commit for topic in existing for commit in _commits(topic, image)]
    known = dataclasses.replace(request, topics=tuple(topic for topic in existing if topic.partitions))
    codes: Mapping[TopicPartition, ErrorCode] = {}
    try:
        if commits:
            verifies = configs.config.transaction_partition_verification_enable
            work = _commit(known, commits, context.version, groups, transactions, verifies=verifies)
            codes = await shielded_tasks.run(work)
    except KafkaError as error:
        codes = dict.fromkeys((commit.partition for commit in commits), _code_in(error.code, context.version))
    return TxnOffsetCommitResponse(topics=tuple(_response(topic, codes) for topic in request.topics))


async def _commit(
    request: TxnOffsetCommitRequest,
    commits: Sequence[OffsetCommit],
    version: int,
    groups: Groups,
    transactions: Transactions,
    *,
    verifies: bool,
) -> Mapping[TopicPartition, ErrorCode]:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    transactional_id = request.transactional_id
    producer = ProducerIdAndEpoch(producer_id=request.producer_id, epoch=request.producer_epoch)
    await groups.make_ready()
    if groups.log.is_in_transaction(request.group_id, producer):
        return await groups.commit_in_transaction(request, commits, verified=False)
    adds = version >= _ADDS_SINCE
    if not adds and not verifies:
        return await groups.commit_in_transaction(request, commits, verified=True)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    kept_in = {groups.log.partition_of(request.group_id)}
    async with transactions.lock(transactional_id):
        if adds:
            await transactions.add_partitions_locked(transactional_id, producer, kept_in, TransactionVersion.TV_2)
        else:
            transactions.check_partitions(transactional_id, producer, kept_in)
        return await groups.commit_in_transaction(request, commits, verified=True)


def _code_in(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _that_exist(topic: TxnOffsetCommitRequestTopic, image: ClusterImage) -> TxnOffsetCommitRequestTopic:
    meant = image.topic(topic.name)
    partitions = (part for part in topic.partitions if meant is not None and meant.partition(part.partition_index))
    return dataclasses.replace(topic, partitions=tuple(partitions))


def _commits(topic: TxnOffsetCommitRequestTopic, image: ClusterImage) -> list[OffsetCommit]:
    return [
        OffsetCommit(
            partition=TopicPartition(topic.name, part.partition_index),
            topic_id=image.topics[topic.name].topic_id,
            offset=part.committed_offset,
            leader_epoch=part.committed_leader_epoch,
            metadata=part.committed_metadata or "",
        )
        for part in topic.partitions
    ]


def _response(
    topic: TxnOffsetCommitRequestTopic, codes: Mapping[TopicPartition, ErrorCode]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=tuple(
            TxnOffsetCommitResponsePartition(
                partition_index=part.partition_index,
                error_code=codes.get(
                    TopicPartition(topic.name, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ),
            )
            for part in topic.partitions
        ),
    )
