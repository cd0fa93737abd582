"""Levels of features: the release's, unless the broker was started with another, unless another was set since."""

import pytest

from broker_embedded.config.config import BrokerConfig
from broker_embedded.metadata.features import features_of, transaction_version
from broker_embedded.metadata.files.configs import StoredConfigs
from broker_embedded.transactions.state import TransactionVersion


def level(settings: dict[str, object], **stored: int) -> TransactionVersion:
    levels = {name.replace("_", "."): level for name, level in stored.items()}
    return transaction_version(features_of(BrokerConfig.parse(settings), StoredConfigs(features=levels)))


def test_the_release_says_it_unless_somebody_else_does() -> None:
    assert level({}) is TransactionVersion.TV_2
    assert level({"transaction.version": 1}) is TransactionVersion.TV_1
    assert level({"transaction.version": 1}, transaction_version=0) is TransactionVersion.TV_0
    assert level({}, transaction_version=1) is TransactionVersion.TV_1


def test_other_features_are_as_the_release_says() -> None:
    config = BrokerConfig.parse({"transaction.version": 0})
    stored = StoredConfigs(features={"transaction.version": 1, "metadata.version": 7})
    found = {feature.name: feature.level for feature in features_of(config, stored)}
    assert found == {feature.name: feature.level for feature in config.release.features} | {"transaction.version": 1}


@pytest.mark.parametrize("release", ["0.11", "3.9"])
def test_releases_without_the_feature_know_the_oldest_way(release: str) -> None:
    assert level({"as.version": release}) is TransactionVersion.TV_0
    assert level({"as.version": release}, transaction_version=2) is TransactionVersion.TV_0


def test_a_level_that_the_release_lacks_counts_as_its_highest() -> None:
    assert level({}, transaction_version=9) is TransactionVersion.TV_2
