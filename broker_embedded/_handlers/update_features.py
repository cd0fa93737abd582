"""UpdateFeatures (57) v0-v2: raise or lower the levels of the cluster's features (KIP-584).

v0  flexible
v1  types of upgrades, and dry runs (KIP-778)
v2  no results per feature (KIP-1022)

``transaction.version`` and ``eligible.leader.replicas.version`` can be upgraded and downgraded, durably. The other
levels are those of the release ``as.version`` and cannot be changed; Kafka would downgrade some. The changes of a
request are atomic.
"""

from collections.abc import Mapping
from typing import Final

from broker_embedded._config.releases import Feature
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.features import SETTABLE, features_of, with_levels
from broker_embedded._metadata.files.stored_configs import StoredConfigs
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_UPGRADE: Final = 1
_UPGRADE_TYPES: Final = {_UPGRADE, 2, 3}
"""Upgrade, safe and unsafe downgrade."""
_TYPES_SINCE: Final = 1
_RESULTS_UNTIL: Final = 1


@handles(UpdateFeaturesRequest, "0-2")
async def update_features(
    request: UpdateFeaturesRequest, context: RequestContext, configs: DynamicConfigs
) -> UpdateFeaturesResponse:
    """Set every feature to the requested level."""

    def plan(stored: StoredConfigs) -> StoredConfigs:
        known = {feature.name: feature for feature in features_of(configs.config, stored)}
        for update in request.feature_updates:
            downgrades = update.upgrade_type != _UPGRADE if context.version >= _TYPES_SINCE else update.allow_downgrade
            _check(update, known, downgrades)
        levels = {
            update.feature: update.max_version_level
            for update in request.feature_updates
            if update.max_version_level != known[update.feature].level
        }
        return with_levels(configs.started_with, stored, levels)

    try:
        await configs.change(plan, validate_only=request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    updates = request.feature_updates if context.version <= _RESULTS_UNTIL else ()
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(UpdatableFeatureResult(feature=update.feature, error_message=None) for update in updates),
    )


def _check(update: FeatureUpdateKey, known: Mapping[str, Feature], downgrades: bool) -> None:
    """Raise KafkaError INVALID_UPDATE_VERSION unless the feature can be set to the requested level."""
    feature, level = known.get(update.feature), update.max_version_level
    if feature is None:
        problem = "this broker does not know the feature"
    elif update.upgrade_type not in _UPGRADE_TYPES:
        problem = f"there is no upgrade type {update.upgrade_type}"
    elif not feature.min_level <= level <= feature.max_level:
        problem = f"this broker only knows levels {feature.min_level}-{feature.max_level}"
    elif level == feature.level:
        return
    elif feature.name not in SETTABLE:
        problem = f"its level is {feature.level}, that of as.version"
    elif downgrades == (level > feature.level):
        way, wanted = ("above", "a downgrade") if downgrades else ("below", "an upgrade")
        problem = f"it is {way} the current level {feature.level}, but the request asks for {wanted}"
    else:
        return
    detail = f"No feature was changed: {update.feature} cannot be set to {level}, because {problem}."
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, detail)
