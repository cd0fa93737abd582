from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.support.broker.configs import BROKER, DELETE, SET, change, configs_of, put
from tests.support.broker.driver import BrokerDriver


def update(broker: BrokerDriver, *wanted: tuple[str, int], version: int = 2, **others: Any) -> UpdateFeaturesResponse:
    updates = tuple(FeatureUpdateKey(feature=name, max_version_level=level, **others) for name, level in wanted)
    return broker.ask(UpdateFeaturesRequest(feature_updates=updates), version)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_that_is_at_its_level_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = update(broker, ("group.version", 1), ("metadata.version", 30), version=version)
    assert (response.error_code, response.error_message, update(broker).error_code) == (0, None, 0)
    if version <= 1:
        assert [(result.feature, result.error_code) for result in response.results] == [
            ("group.version", 0),
            ("metadata.version", 0),
        ]


@pytest.mark.parametrize(
    ("name", "level", "others", "said"),
    [
        ("no.such", 1, {}, "does not know the feature"),
        ("group.version", 9, {}, "only knows levels 0-1"),
        ("group.version", -1, {}, "only knows levels 0-1"),
        ("group.version", 0, {"upgrade_type": 2}, "its level is 1"),
        ("metadata.version", 29, {"upgrade_type": 3}, "its level is 30"),
        ("transaction.version", 3, {}, "only knows levels 0-2"),
        ("transaction.version", 1, {}, "it is below the current level 2, but the request asks for an upgrade"),
        ("eligible.leader.replicas.version", 0, {}, "it is below the current level 1"),
        ("eligible.leader.replicas.version", 2, {}, "only knows levels 0-1"),
        ("kraft.version", 1, {}, "its level is 0"),
        ("share.version", 1, {}, "does not know the feature"),
        ("streams.version", 0, {"upgrade_type": 2}, "does not know the feature"),
        ("group.version", 1, {"upgrade_type": 0}, "no upgrade type 0"),
        ("group.version", 1, {"upgrade_type": 9}, "no upgrade type 9"),
    ],
)
def test_invalid_feature_updates_are_refused(
    broker: BrokerDriver, name: str, level: int, others: dict[str, int], said: str
) -> None:
    response = update(broker, (name, level), ("metadata.version", 30), **others)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert said in (response.error_message or "")
    assert name in (response.error_message or "")


def level(broker: BrokerDriver) -> int:
    return next(feature.level for feature in broker.broker.configs.features if feature.name == "transaction.version")


@pytest.mark.parametrize(
    ("version", "down", "up"),
    [
        (0, {"allow_downgrade": True}, {}),
        (1, {"upgrade_type": 2}, {"upgrade_type": 1}),
        (2, {"upgrade_type": 3}, {"upgrade_type": 1}),
    ],
)
def test_transaction_version_can_be_lowered_and_raised_and_survives_a_restart(
    broker: BrokerDriver, version: int, down: dict[str, Any], up: dict[str, Any]
) -> None:
    for wanted, others in ((1, down), (0, down), (2, up), (1, down), (2, up)):
        assert update(broker, ("transaction.version", wanted), version=version, **others).error_code == 0
        for how in ("restart", "crash"):
            assert level(broker) == wanted
            getattr(broker, how)()


@pytest.mark.parametrize(("version", "others"), [(0, {"allow_downgrade": True}), (2, {"upgrade_type": 2})])
def test_an_upgrade_flagged_as_downgrade_is_refused(broker: BrokerDriver, version: int, others: dict[str, Any]) -> None:
    assert update(broker, ("transaction.version", 1), version=version, **others).error_code == 0
    response = update(broker, ("transaction.version", 2), version=version, **others)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "it is above the current level 1, but the request asks for a downgrade" in (response.error_message or "")
    assert level(broker) == 1


def test_a_dry_run_or_a_refused_update_changes_no_level(broker: BrokerDriver) -> None:
    down = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    assert broker.ask(UpdateFeaturesRequest(feature_updates=(down,), validate_only=True), 2).error_code == 0
    assert level(broker) == 2
    other = FeatureUpdateKey(feature="no.such", max_version_level=1)
    assert broker.ask(UpdateFeaturesRequest(feature_updates=(down, other)), 2).error_code
    assert level(broker) == 2


def test_eligible_leader_replicas_decide_where_min_insync_replicas_is_set(broker: BrokerDriver) -> None:
    name, key = "eligible.leader.replicas.version", "min.insync.replicas"
    for kind, of_all in ((SET, "3"), (DELETE, None)):
        result = change(broker, BROKER, "1" if kind is SET else "", (key, kind, of_all))
        assert result.error_code == ErrorCode.INVALID_CONFIG, result
        assert f"while {name} is 1" in (result.error_message or "")
    assert update(broker, (name, 0), upgrade_type=2).error_code == 0
    put(broker, BROKER, "1", min_insync_replicas="2")
    assert change(broker, BROKER, "", (key, DELETE, None)).error_code == 0
    for how in ("restart", "crash"):
        getattr(broker, how)()
        assert (configs_of(broker, BROKER, ""), broker.broker.config.log.min_insync_replicas) == ({}, 2)
    assert update(broker, (name, 1)).error_code == 0
    for how in ("restart", "crash"):
        assert {key: "1"} == {each: item.value for each, item in configs_of(broker, BROKER, "").items()}
        assert (broker.broker.configs.own, broker.broker.config.log.min_insync_replicas) == ({}, 1)
        getattr(broker, how)()


@pytest.mark.parametrize("release", ["3.9", "4.0"])
def test_min_insync_replicas_is_set_anywhere_without_eligible_leader_replicas(
    broker: BrokerDriver, release: str
) -> None:
    broker.passing_for(release)
    assert configs_of(broker, BROKER, "") == {}
    put(broker, BROKER, "1", min_insync_replicas="2")
    assert configs_of(broker, BROKER, "1")["min.insync.replicas"].config_source == 2
