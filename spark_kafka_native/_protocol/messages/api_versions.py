"""ApiVersions (18): which versions of which APIs a broker speaks.

v1  throttle time
v2  brokers answer before they throttle
v3  flexible; the client names its software (KIP-511); features (KIP-584). The response header stays as in v0
v4  a feature's min_version may be 0 (KAFKA-17011)

A broker that does not know the request's version answers with a v0 body, UNSUPPORTED_VERSION and its own
range (KIP-511).
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, Int64, String


@struct
class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey(Struct):
    name: String = field("3+", default="")
    min_version: Int16 = field("3+", default=0)
    max_version: Int16 = field("3+", default=0)


@struct
class FinalizedFeatureKey(Struct):
    name: String = field("3+", default="")
    max_version_level: Int16 = field("3+", default=0)
    min_version_level: Int16 = field("3+", default=0)


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse(Response):
    """The broker's APIs, each with its range of versions, and its features."""

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = field("3+", default=(), tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = field("3+", default=(), tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", default=False, tag=3, ignorable=True)


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)
