"""JoinGroup (11) v0-v9: join a classic group, or rejoin it.

v0     the session timeout is the rebalance timeout too
v1     rebalance timeout
v4     a new member first gets its id, with MEMBER_ID_REQUIRED (KIP-394)
v5     static members (KIP-345)
v7     protocol type in the response, no protocol instead of an empty one (KIP-559)
v8     the reason why a member joins (KIP-800)
v9     skip_assignment for the leader (KIP-814)

The response is sent when all members have joined, or the rebalance timeout has passed.
"""

import dataclasses
import uuid
from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups import decisions
from broker_embedded._groups.classic.join import JoinContext
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_REBALANCE_TIMEOUT_SINCE: Final = 1
_NO_PROTOCOL_SINCE: Final = 7


@handles(JoinGroupRequest, "0-9")
async def join_group(request: JoinGroupRequest, context: RequestContext, groups: Groups) -> JoinGroupResponse:
    """Join, and wait for the rebalance to complete."""
    if context.version < _REBALANCE_TIMEOUT_SINCE:
        request = dataclasses.replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    join_context = JoinContext(
        version=context.version,
        client_id=context.client_id,
        client_host=context.client_host,
        fresh_id=str(uuid.uuid4()),
        request_id=groups.new_request_id(),
    )
    try:
        response = await groups.apply(
            request.group_id,
            lambda group, now_ms: decisions.join(group, request, join_context, groups.context.classic, now_ms),
        )
    except KafkaError as error:
        response = JoinGroupResponse(error_code=error.code)
    if not response.protocol_name:
        return dataclasses.replace(response, protocol_name=None if context.version >= _NO_PROTOCOL_SINCE else "")
    return response
