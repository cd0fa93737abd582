"""DescribeCluster (60) v0-v2: the brokers and the controller (KIP-700).

v0  flexible
v1  brokers or controllers (KIP-919); this broker answers for brokers only
v2  fenced brokers (KIP-1073); there are none
"""

from typing import Final

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import CLUSTER_OPERATIONS, NOT_ASKED
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@handles(DescribeClusterRequest, "0-2")
def describe_cluster(
    request: DescribeClusterRequest, context: RequestContext, topics: Topics
) -> DescribeClusterResponse:
    """The cluster, which consists of this broker."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of brokers, and asks for controllers",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image, node = topics.image, context.node
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=(DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack),),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
