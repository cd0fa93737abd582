"""DeleteGroups (42) v0-v2: delete empty groups and their offsets."""

from broker_embedded._coordinator.groups import Groups
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(DeleteGroupsRequest, "0-2")
async def delete_groups(request: DeleteGroupsRequest, _context: RequestContext, groups: Groups) -> DeleteGroupsResponse:
    """One result per group id. A repeated id is answered once."""
    codes = dict.fromkeys(request.groups_names, ErrorCode.NONE)
    for group_id in codes:
        try:
            await groups.delete(group_id)
        except KafkaError as error:
            codes[group_id] = error.code
    return DeleteGroupsResponse(
        results=tuple(DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in codes.items())
    )
