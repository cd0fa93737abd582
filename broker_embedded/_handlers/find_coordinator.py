"""FindCoordinator (10) v0-v6: the broker that holds the state of a group or of a transactional id.

v1  key types: 0 a group, 1 a transactional id
v4  several keys (KIP-699)
v6  key type 2, a share group (KIP-932)

Groups are stored in ``__consumer_offsets``, transactional ids in ``__transaction_state``. The first request creates the
topic, as in Kafka. Share groups and unknown types are INVALID_REQUEST.
"""

from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.image import BrokerNode
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MANY_KEYS_SINCE: Final = 4
_NO_NODE: Final = -1


@handles(FindCoordinatorRequest, "0-6")
async def find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext, groups: Groups, transactions: Transactions
) -> FindCoordinatorResponse:
    """One coordinator per key. A repeated key is answered once."""
    many = context.version >= _MANY_KEYS_SINCE
    keys = dict.fromkeys(request.coordinator_keys) if many else (request.key,)
    found = tuple([await _find(key, request.key_type, context.node, groups, transactions) for key in keys])
    if many:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find(key: str, key_type: int, node: BrokerNode, groups: Groups, transactions: Transactions) -> Coordinator:
    try:
        if key_type == _TRANSACTION:
            await transactions.make_ready()
        elif key_type == _GROUP:
            await groups.make_ready()
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are not known.")
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=_NO_NODE, host="", port=-1, error_code=error.code, error_message=error.detail or None
        )
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None)
