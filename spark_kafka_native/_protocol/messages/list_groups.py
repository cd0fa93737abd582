"""ListGroups (16): the groups that a broker coordinates.

v1  throttle time
v2  brokers answer before they throttle
v3  flexible
v4  filter by state (KIP-518)
v5  filter by type (KIP-848)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, String


@struct
class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field("4+", default="", ignorable=True)
    group_type: String = field("5+", default="", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Response):
    """Id, protocol type, state and type of each group."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Ask for groups; empty filters let all through."""

    states_filter: tuple[String, ...] = field("4+", default=())
    types_filter: tuple[String, ...] = field("5+", default=())
