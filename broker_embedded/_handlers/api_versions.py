"""ApiVersions (18) v0-v4: the APIs served and their versions.

v1  throttle time
v3  flexible; the client's software name and version (KIP-511); features (KIP-584)
v4  features with the minimum level 0, which clients cannot decode before (KAFKA-17011)

The response is that of the release ``as.version``, with the present feature levels. Each change of a level increments
the features' epoch, so that clients recognize the newer response. An unsupported version is answered with a v0 body and
UNSUPPORTED_VERSION, since 2.4 with the range of this API (KIP-511), so that the client can retry.
"""

import re
from typing import Final

from broker_embedded._config.releases import Release
from broker_embedded._handlers.support.registry import Api, RequestContext, apis_of, handles
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_SINCE: Final = 3
_LEVEL_0_SINCE: Final = 4
_NO_EPOCH: Final = -1


@handles(ApiVersionsRequest, "0-4")
def api_versions(request: ApiVersionsRequest, context: RequestContext, configs: DynamicConfigs) -> ApiVersionsResponse:
    """Every advertised API, or INVALID_REQUEST for a malformed software name or version."""
    software = (request.client_software_name, request.client_software_version)
    if context.version >= _NAMED_SINCE and not all(map(_SOFTWARE.fullmatch, software)):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.session.api_versions_answered()
    context.client.use(context.client_id, *software)
    release, features = configs.config.release, configs.features
    return ApiVersionsResponse(
        api_keys=tuple(_range(key, api) for key, api in apis_of(release.name).items()),
        supported_features=tuple(
            SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
            for feature in features
            if feature.min_level > 0 or context.version >= _LEVEL_0_SINCE
        ),
        finalized_features_epoch=configs.stored.feature_changes if release.since("2.7") else _NO_EPOCH,
        finalized_features=tuple(
            FinalizedFeatureKey(name=feature.name, max_version_level=feature.level, min_version_level=feature.level)
            for feature in features
            if feature.level > 0
        ),
    )


def unsupported_version(release: Release) -> ApiVersionsResponse:
    """The response to an unsupported version, to be sent as v0."""
    own = ApiVersionsRequest.api_key
    ranges = (_range(own, apis_of(release.name)[own]),) if release.names_range_when_refusing else ()
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges)


def _range(key: int, api: Api) -> ApiVersion:
    return ApiVersion(api_key=key, min_version=api.advertised.first, max_version=api.advertised.last)
