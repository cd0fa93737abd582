"""ListGroups (16) v0-v5: the groups of all kinds that this broker coordinates.

v4  states, and a filter by them (KIP-518)
v5  types, and a filter by them (KIP-848)
"""

from broker_embedded._coordinator.groups import Groups
from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@handles(ListGroupsRequest, "0-5")
def list_groups(request: ListGroupsRequest, _context: RequestContext, groups: Groups) -> ListGroupsResponse:
    """Id, protocol type, state and type of each group that matches the filters, which are case-insensitive."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.group_type,
            )
            for group in groups.all.values()
            if (not states or group.state_name.lower() in states) and (not types or group.group_type in types)
        )
    )
