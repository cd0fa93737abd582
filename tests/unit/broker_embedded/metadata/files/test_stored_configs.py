import json

import pytest

from broker_embedded.metadata.files.stored_configs import CONFIGS, StoredConfigs

SOME = StoredConfigs(
    cluster={"log.retention.ms": "5"},
    brokers={1: {"max.connections": "7"}, 2: {"max.connections": "8"}},
    groups={"a group": {"consumer.session.timeout.ms": "50000"}},
)
WITH_FEATURES = SOME.with_features({"transaction.version": 1})


@pytest.mark.parametrize("configs", [StoredConfigs(), SOME, WITH_FEATURES])
def test_configs_survive_encoding(configs: StoredConfigs) -> None:
    assert CONFIGS.decode(CONFIGS.encode(configs)) == configs


def test_equal_configs_have_equal_bytes() -> None:
    turned = StoredConfigs(cluster=SOME.cluster, brokers=dict(reversed([*SOME.brokers.items()])), groups=SOME.groups)
    assert CONFIGS.encode(turned) == CONFIGS.encode(SOME)


def test_configs_are_readable_json() -> None:
    assert json.loads(CONFIGS.encode(SOME))["brokers"] == {"1": {"max.connections": "7"}, "2": {"max.connections": "8"}}


def test_resources_without_settings_are_not_stored() -> None:
    changed = SOME.with_broker(2, {}).with_group("a group", {}).with_cluster({})
    assert changed == StoredConfigs(brokers={1: {"max.connections": "7"}})
    assert SOME.with_broker(2, {"max.connections": "9"}).brokers[2] == {"max.connections": "9"}
    assert SOME.with_group("b", {"x": "1"}).groups == {**SOME.groups, "b": {"x": "1"}}


def test_levels_of_features_are_there_once_one_was_set_and_count_how_often() -> None:
    assert "features" not in json.loads(CONFIGS.encode(SOME))
    assert json.loads(CONFIGS.encode(WITH_FEATURES))["features"] == {"changes": 1, "levels": {"transaction.version": 1}}
    assert WITH_FEATURES.with_features({"transaction.version": 1}) == WITH_FEATURES
    assert WITH_FEATURES.with_features({}) == WITH_FEATURES
    again = WITH_FEATURES.with_features({"transaction.version": 2})
    assert (again.features, again.feature_changes) == ({"transaction.version": 2}, 2)
