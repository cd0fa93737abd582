"""DeleteAcls (31): remove access rules that match filters.

v1  prefixed resource patterns (KIP-290); brokers answer before they throttle
v2  flexible
v3  user resources (KIP-373)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field("1+", default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse(Response):
    """One result per filter, with the rules that are gone."""

    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


@struct
class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest(Request[DeleteAclsResponse]):
    filters: tuple[DeleteAclsFilter, ...] = ()
