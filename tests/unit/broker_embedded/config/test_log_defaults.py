"""The broker's names for the defaults of topics' settings."""

import pytest

from broker_embedded.config.log_config import LogConfig
from broker_embedded.config.log_defaults import (
    LOG_SYNONYMS,
    LONGER_UNITS,
    TWINS,
    in_milliseconds,
    log_default_settings,
    parse_log_defaults,
)
from broker_embedded.config.settings import ConfigError


def test_every_topic_setting_has_one_but_those_that_kafka_has_of_topics_alone() -> None:
    assert set(TWINS) == set(LOG_SYNONYMS.values())
    assert set(LogConfig.settings()) - set(TWINS) == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    }
    assert {TWINS[topic_key]: topic_key for topic_key in TWINS} == dict(LOG_SYNONYMS)


def test_they_can_change_at_run_time() -> None:
    assert all(setting.dynamic for setting in log_default_settings().values())


def test_those_that_another_one_stands_for_are_not_set_by_default() -> None:
    settings = log_default_settings()
    assert [key for key, setting in settings.items() if setting.default is None] == [
        key for key in settings if key in LONGER_UNITS or key == "log.flush.interval.ms"
    ]


def test_what_is_not_given_stays() -> None:
    before = LogConfig(retention_bytes=5, retention_ms=6)
    assert parse_log_defaults({"log.retention.bytes": "7", "log.retention.ms": ""}, before) == LogConfig(
        retention_bytes=7, retention_ms=6
    )


def test_errors_name_the_brokers_setting() -> None:
    with pytest.raises(ConfigError, match=r"^log\.retention\.ms: 'x' is not a whole number"):
        parse_log_defaults({"log.retention.ms": "x"}, LogConfig())


def test_the_shortest_unit_wins() -> None:
    assert in_milliseconds({}, {"log_retention_minutes": 2, "log_retention_hours": 3}) == {"log.retention.ms": 120_000}
    assert in_milliseconds({"log.retention.ms": "5"}, {"log_retention_minutes": 2}) == {"log.retention.ms": "5"}
    assert in_milliseconds({}, {"log_retention_hours": -1, "log_roll_hours": 1}) == {
        "log.retention.ms": -1,
        "log.roll.ms": 3_600_000,
    }
