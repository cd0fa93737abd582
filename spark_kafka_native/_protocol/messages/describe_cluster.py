"""DescribeCluster (60): the brokers, or the controllers, of a cluster (KIP-700).

v0  flexible from the first
v1  brokers or controllers (KIP-919)
v2  fenced brokers (KIP-1073)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, String


@struct
class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = field("2+", default=False)


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Response):
    """Cluster id, controller and nodes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2147483648


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)
