"""UpdateFeatures (57): raise or lower finalized feature levels (KIP-584).

v0  flexible from the first
v1  upgrade types and dry runs (KIP-778)
v2  no results per feature (KIP-1022)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int8, Int16, Int32, String


@struct
class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Response):
    """An error code, up to v1 also one per feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: tuple[UpdatableFeatureResult, ...] = field("0-1", default=(), ignorable=True)


@struct
class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    timeout_ms: Int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Bool = field("1+", default=False)
