"""One module per API, request and response together, all versions in one class each.

A module is imported when something of it is asked for: each costs milliseconds, and a Spark worker needs few of them.
``REQUESTS`` imports them all.
"""

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_kafka_native.protocol.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )
    from spark_kafka_native.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from spark_kafka_native.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from spark_kafka_native.protocol.messages.alter_replica_log_dirs import (
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
    )
    from spark_kafka_native.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from spark_kafka_native.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from spark_kafka_native.protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )
    from spark_kafka_native.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from spark_kafka_native.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from spark_kafka_native.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from spark_kafka_native.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from spark_kafka_native.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from spark_kafka_native.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from spark_kafka_native.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from spark_kafka_native.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from spark_kafka_native.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
    from spark_kafka_native.protocol.messages.describe_client_quotas import (
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
    )
    from spark_kafka_native.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
    from spark_kafka_native.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from spark_kafka_native.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
    from spark_kafka_native.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
    from spark_kafka_native.protocol.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
    )
    from spark_kafka_native.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from spark_kafka_native.protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )
    from spark_kafka_native.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )
    from spark_kafka_native.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from spark_kafka_native.protocol.messages.fetch import FetchRequest, FetchResponse
    from spark_kafka_native.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from spark_kafka_native.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from spark_kafka_native.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from spark_kafka_native.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from spark_kafka_native.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from spark_kafka_native.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from spark_kafka_native.protocol.messages.list_config_resources import (
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
    )
    from spark_kafka_native.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
    from spark_kafka_native.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from spark_kafka_native.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from spark_kafka_native.protocol.messages.metadata import MetadataRequest, MetadataResponse
    from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from spark_kafka_native.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from spark_kafka_native.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from spark_kafka_native.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )
    from spark_kafka_native.protocol.messages.produce import ProduceRequest, ProduceResponse
    from spark_kafka_native.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
    from spark_kafka_native.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from spark_kafka_native.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from spark_kafka_native.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from spark_kafka_native.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from spark_kafka_native.protocol.schema import REQUESTS

__all__ = [
    "REQUESTS",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


def __getattr__(name: str) -> Any:
    if name == "REQUESTS":
        for module in pkgutil.iter_modules(__path__):
            importlib.import_module(f"{__name__}.{module.name}")
        return importlib.import_module("spark_kafka_native.protocol.schema").REQUESTS
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    api = name.removesuffix("Request").removesuffix("Response")
    module_name = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    return getattr(importlib.import_module(f"{__name__}.{module_name}"), name)
