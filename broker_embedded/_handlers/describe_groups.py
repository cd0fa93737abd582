"""DescribeGroups (15) v0-v6: classic groups and their members.

v3  authorized operations (KIP-430): all of them, because there is no authorizer
v4  static members (KIP-345)
v6  GROUP_ID_NOT_FOUND, with a message, instead of a group in state Dead (KIP-1043)
"""

import dataclasses
from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups.classic.group import ClassicGroup
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import GROUP_OPERATIONS
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_SINCE: Final = 6
_DEAD: Final = "Dead"


@handles(DescribeGroupsRequest, "0-6")
def describe_groups(request: DescribeGroupsRequest, context: RequestContext, groups: Groups) -> DescribeGroupsResponse:
    """One description per group id. A repeated id is answered once."""
    described = (_describe(groups, group_id, context.version) for group_id in dict.fromkeys(request.groups))
    if request.include_authorized_operations:
        described = (
            group if group.error_code else dataclasses.replace(group, authorized_operations=GROUP_OPERATIONS)
            for group in described
        )
    return DescribeGroupsResponse(groups=tuple(described))


def _describe(groups: Groups, group_id: str, version: int) -> DescribedGroup:
    group = groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group.described()
    if version < _NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state=_DEAD)
    problem = "not found" if group is None else "not a classic group"
    return DescribedGroup(
        group_id=group_id,
        group_state=_DEAD,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {problem}.",
    )
