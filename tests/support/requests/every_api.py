"""For each API that the broker serves a request that does something, in any version.

`offered_by_real_brokers`: the versions of each API in the releases of Apache Kafka.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import UUID

from spark_kafka_native._protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from spark_kafka_native._protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from spark_kafka_native._protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from spark_kafka_native._protocol.messages.create_acls import CreateAclsRequest
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_acls import DeleteAclsRequest
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from spark_kafka_native._protocol.messages.describe_acls import DescribeAclsRequest
from spark_kafka_native._protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from spark_kafka_native._protocol.messages.describe_cluster import DescribeClusterRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from spark_kafka_native._protocol.messages.describe_producers import DescribeProducersRequest
from spark_kafka_native._protocol.messages.describe_producers import TopicRequest as ProducersTopic
from spark_kafka_native._protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartitionData,
    RequestedTopicData,
)
from spark_kafka_native._protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from spark_kafka_native._protocol.messages.describe_topic_partitions import TopicRequest as PartitionsTopic
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from spark_kafka_native._protocol.messages.elect_leaders import ElectLeadersRequest
from spark_kafka_native._protocol.messages.elect_leaders import TopicPartitions as ElectedPartitions
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.list_config_resources import ListConfigResourcesRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from spark_kafka_native._protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.offset_delete import OffsetDeleteRequest
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.unregister_broker import UnregisterBrokerRequest
from spark_kafka_native._protocol.messages.update_features import UpdateFeaturesRequest
from spark_kafka_native._protocol.schema import Request
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.driver import batch
from tests.support.broker.quotas import entry
from tests.support.requests.consumer_group import first_heartbeat
from tests.support.requests.of_topic import add_partitions_to_txn, delete_records, list_offsets, write_txn_markers

_TOPIC_RESOURCE: Final = 2
_ANY: Final = 1
_UNKNOWN_PRODUCER: Final[dict[str, Any]] = {"transactional_id": "unknown", "producer_id": 7, "producer_epoch": 0}


class Asking(NamedTuple):
    """What a request depends on: its version, the id of topic t, and the name of another topic."""

    version: int
    topic_id: UUID
    name: str

    def topic(self, ids_since: int, word: str = "name") -> dict[str, Any]:
        """Topic t, by id from a version on."""
        return {"topic_id": self.topic_id} if self.version >= ids_since else {word: "t"}


def _produce(asking: Asking) -> Request[Any]:
    records = batch(b"x")
    if asking.version < 3:
        records = write_message_set([LogRecord(0, 1_700_000_000_000, None, b"x")], magic=max(0, asking.version - 1))
    data = (PartitionProduceData(index=0, records=records),)
    return ProduceRequest(acks=-1, topic_data=(TopicProduceData(**asking.topic(13), partition_data=data),))


def _fetch(asking: Asking) -> Request[Any]:
    parts = (FetchPartition(partition=0, partition_max_bytes=1000),)
    return FetchRequest(topics=(FetchTopic(**asking.topic(13, "topic"), partitions=parts),))


def _offset_commit(asking: Asking) -> Request[Any]:
    parts = (OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    return OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(**asking.topic(10), partitions=parts),))


def _offset_fetch(asking: Asking) -> Request[Any]:
    if asking.version < 8:
        old = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
        return OffsetFetchRequest(group_id="g", topics=old)
    new = (OffsetFetchRequestTopics(**asking.topic(10), partition_indexes=(0,)),)
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=new),))


def _txn_offset_commit(_: Asking) -> Request[Any]:
    parts = (TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    topics = (TxnOffsetCommitRequestTopic(name="t", partitions=parts),)
    return TxnOffsetCommitRequest(transactional_id="unknown", group_id="g", topics=topics)


def _find_coordinator(asking: Asking) -> Request[Any]:
    many = asking.version >= 4
    return FindCoordinatorRequest(coordinator_keys=("g",)) if many else FindCoordinatorRequest(key="g")


def _join_group(asking: Asking) -> Request[Any]:
    return JoinGroupRequest(
        group_id=f"join-{asking.version}",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000 if asking.version else -1,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
    )


def _leave_group(asking: Asking) -> Request[Any]:
    if asking.version < 3:
        return LeaveGroupRequest(group_id="g", member_id="unknown")
    return LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="unknown"),))


def _sync_group(asking: Asking) -> Request[Any]:
    named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if asking.version >= 5 else {}
    return SyncGroupRequest(group_id="g", member_id="unknown", **named)


def _delete_topics(asking: Asking) -> Request[Any]:
    if asking.version < 6:
        return DeleteTopicsRequest(topic_names=(asking.name,))
    return DeleteTopicsRequest(topics=(DeleteTopicState(name=asking.name),))


def _leader_epoch(_: Asking) -> Request[Any]:
    parts = (OffsetForLeaderPartition(partition=0, leader_epoch=0),)
    return OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=parts),))


def _describe_configs(_: Asking) -> Request[Any]:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name="t", configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(resources=(resource,))


def _alter_configs(_: Asking) -> Request[Any]:
    config = alter_configs.AlterableConfig(name="retention.ms", value="5000")
    resource = alter_configs.AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name="t", configs=(config,))
    return alter_configs.AlterConfigsRequest(resources=(resource,))


def _incremental_alter_configs(_: Asking) -> Request[Any]:
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", value="6000")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name="t", configs=(config,)
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))


def _describe_quorum(_: Asking) -> Request[Any]:
    parts = (RequestedPartitionData(partition_index=0),)
    return DescribeQuorumRequest(topics=(RequestedTopicData(topic_name="__cluster_metadata", partitions=parts),))


def _consumer_heartbeat(asking: Asking) -> Request[Any]:
    return first_heartbeat(f"member-{asking.version}" if asking.version else "", f"consumers-{asking.version}")


GOOD_REQUESTS: Final[dict[int, Callable[[Asking], Request[Any]]]] = {
    0: _produce,
    1: _fetch,
    2: lambda _: list_offsets("t", -1),
    3: lambda _: MetadataRequest(topics=(MetadataRequestTopic(name="t"),)),
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    12: lambda _: HeartbeatRequest(group_id="g", member_id="unknown"),
    13: _leave_group,
    14: _sync_group,
    15: lambda _: DescribeGroupsRequest(groups=("g",)),
    16: lambda _: ListGroupsRequest(),
    17: lambda _: SaslHandshakeRequest(mechanism="PLAIN"),
    18: lambda _: ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    19: lambda asking: CreateTopicsRequest(
        topics=(CreatableTopic(name=asking.name, num_partitions=1, replication_factor=1),)
    ),
    20: _delete_topics,
    21: lambda _: delete_records("t", 0),
    22: lambda _: InitProducerIdRequest(transactional_id=None),
    23: _leader_epoch,
    24: lambda asking: add_partitions_to_txn("t", version=asking.version, **_UNKNOWN_PRODUCER),
    25: lambda _: AddOffsetsToTxnRequest(group_id="g", **_UNKNOWN_PRODUCER),
    26: lambda _: EndTxnRequest(committed=True, **_UNKNOWN_PRODUCER),
    27: lambda _: write_txn_markers("t", producer_id=7),
    28: _txn_offset_commit,
    29: lambda _: DescribeAclsRequest(resource_type_filter=_ANY, operation=_ANY, permission_type=_ANY),
    30: lambda _: CreateAclsRequest(),
    31: lambda _: DeleteAclsRequest(),
    32: _describe_configs,
    33: _alter_configs,
    34: lambda _: AlterReplicaLogDirsRequest(),
    35: lambda _: DescribeLogDirsRequest(topics=None),
    36: lambda _: SaslAuthenticateRequest(),
    37: lambda asking: CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=asking.name, count=2, assignments=None),)
    ),
    42: lambda _: DeleteGroupsRequest(groups_names=("no such group",)),
    43: lambda _: ElectLeadersRequest(topic_partitions=(ElectedPartitions(topic="t", partitions=(0,)),)),
    44: _incremental_alter_configs,
    45: lambda _: AlterPartitionReassignmentsRequest(),
    46: lambda _: ListPartitionReassignmentsRequest(),
    47: lambda _: OffsetDeleteRequest(group_id="g"),
    48: lambda _: DescribeClientQuotasRequest(),
    49: lambda _: AlterClientQuotasRequest(
        entries=(entry({"user": "ann"}, producer_byte_rate=1e9),), validate_only=True
    ),
    50: lambda _: DescribeUserScramCredentialsRequest(),
    51: lambda _: AlterUserScramCredentialsRequest(),
    55: _describe_quorum,
    57: lambda _: UpdateFeaturesRequest(),
    60: lambda _: DescribeClusterRequest(),
    61: lambda _: DescribeProducersRequest(topics=(ProducersTopic(name="t", partition_indexes=(0,)),)),
    64: lambda _: UnregisterBrokerRequest(broker_id=7),
    65: lambda _: DescribeTransactionsRequest(transactional_ids=("unknown",)),
    66: lambda _: ListTransactionsRequest(),
    68: _consumer_heartbeat,
    69: lambda _: ConsumerGroupDescribeRequest(group_ids=("consumers-0",)),
    74: lambda _: ListConfigResourcesRequest(),
    75: lambda _: DescribeTopicPartitionsRequest(topics=(PartitionsTopic(name="t"),)),
}
"""By API key. Topic t has one partition at least; the other topic is there already for DeleteTopics and
CreatePartitions.
"""


@functools.cache
def offered_by_real_brokers() -> dict[str, dict[int, tuple[int, int]]]:
    """First and last version by API key, by release, the oldest first."""
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

    return {
        ".".join(map(str, release)): {int(key): versions for key, versions in table.items()}
        for release, table in BROKER_API_VERSIONS.items()
    }
