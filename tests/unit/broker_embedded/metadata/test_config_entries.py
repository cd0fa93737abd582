import pytest

from broker_embedded._config.settings import INT_MAX, LONG_MAX, Setting
from broker_embedded._metadata.config_entries import ConfigSource, ConfigType, config_type
from tests.support.broker.configs import BROKER, GROUP, TOPIC, configs_of, put, synonyms_of, value_of
from tests.support.broker.driver import BrokerDriver

OF_TOPIC, OF_BROKER, OF_CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5


def started_with(broker: BrokerDriver, **settings: str) -> BrokerDriver:
    broker.restart({key.replace("_", "."): value for key, value in settings.items()})
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
def test_the_config_type_of_a_setting(setting: Setting, expected: ConfigType) -> None:
    assert config_type(setting) is expected


def test_a_topic_has_every_setting_of_logs_in_order(broker: BrokerDriver) -> None:
    broker.create("t", retention_ms="5")
    found = configs_of(broker, TOPIC, "t")
    assert list(found) == sorted(broker.broker.config.log.known())
    assert not any(config.read_only or config.is_sensitive for config in found.values())


def test_the_source_of_a_topics_config(broker: BrokerDriver) -> None:
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


def test_an_older_name_has_the_value_and_the_source_of_the_present_one(broker: BrokerDriver) -> None:
    found = configs_of(broker, BROKER, "1")
    assert (found["broker.id"].value, found["broker.id"].config_source) == ("1", DEFAULT)
    assert found["log.dir"].value == found["log.dirs"].value != ""
    started_with(broker, node_id="1")
    assert synonyms_of(broker, BROKER, "1", "broker.id") == [("broker.id", "1", STATIC), ("broker.id", "-1", DEFAULT)]


def test_a_setting_that_another_overrides_has_no_synonym_of_its_own_as_with_kafka(broker: BrokerDriver) -> None:
    started_with(broker, log_retention_hours="2")
    broker.create("t")
    found = configs_of(broker, TOPIC, "t")["retention.ms"]
    assert (found.value, found.config_source, found.synonyms) == ("7200000", DEFAULT, ())
    assert value_of(broker, BROKER, "1", "log.retention.ms") is None
    assert synonyms_of(broker, BROKER, "1", "log.retention.hours") == [
        ("log.retention.hours", "2", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_the_broker_lists_every_setting_and_which_are_read_only(broker: BrokerDriver) -> None:
    found = configs_of(broker, BROKER, "1")
    settings = {key: item for key, item in broker.broker.config.known().items() if not item.is_hidden}
    assert list(found) == sorted(settings)
    assert {key for key, config in found.items() if not config.read_only} == {
        key for key, setting in settings.items() if setting.dynamic
    }
    assert found["node.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert found["log.dirs"].value == str(broker.data_dir)


def test_a_configured_value_that_equals_the_default_is_not_a_default(broker: BrokerDriver) -> None:
    started_with(broker, num_partitions="1")
    assert synonyms_of(broker, BROKER, "1", "num.partitions") == [
        ("num.partitions", "1", STATIC),
        ("num.partitions", "1", DEFAULT),
    ]
    assert configs_of(broker, BROKER, "1")["default.replication.factor"].config_source == DEFAULT


def test_the_default_broker_describes_only_dynamic_configs(broker: BrokerDriver) -> None:
    put(broker, BROKER, "", max_connections="9")
    put(broker, BROKER, "1", max_connections="8")
    assert [(key, config.value) for key, config in configs_of(broker, BROKER, "").items()] == [
        ("max.connections", "9"),
        ("min.insync.replicas", "1"),
    ]
    assert synonyms_of(broker, BROKER, "", "max.connections") == [("max.connections", "9", OF_CLUSTER)]


def test_min_insync_replicas_is_set_for_all_brokers_as_in_kafka_since_4_1(broker: BrokerDriver) -> None:
    broker.create("t")
    key = "min.insync.replicas"
    assert synonyms_of(broker, BROKER, "", key) == [(key, "1", OF_CLUSTER)]
    assert synonyms_of(broker, BROKER, "1", key) == [(key, "1", OF_CLUSTER), (key, "1", DEFAULT)]
    assert synonyms_of(broker, TOPIC, "t", key) == [(key, "1", OF_CLUSTER), (key, "1", DEFAULT)]


def test_settings_without_effect_are_described(broker: BrokerDriver) -> None:
    started_with(broker, num_network_threads="4", ssl_keystore_password="hunter2")
    put(broker, BROKER, "1", num_io_threads="7")
    put(broker, BROKER, "", num_io_threads="6")
    key = "num.io.threads"
    assert synonyms_of(broker, BROKER, "1", key) == [(key, "7", OF_BROKER), (key, "6", OF_CLUSTER), (key, "8", DEFAULT)]
    found = configs_of(broker, BROKER, "1")
    threads, password = found["num.network.threads"], found["ssl.keystore.password"]
    assert (threads.value, threads.config_source, threads.read_only, threads.config_type) == ("4", STATIC, False, 3)
    assert (password.value, password.is_sensitive, password.read_only, password.config_type) == (None, True, True, 9)
    assert found["metric.reporters"].value == "org.apache.kafka.common.metrics.JmxReporter"
    assert (found["broker.rack"].value, found["authorizer.class.name"].value) == (None, "")
    assert found["client.quota.callback.class"].config_type == ConfigType.CLASS


def test_a_setting_without_default_that_kafka_lists_only_where_it_is_set(broker: BrokerDriver) -> None:
    key = "leader.replication.throttled.rate"
    assert key not in configs_of(broker, BROKER, "1")
    put(broker, BROKER, "1", **{key: "1000"})
    found = configs_of(broker, BROKER, "1")[key]
    assert (found.value, found.read_only, found.config_type, found.config_source) == ("1000", False, 5, OF_BROKER)


def test_an_unknown_setting_is_described_without_its_value(broker: BrokerDriver) -> None:
    put(broker, BROKER, "1", no_such="abc")
    put(broker, BROKER, "", no_such="xyz", other="xyz")
    found = configs_of(broker, BROKER, "1")
    for key, source in (("no.such", OF_BROKER), ("other", OF_CLUSTER)):
        item = found[key]
        assert (item.value, item.read_only, item.is_sensitive, item.config_type) == (None, True, True, 0)
        assert (item.config_source, item.documentation) == (source, None)
    assert synonyms_of(broker, BROKER, "1", "no.such") == [("no.such", None, OF_BROKER), ("no.such", None, OF_CLUSTER)]
    assert configs_of(broker, BROKER, "")["no.such"].value is None


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
    assert synonyms_of(broker, GROUP, "unknown", "consumer.session.timeout.ms") == [
        ("group.consumer.session.timeout.ms", "45000", DEFAULT)
    ]
