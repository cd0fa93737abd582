"""Settings as they are told: values, sources, synonyms, types."""

import pytest

from broker_embedded.config_entries import ConfigSource, ConfigType, config_type
from broker_embedded.settings import INT_MAX, LONG_MAX, Setting
from tests.support.broker_driver import BrokerDriver
from tests.support.configs import BROKER, GROUP, TOPIC, configs_of, put, synonyms_of, value_of

OF_TOPIC, OF_BROKER, OF_CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5


def started_with(broker: BrokerDriver, **settings: str) -> BrokerDriver:
    broker.settings |= {key.replace("_", "."): value for key, value in settings.items()}
    broker.restart()
    return broker


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (Setting(key="a", kind="bool", default=True, doc=""), ConfigType.BOOLEAN),
        (Setting(key="a", kind="str", default="", doc=""), ConfigType.STRING),
        (Setting(key="a", kind="list", default=(), doc=""), ConfigType.LIST),
        (Setting(key="a", kind="float", default=0.5, doc=""), ConfigType.DOUBLE),
        (Setting(key="a", kind="int", default=1, doc="", at_most=INT_MAX), ConfigType.INT),
        (Setting(key="a", kind="int", default=1, doc="", at_most=LONG_MAX), ConfigType.LONG),
        (Setting(key="a", kind="int", default=1, doc="", at_most=2**15 - 1), ConfigType.SHORT),
    ],
)
def test_types(setting: Setting, expected: ConfigType) -> None:
    assert config_type(setting) is expected


def test_a_topic_has_every_setting_of_logs_in_order(broker: BrokerDriver) -> None:
    broker.create("t", retention_ms="5")
    found = configs_of(broker, TOPIC, "t")
    assert list(found) == sorted(broker.broker.config.log.known())
    assert not any(config.read_only or config.is_sensitive for config in found.values())


def test_where_a_topics_value_is_from(broker: BrokerDriver) -> None:
    started_with(broker, log_retention_ms="4", message_max_bytes="2000000")
    broker.create("t", retention_ms="1")
    put(broker, BROKER, "", log_retention_ms="3", log_retention_bytes="33")
    put(broker, BROKER, "1", log_retention_ms="2")
    assert synonyms_of(broker, TOPIC, "t", "retention.ms") == [
        ("retention.ms", "1", OF_TOPIC),
        ("log.retention.ms", "2", OF_BROKER),
        ("log.retention.ms", "3", OF_CLUSTER),
        ("log.retention.ms", "4", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    found = configs_of(broker, TOPIC, "t")
    assert [(found[key].value, found[key].config_source) for key in ("retention.ms", "retention.bytes")] == [
        ("1", OF_TOPIC),
        ("33", OF_CLUSTER),
    ]
    assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == ("2000000", STATIC)
    assert synonyms_of(broker, TOPIC, "t", "index.interval.bytes") == [("log.index.interval.bytes", "4096", DEFAULT)]


def test_what_another_setting_stands_for_has_no_synonym_of_its_own_as_with_kafka(broker: BrokerDriver) -> None:
    started_with(broker, log_retention_hours="2")
    broker.create("t")
    found = configs_of(broker, TOPIC, "t")["retention.ms"]
    assert (found.value, found.config_source, found.synonyms) == ("7200000", DEFAULT, ())
    assert value_of(broker, BROKER, "1", "log.retention.ms") is None
    assert synonyms_of(broker, BROKER, "1", "log.retention.hours") == [
        ("log.retention.hours", "2", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_the_broker_has_every_setting_and_says_which_can_change(broker: BrokerDriver) -> None:
    found = configs_of(broker, BROKER, "1")
    settings = broker.broker.config.known()
    assert list(found) == sorted(settings)
    assert {key for key, config in found.items() if not config.read_only} == {
        key for key, setting in settings.items() if setting.dynamic
    }
    assert found["node.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert found["log.dirs"].value == str(broker.data_dir)


def test_a_value_that_is_given_is_not_a_default_though_it_is_the_same(broker: BrokerDriver) -> None:
    started_with(broker, num_partitions="1")
    assert synonyms_of(broker, BROKER, "1", "num.partitions") == [
        ("num.partitions", "1", STATIC),
        ("num.partitions", "1", DEFAULT),
    ]
    assert configs_of(broker, BROKER, "1")["default.replication.factor"].config_source == DEFAULT


def test_of_all_brokers_only_what_was_set_at_run_time_is_told(broker: BrokerDriver) -> None:
    assert configs_of(broker, BROKER, "") == {}
    put(broker, BROKER, "", max_connections="9")
    put(broker, BROKER, "1", max_connections="8")
    assert [(key, config.value) for key, config in configs_of(broker, BROKER, "").items()] == [("max.connections", "9")]
    assert synonyms_of(broker, BROKER, "", "max.connections") == [("max.connections", "9", OF_CLUSTER)]


def test_sources_have_kafkas_codes() -> None:
    assert {source.name: source.value for source in ConfigSource} == {
        "TOPIC": OF_TOPIC,
        "DYNAMIC_BROKER": OF_BROKER,
        "DYNAMIC_CLUSTER": OF_CLUSTER,
        "STATIC_BROKER": STATIC,
        "DEFAULT": DEFAULT,
        "BROKER_LOGGER": 6,
        "GROUP": 8,
    }


def test_a_group_has_what_was_set_for_it_before_what_the_broker_has(broker: BrokerDriver) -> None:
    started_with(broker, group_consumer_heartbeat_interval_ms="6000")
    put(broker, GROUP, "g", consumer_session_timeout_ms="50000")
    assert synonyms_of(broker, GROUP, "g", "consumer.session.timeout.ms") == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    found = configs_of(broker, GROUP, "g")
    assert list(found) == [
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
    ]
    assert (found["consumer.heartbeat.interval.ms"].value, found["consumer.heartbeat.interval.ms"].config_source) == (
        "6000",
        STATIC,
    )
    assert synonyms_of(broker, GROUP, "nobody", "consumer.session.timeout.ms") == [
        ("group.consumer.session.timeout.ms", "45000", DEFAULT)
    ]
