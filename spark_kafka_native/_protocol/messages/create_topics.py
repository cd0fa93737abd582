"""CreateTopics (19): make topics.

v1  validate only; error messages
v2  throttle time
v3  brokers answer before they throttle
v4  -1 partitions or replicas: the broker's default (KIP-464)
v5  flexible; the topic's configuration comes back (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7  topic ids
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


@struct
class CreatableTopicConfigs(Struct):
    name: String = field("5+", default="")
    value: String | None = field("5+", default="")
    read_only: Bool = field("5+", default=False)
    config_source: Int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: Bool = field("5+", default=False)


@struct
class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field("1+", default="", ignorable=True)
    topic_config_error_code: Int16 = field("5+", default=0, tag=0, ignorable=True)
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = field("5+", default=(), ignorable=True)


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse(Response):
    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: tuple[CreatableTopicResult, ...] = ()


@struct
class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


@struct
class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


@struct
class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Make topics, or with ``validate_only`` check that they could be made."""

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = field("1+", default=False)
