"""DescribeQuorum (55) v0-v2: the quorum of the metadata log (KIP-595): this broker alone.

v0  flexible
v1  times of the last fetch and of the last catch-up (KIP-836)
v2  directories, listeners and error messages (KIP-853)

This broker has no metadata log. The offsets count the changes of topics since the broker's start.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.controller import METADATA_TOPIC
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

_NODES_SINCE = 2


@handles(DescribeQuorumRequest, "0-2")
def describe_quorum(
    request: DescribeQuorumRequest, context: RequestContext, timers: Timers, topics: Topics
) -> DescribeQuorumResponse:
    """The quorum of ``__cluster_metadata-0``."""
    asked = [(topic.topic_name, tuple(part.partition_index for part in topic.partitions)) for topic in request.topics]
    if not asked:
        return DescribeQuorumResponse(error_message=None)
    if asked != [(METADATA_TOPIC, (0,))]:
        return DescribeQuorumResponse(
            error_message=None, topics=tuple(_refused(name, indexes) for name, indexes in asked)
        )
    return DescribeQuorumResponse(
        error_message=None,
        topics=(
            TopicData(
                topic_name=METADATA_TOPIC,
                partitions=(_partition(context.node.node_id, topics.image.changes, timers.now_ms()),),
            ),
        ),
        nodes=(_node(context),) if context.version >= _NODES_SINCE else (),
    )


def _node(context: RequestContext) -> Node:
    node = context.node
    return Node(node_id=node.node_id, listeners=(Listener(name="PLAINTEXT", host=node.host, port=node.port),))


def _partition(node_id: int, offset: int, now_ms: int) -> PartitionData:
    itself = ReplicaState(
        replica_id=node_id,
        log_end_offset=offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=0,
        error_message=None,
        leader_id=node_id,
        leader_epoch=1,
        high_watermark=offset,
        current_voters=(itself,),
    )


def _refused(name: str, indexes: tuple[int, ...]) -> TopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicData(
        topic_name=name,
        partitions=tuple(
            PartitionData(partition_index=index, error_code=code, error_message=code.message) for index in indexes
        ),
    )
