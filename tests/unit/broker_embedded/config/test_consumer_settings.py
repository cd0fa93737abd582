from typing import Any

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.consumer_settings import GroupSettings
from broker_embedded._config.settings import SettingError
from broker_embedded._groups.consumer.config import ConsumerConfig, MigrationPolicy


def problem(given: dict[str, Any]) -> str:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.parse(given)
    return str(caught.value)


def group_problem(given: dict[str, str], **broker: Any) -> str:
    config = BrokerConfig.parse({key.replace("_", "."): value for key, value in broker.items()})
    with pytest.raises(SettingError) as caught:
        config.check_group(given)
    return str(caught.value)


def test_the_defaults_are_kafkas() -> None:
    assert BrokerConfig.parse({}).consumer_config({}) == ConsumerConfig(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=5_000,
        assignment_interval_ms=1_000,
        regex_refresh_interval_ms=600_000,
        max_size=2**31 - 1,
        assignors=("uniform", "range"),
        migration_policy=MigrationPolicy.BIDIRECTIONAL,
    )
    properties = BrokerConfig.parse({}).to_properties()
    bounds = {key: properties[f"group.consumer.{key}"] for key in ("min.session.timeout.ms", "max.session.timeout.ms")}
    assert bounds == {"min.session.timeout.ms": "45000", "max.session.timeout.ms": "60000"}
    assert properties["group.consumer.min.heartbeat.interval.ms"] == "5000"
    assert properties["group.consumer.max.heartbeat.interval.ms"] == "15000"
    assert properties["group.consumer.max.assignment.interval.ms"] == "15000"


def test_the_settings_of_consumer_groups_become_their_config() -> None:
    config = BrokerConfig.parse(
        {
            "group.consumer.min.session.timeout.ms": 1000,
            "group.consumer.session.timeout.ms": 2000,
            "group.consumer.min.heartbeat.interval.ms": 100,
            "group.consumer.heartbeat.interval.ms": "100",
            "group.consumer.assignment.interval.ms": 0,
            "group.consumer.max.size": 3,
            "group.consumer.assignors": "range",
            "group.consumer.migration.policy": "disabled",
            "group.consumer.regex.refresh.interval.ms": 10000,
        }
    )
    assert config.consumer_config({}) == ConsumerConfig(
        session_timeout_ms=2000,
        heartbeat_interval_ms=100,
        assignment_interval_ms=0,
        regex_refresh_interval_ms=10_000,
        max_size=3,
        assignors=("range",),
        migration_policy=MigrationPolicy.DISABLED,
    )


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"group.consumer.session.timeout.ms": 44_999}, "group.consumer.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": 60_001}, "group.consumer.session.timeout.ms"),
        ({"group.consumer.max.session.timeout.ms": 44_000}, "group.consumer.max.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": 4_999}, "group.consumer.heartbeat.interval.ms"),
        ({"group.consumer.min.heartbeat.interval.ms": 16_000}, "group.consumer.max.heartbeat.interval.ms"),
        ({"group.consumer.assignment.interval.ms": 15_001}, "group.consumer.assignment.interval.ms"),
        (
            {"group.consumer.max.heartbeat.interval.ms": 50_000, "group.consumer.heartbeat.interval.ms": 45_000},
            "group.consumer.heartbeat.interval.ms",
        ),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors"),
        ({"group.consumer.assignors": "magic"}, "group.consumer.assignors"),
        ({"group.consumer.migration.policy": "both"}, "group.consumer.migration.policy"),
        ({"group.consumer.max.size": 0}, "group.consumer.max.size"),
        ({"group.consumer.regex.refresh.interval.ms": 9_999}, "group.consumer.regex.refresh.interval.ms"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], key: str) -> None:
    assert problem(given).startswith(f"{key}: ")


def test_a_group_may_have_settings_of_its_own_within_the_brokers_bounds() -> None:
    config = BrokerConfig.parse({})
    own = {"consumer.session.timeout.ms": "50000", "consumer.assignment.interval.ms": "0"}
    config.check_group(own)
    made = config.consumer_config(own)
    assert (made.session_timeout_ms, made.heartbeat_interval_ms, made.assignment_interval_ms) == (50_000, 5_000, 0)
    assert set(GroupSettings.settings()) == {
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
    }


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "consumer.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "consumer.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "consumer.heartbeat.interval.ms"),
        ({"consumer.assignment.interval.ms": "-1"}, "consumer.assignment.interval.ms"),
        ({"consumer.session.timeout.ms": "soon"}, "consumer.session.timeout.ms"),
        ({"consumer.nothing": "1"}, "consumer.nothing"),
    ],
)
def test_settings_of_a_group_beyond_the_bounds_are_refused(given: dict[str, str], key: str) -> None:
    assert group_problem(given).startswith(f"{key}: ")


def test_a_groups_session_must_outlast_its_heartbeats() -> None:
    broker = {"group_consumer_min_session_timeout_ms": 1, "group_consumer_min_heartbeat_interval_ms": 1}
    said = group_problem({"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"}, **broker)
    assert said.startswith("consumer.session.timeout.ms: ")


def test_where_bounds_have_moved_a_groups_settings_move_along() -> None:
    config = BrokerConfig.parse({"group.consumer.max.session.timeout.ms": 48_000})
    assert config.consumer_config({"consumer.session.timeout.ms": "60000"}).session_timeout_ms == 48_000
