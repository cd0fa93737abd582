"""DescribeLogDirs (35): what is in a broker's directories (KIP-113).

v1  brokers answer before they throttle
v2  flexible
v3  a top-level error
v4  total and usable bytes of the volume (KIP-827)
v5  whether a directory is cordoned (KIP-1066)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, Int64, String


@struct
class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


@struct
class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", default=False, ignorable=True)


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse(Response):
    """Size and lag of every replica, by directory."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("3+", default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = ()


@struct
class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """Ask about directories; ``topics=None`` is all partitions."""

    topics: tuple[DescribableLogDirTopic, ...] | None = ()
