"""CreateAcls (30) v0-v3: add ACLs; SECURITY_DISABLED, as from a Kafka without an authorizer.

v1  prefixed resource patterns (KIP-290); the response is sent before throttling
v2  flexible
v3  user resources (KIP-373)
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@handles(CreateAclsRequest, "0-3")
def create_acls(request: CreateAclsRequest, _context: RequestContext) -> CreateAclsResponse:
    """Refuse each ACL: there is no authorizer."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return CreateAclsResponse(results=(refused,) * len(request.creations))
