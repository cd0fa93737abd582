"""CreatePartitions (37): make topics wider.

v1  brokers answer before they throttle
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, String


@struct
class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


@struct
class CreatePartitionsAssignment(Struct):
    broker_ids: tuple[Int32, ...] = ()


@struct
class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Raise partition counts; ``count`` is the new total."""

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False
