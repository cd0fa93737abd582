"""WriteTxnMarkers (27) v0-v2: write transaction markers to partitions (KIP-98).

v1  flexible
v2  the version of the transaction (KIP-1228)

In Kafka a coordinator sends it to other brokers. Here only admin clients send it, to abort hanging transactions, for
example after ``__transaction_state`` was deleted (KIP-664).
"""

from broker_embedded._coordinator.markers import TransactionMarkers
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition


@handles(WriteTxnMarkersRequest, "0-2")
async def write_txn_markers(
    request: WriteTxnMarkersRequest,
    _context: RequestContext,
    shielded_tasks: ShieldedTasks,
    markers: TransactionMarkers,
) -> WriteTxnMarkersResponse:
    """Write the markers in the order of the request."""

    async def write_all() -> tuple[WritableTxnMarkerResult, ...]:
        return tuple([await _write(marker, markers) for marker in request.markers])

    return WriteTxnMarkersResponse(markers=await shielded_tasks.run(write_all()))


async def _write(marker: WritableTxnMarker, markers: TransactionMarkers) -> WritableTxnMarkerResult:
    codes = await markers.write(
        {TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes},
        ProducerIdAndEpoch(producer_id=marker.producer_id, epoch=marker.producer_epoch),
        commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        version=TransactionVersion.TV_2
        if marker.transaction_version >= TransactionVersion.TV_2
        else TransactionVersion.TV_0,
    )
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
