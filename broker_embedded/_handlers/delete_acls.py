"""DeleteAcls (31) v0-v3: remove ACLs; SECURITY_DISABLED, as from a Kafka without an authorizer.

v1  prefixed resource patterns (KIP-290); the response is sent before throttling
v2  flexible
v3  user resources (KIP-373)
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


@handles(DeleteAclsRequest, "0-3")
def delete_acls(request: DeleteAclsRequest, _context: RequestContext) -> DeleteAclsResponse:
    """Refuse each filter: there is no authorizer."""
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))
