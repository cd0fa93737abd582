"""DeleteTopics (20): remove topics and their records.

v1  throttle time
v2  brokers answer before they throttle
v3  TOPIC_DELETION_DISABLED
v4  flexible
v5  error messages; THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6  topics by name or by id (KIP-516)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int16, Int32, String, Uuid


@struct
class DeletableTopicResult(Struct):
    name: String | None = field("0+", default="", nullable="6+")
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field("5+", default=None, ignorable=True)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Response):
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    responses: tuple[DeletableTopicResult, ...] = ()


@struct
class DeleteTopicState(Struct):
    name: String | None = field("6+", default=None)
    topic_id: Uuid = field("6+", default=ZERO_UUID)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Delete topics: by ``topic_names`` up to v5, by ``topics`` from v6 on."""

    topics: tuple[DeleteTopicState, ...] = field("6+", default=())
    topic_names: tuple[String, ...] = field("0-5", default=(), ignorable=True)
    timeout_ms: Int32 = 0
