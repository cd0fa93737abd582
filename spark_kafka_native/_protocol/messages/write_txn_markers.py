"""WriteTxnMarkers (27): write how transactions ended into their partitions (KIP-98), also as a repair (KIP-664).

v1  flexible
v2  the version of the transaction (KIP-1228)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, Int64, String


@struct
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


@struct
class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse(Response):
    markers: tuple[WritableTxnMarkerResult, ...] = ()


@struct
class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@struct
class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field("2+", default=0, ignorable=True)


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    markers: tuple[WritableTxnMarker, ...] = ()
