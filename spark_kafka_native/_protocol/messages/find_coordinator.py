"""FindCoordinator (10): which broker coordinates a group or a transactional id.

v1  transactional ids as well as groups; error message
v2  brokers answer before they throttle
v3  flexible
v4  several keys in one request (KIP-699)
v5  TRANSACTION_ABORTABLE (KIP-890)
v6  share groups (KIP-932)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class Coordinator(Struct):
    key: String = field("4+", default="")
    node_id: Int32 = field("4+", default=0)
    host: String = field("4+", default="")
    port: Int32 = field("4+", default=0)
    error_code: Int16 = field("4+", default=0)
    error_message: String | None = field("4+", default="", ignorable=True)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Response):
    """The coordinator's address, or from v4 on one per key."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default="", ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: tuple[Coordinator, ...] = field("4+", default=())


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Look up coordinators: ``key`` up to v3, ``coordinator_keys`` from v4 on."""

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: tuple[String, ...] = field("4+", default=())
