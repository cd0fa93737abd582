"""Features of the cluster (KIP-584) and their levels.

The level that UpdateFeatures has set overrides the broker's setting ``transaction.version``, which overrides the
release's level. A stored level that the present release does not have, after a change of ``as.version``, is taken for
its highest level.

While ``eligible.leader.replicas.version`` is 1, ``min.insync.replicas`` is always set for all brokers and never for a
single one (KIP-966), as Apache Kafka's controller does it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.releases import ELIGIBLE_LEADER_REPLICAS_VERSION, TRANSACTION_VERSION, Feature
from broker_embedded._metadata.files.stored_configs import StoredConfigs
from broker_embedded._transactions.state import TransactionVersion

SETTABLE: Final = (ELIGIBLE_LEADER_REPLICAS_VERSION, TRANSACTION_VERSION)
"""Features whose levels UpdateFeatures can change."""
MIN_ISR: Final = "min.insync.replicas"


def features_of(config: BrokerConfig, stored: StoredConfigs) -> tuple[Feature, ...]:
    """Every feature with its present level."""
    levels = {name: level for name, level in stored.features.items() if name in SETTABLE}
    if config.transaction_version is not None:
        levels.setdefault(TRANSACTION_VERSION, config.transaction_version)
    return tuple(
        replace(feature, level=min(levels.get(feature.name, feature.level), feature.max_level))
        for feature in config.release.features
    )


def with_levels(config: BrokerConfig, stored: StoredConfigs, levels: Mapping[str, int]) -> StoredConfigs:
    """The stored configs with these feature levels, and with ``min.insync.replicas`` if KIP-966 requires it."""
    changed = stored.with_features(levels)
    if not has_eligible_leader_replicas(config, changed):
        return changed
    for node_id, own in changed.brokers.items():
        changed = changed.with_broker(node_id, {key: value for key, value in own.items() if key != MIN_ISR})
    return changed.with_cluster({MIN_ISR: str(config.log.min_insync_replicas), **changed.cluster})


def has_eligible_leader_replicas(config: BrokerConfig, stored: StoredConfigs) -> bool:
    """Whether eligible.leader.replicas.version is 1."""
    return any(
        feature.name == ELIGIBLE_LEADER_REPLICAS_VERSION and feature.level > 0
        for feature in features_of(config, stored)
    )


def transaction_version(features: tuple[Feature, ...]) -> TransactionVersion:
    """The level of transaction.version; the lowest without the feature, in releases before 4.0."""
    return TransactionVersion(next((feature.level for feature in features if feature.name == TRANSACTION_VERSION), 0))
