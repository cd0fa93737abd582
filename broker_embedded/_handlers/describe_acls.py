"""DescribeAcls (29) v0-v3: list ACLs; SECURITY_DISABLED, as from a Kafka without an authorizer.

v1  prefixed resource patterns (KIP-290); the response is sent before throttling
v2  flexible
v3  user resources (KIP-373)
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


@handles(DescribeAclsRequest, "0-3")
def describe_acls(_request: DescribeAclsRequest, _context: RequestContext) -> DescribeAclsResponse:
    """Refuse: there is no authorizer."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
