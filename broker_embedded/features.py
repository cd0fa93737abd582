"""Features of the cluster (KIP-584): what the release says, what the broker was started with, what UpdateFeatures set.

The level that was set at run time goes before ``transaction.version`` of the broker's settings, and that before the
release's. A level that the release does not have, because the broker passed for another when it was set, counts as its
highest.
"""

from dataclasses import replace

from broker_embedded.cluster.configs_file import StoredConfigs
from broker_embedded.config import BrokerConfig
from broker_embedded.coordinator.transaction.state import TransactionVersion
from broker_embedded.releases import TRANSACTION_VERSION, Feature


def features_of(config: BrokerConfig, stored: StoredConfigs) -> tuple[Feature, ...]:
    """Every feature with the level that is in force."""
    features = config.release.features
    level = stored.features.get(TRANSACTION_VERSION, config.transaction_version)
    if level is None:
        return features
    return tuple(
        replace(feature, level=min(level, feature.max_level)) if feature.name == TRANSACTION_VERSION else feature
        for feature in features
    )


def transaction_version(features: tuple[Feature, ...]) -> TransactionVersion:
    """How transactions are done; without the feature, as in releases before 4.0, in the oldest way."""
    return TransactionVersion(next((feature.level for feature in features if feature.name == TRANSACTION_VERSION), 0))
