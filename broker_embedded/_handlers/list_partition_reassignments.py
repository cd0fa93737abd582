"""ListPartitionReassignments (46) v0: ongoing reassignments (KIP-455); there are none.

v0  flexible
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ListPartitionReassignmentsRequest, "0")
def list_partition_reassignments(
    _request: ListPartitionReassignmentsRequest, _context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """No reassignments."""
    return ListPartitionReassignmentsResponse(error_message=None)
