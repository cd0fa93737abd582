from collections.abc import Mapping

import pytest

from broker_embedded._config.addresses import Endpoint
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.log_defaults import LOG_SYNONYMS
from broker_embedded._config.settings import LONG_MAX, SettingError


def test_defaults_are_kafkas_except_where_one_broker_on_one_machine_needs_others() -> None:
    config = BrokerConfig.parse({})
    assert config.num_partitions == 1
    assert config.auto_create_topics_enable
    assert config.socket_request_max_bytes == 104857600
    assert config.fetch_max_bytes == 57671680
    assert config.offsets_topic_num_partitions == 50
    assert config.log == LogConfig()
    assert config.endpoints() == (Endpoint(name="PLAINTEXT", host="127.0.0.1", port=9092),)
    assert config.default_replication_factor == config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_replication_factor == config.transaction_state_log_min_isr == 1


def test_every_default_is_a_value_that_the_setting_itself_accepts() -> None:
    for key, item in BrokerConfig.settings().items():
        assert item.parse(item.default) == item.default, key
        assert item.parse(item.default_text) == item.default, key
        assert item.doc.endswith("."), key


def test_settings_of_logs_go_under_the_brokers_names() -> None:
    config = BrokerConfig.parse({"log.segment.bytes": "1048576", "message.max.bytes": 77, "log.retention.ms": "-1"})
    assert config.log == LogConfig(segment_bytes=1048576, max_message_bytes=77, retention_ms=-1)
    assert set(LOG_SYNONYMS.values()) <= set(LogConfig.settings())


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": ""}, LogConfig().retention_ms),
    ],
)
def test_retention_in_the_shortest_unit_wins(given: Mapping[str, object], retention_ms: int) -> None:
    assert BrokerConfig.parse(given).log.retention_ms == retention_ms


def test_the_release_to_pass_for() -> None:
    assert BrokerConfig.parse({}).release.name == "4.3"
    assert BrokerConfig.parse({"as.version": "2.8.1"}).release.name == "2.8"
    with pytest.raises(SettingError, match=r"^as\.version: '3' is not a release"):
        BrokerConfig.parse({"as.version": "3"})


def test_settings_without_effect_have_values() -> None:
    started = BrokerConfig.parse({"num.io.threads": "4", "ssl.keystore.password": "hunter2", "process.roles": "broker"})
    assert started.to_properties()["num.io.threads"] == "4"
    assert started.given == {"num.io.threads": "4"} | {"ssl.keystore.password": "(hidden)", "process.roles": "broker"}
    config = started.changed({"num.io.threads": "5", "sasl.kerberos.min.time.before.relogin": "7"})
    assert config.unused["num.io.threads"] == 5
    assert config.to_properties()["sasl.kerberos.min.time.before.relogin"] == "7"
    assert config.to_properties()["queued.max.requests"] == "500"
    assert config.to_properties()["ssl.keystore.location"] is None


def test_settings_of_single_brokers_cannot_be_those_of_all() -> None:
    dynamic = {"sasl.kerberos.min.time.before.relogin": "7"}
    with pytest.raises(SettingError, match="the setting can change for a single broker only"):
        BrokerConfig().changed(dynamic, of_all_brokers=True)
    assert BrokerConfig().changed(dynamic).unused == {"sasl.kerberos.min.time.before.relogin": 7}


def test_settings_made_at_run_time_go_over_those_of_the_start() -> None:
    started = BrokerConfig.parse({"log.retention.hours": "2", "max.connections": "9", "num.partitions": "3"})
    config = started.changed({"log.retention.ms": "5", "max.connections": "7"})
    assert (config.log.retention_ms, config.max_connections, config.num_partitions) == (5, 7, 3)
    assert started.log.retention_ms == 7_200_000
    assert config.given == started.given == {"log.retention.hours": "2", "max.connections": "9", "num.partitions": "3"}
    assert started.changed({}) == started


@pytest.mark.parametrize(
    ("dynamic", "problem"),
    [
        ({"num.partitions": "3"}, "num.partitions: the setting cannot change while the broker runs"),
        ({"log.retention.hours": "3"}, "log.retention.hours: the setting cannot change while the broker runs"),
        ({"log.retention.ms": "x"}, "log.retention.ms: 'x' is not a whole number"),
        ({"max.connections": "-1"}, "max.connections: -1 is out of range"),
        ({"num.io.threads": "x"}, "num.io.threads: 'x' is not a whole number"),
        ({"num.io.threads": "0"}, "num.io.threads: 0 is out of range 1..2147483647"),
        ({"sasl.login.refresh.buffer.seconds": "40000"}, "40000 is out of range -32768..32767"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth: 'maybe' is not one of required, requested, none"),
        ({"ssl.keystore.location": "/k"}, "ssl.keystore.location: the setting cannot change while the broker runs"),
        ({"listeners": "PLAINTEXT://:1"}, "listeners: the setting cannot change while the broker runs"),
        ({"authorizer.class.name": "A"}, "authorizer.class.name: the setting cannot change while the broker runs"),
        ({"x": "y" * 32767}, "x: an unknown setting and its value may have 32767 characters together"),
        ({"principal.builder.class": "A"}, "principal.builder.class: only the default is allowed, because"),
        ({"config.providers": "file"}, "config.providers: only the default is allowed, because"),
        (
            {"listener.name.plaintext.max.connections": "1"},
            "settings of a listener cannot change while the broker runs",
        ),
        ({f"unknown.{number}": "1" for number in range(101)}, "unknown.0: 101 unknown settings are more than 100"),
    ],
)
def test_invalid_dynamic_changes_are_refused(dynamic: Mapping[str, str], problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        BrokerConfig.parse({}).changed(dynamic)


def test_to_properties_writes_every_setting_as_parse_reads_it() -> None:
    config = BrokerConfig.parse({"num.partitions": "3", "log.cleanup.policy": "compact,delete"})
    properties = config.to_properties()
    assert set(properties) == set(config.known())
    assert (properties["num.partitions"], properties["log.cleanup.policy"]) == ("3", "compact,delete")
    assert properties["log.retention.minutes"] is None
    assert BrokerConfig.parse({key: value for key, value in properties.items() if value is not None}) == config


def test_log_roll_hours_is_segment_ms() -> None:
    assert BrokerConfig.parse({"log.roll.hours": 1}).log.segment_ms == 3_600_000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"listeners": ""}, "listeners: the list must not be empty"),
        ({"listeners": "127.0.0.1:9092"}, "is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "is not HOST:PORT"),
        ({"listeners": "PLAINTEXT://127.0.0.1:70000"}, "'70000' is not a port, which is a number from 0 to 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "is not HOST:PORT"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "the names of listeners must be unique"),
        ({"listeners": "INSIDE://a:1"}, "listener INSIDE has no security protocol"),
        (
            {"listeners": "SSL://a:1", "listener.security.protocol.map": "SSL:SSL"},
            r"listeners: SSL://: SSL is not supported; PLAINTEXT and SASL_PLAINTEXT are: for TLS, use a proxy",
        ),
        ({"advertised.listeners": "OTHER://a:1"}, "listener OTHER is not in listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "no client can reach 0.0.0.0"),
        ({"advertised.listeners": "PLAINTEXT://:1"}, "no client can reach an empty host"),
        ({"log.dirs": "/a,/b"}, "only one directory"),
        ({"log.segment.bytes": 1}, r"^log\.segment\.bytes: 1 is out of range"),
        ({"log.retention.byts": 1}, r"did you mean log\.retention\.bytes\?"),
        ({"nodeid": 1}, r"did you mean node\.id\?"),
        # --- without effect
        ({"authorizer.class.name": "A"}, "only the default is allowed, because access rules"),
        ({"remote.log.storage.system.enable": "true"}, "because there is no tiered storage"),
        ({"num.network.threads": "0"}, "num.network.threads: 0 is out of range"),
        ({"group.share.max.size": "5", "as.version": "3.8"}, "group.share.max.size: no such setting"),
        # --- the log cleaner
        (
            {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": str(2 << 20)},
            r"^log\.cleaner\.dedupe\.buffer\.size: each of log\.cleaner\.threads needs more than 1 MiB",
        ),
        (
            {"log.cleaner.io.buffer.load.factor": "0"},
            r"^log\.cleaner\.io\.buffer\.load\.factor: the buffer is too small for a",
        ),
        (
            {"log.cleaner.io.buffer.load.factor": "1.1"},
            r"^log\.cleaner\.io\.buffer\.load\.factor: 1\.1 is out of range 0\.\.1",
        ),
        (
            {"log.cleaner.io.max.bytes.per.second": "0"},
            r"^log\.cleaner\.io\.max\.bytes\.per\.second: 0\.0 is out of range",
        ),
        ({"log.cleaner.threads": "-1"}, r"^log\.cleaner\.threads: -1 is out of range"),
        ({"log.cleaner.threads": "129"}, r"^log\.cleaner\.threads: 129 is out of range 0\.\.128"),
        (
            {"log.cleaner.min.cleanable.ratio": "2"},
            r"^log\.cleaner\.min\.cleanable\.ratio: 2\.0 is out of range 0\.\.1",
        ),
        # --- transactions
        ({"transaction.version": "3"}, "transaction.version: 3 is above 2, the highest level of Kafka 4.3"),
        ({"transaction.version": "1", "as.version": "3.9"}, "1 is above 0, the highest level of Kafka 3.9"),
        ({"transaction.version": "-1"}, "transaction.version: -1 is out of range"),
    ],
)
def test_invalid_settings_are_refused(given: Mapping[str, object], problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        BrokerConfig.parse(given)


def test_several_listeners_with_names() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "INSIDE://[::1]:9092, OUTSIDE://:9093",
            "advertised.listeners": "OUTSIDE://broker.example.org:19093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )
    inside, outside = config.endpoints()
    assert (inside.host, inside.port, inside.address) == ("::1", 9092, "[::1]:9092")
    assert (outside.host, outside.port) == ("", 9093)
    assert config.advertised() == {"OUTSIDE": Endpoint(name="OUTSIDE", host="broker.example.org", port=19093)}


def test_addresses_with_limits_of_their_own() -> None:
    config = BrokerConfig.parse({"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7,build.example:0"})
    assert config.connection_overrides() == {"10.0.0.1": 5, "::1": 7, "build.example": 0}


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:-1", "10.0.0.1:many"])
def test_limits_of_addresses_that_make_no_sense(text: str) -> None:
    with pytest.raises(SettingError, match=r"max\.connections\.per\.ip\.overrides: .* is not ADDRESS:NUMBER"):
        BrokerConfig.parse({"max.connections.per.ip.overrides": text})


def test_address_and_port_of_the_metrics() -> None:
    assert BrokerConfig.parse({}).metrics_address() is None
    assert BrokerConfig.parse({"metrics.listener": "127.0.0.1:9404"}).metrics_address() == ("127.0.0.1", 9404)
    with pytest.raises(SettingError, match=r"metrics\.listener: '9404' is not HOST:PORT"):
        BrokerConfig.parse({"metrics.listener": "9404"})


@pytest.mark.parametrize(
    ("given", "on_loopback", "elsewhere"),
    [
        ({}, "records", "none"),
        ({"status.page": "auto"}, "records", "none"),
        ({"status.page": "none"}, "none", "none"),
        ({"status.page": "status"}, "status", "status"),
        ({"status.page": "records"}, "records", "records"),
        ({"listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2"}, "status", "none"),
        ({"listeners": "SASL_PLAINTEXT://:2", "status.page": "records"}, "records", "records"),
    ],
)
def test_what_the_status_page_shows(given: dict[str, str], on_loopback: str, elsewhere: str) -> None:
    config = BrokerConfig.parse(given)
    assert config.status_page_shows(is_loopback=True) == on_loopback
    assert config.status_page_shows(is_loopback=False) == elsewhere


def test_other_values_of_the_status_page_are_refused() -> None:
    with pytest.raises(SettingError, match=r"status\.page: 'on' is not one of auto, none, status, records"):
        BrokerConfig.parse({"status.page": "on"})


@pytest.mark.parametrize(
    ("given", "magic"),
    [
        ({}, 2),
        ({"as.version": "0.8.2"}, 0),
        ({"as.version": "0.9"}, 0),
        ({"as.version": "0.10.2"}, 1),
        ({"as.version": "2.8"}, 2),
        ({"as.version": "2.8", "log.message.format.version": "0.9.0"}, 0),
        ({"as.version": "3.9", "log.message.format.version": "0.10.0"}, 1),
        ({"as.version": "3.9", "log.message.format.version": "0.10.0", "inter.broker.protocol.version": "3.0"}, 2),
        ({"as.version": "3.9", "inter.broker.protocol.version": "0.10.2"}, 1),
    ],
)
def test_the_message_format_is_that_of_the_release_or_as_it_is_set(given: Mapping[str, object], magic: int) -> None:
    config = BrokerConfig.parse(given)
    assert config.log.record_magic == magic
    assert config.changed({"log.retention.ms": "5"}).log.record_magic == magic
    assert LogConfig.parse({"retention.ms": "5"}, config.log).record_magic == magic


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"inter.broker.protocol.version": "newest"}, "inter.broker.protocol.version"),
        ({"log.message.format.version": "0.7"}, "log.message.format.version"),
        (
            {"log.message.format.version": "2.0", "inter.broker.protocol.version": "0.10.2"},
            "log.message.format.version",
        ),
    ],
)
def test_message_formats_that_cannot_be(given: Mapping[str, object], key: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.parse({"as.version": "3.9", **given})
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inter.broker.protocol.version", "3.9"),
        ("log.message.format.version", "2.8"),
        ("log.message.timestamp.difference.max.ms", "5"),
        ("log.message.downconversion.enable", "true"),
    ],
)
def test_kafka_4_has_removed_some(key: str, value: str) -> None:
    assert BrokerConfig.parse({"as.version": "3.9", key: value}).given[key] == value
    assert key in BrokerConfig.parse({"as.version": "3.9"}).known()
    for given in ({}, {"as.version": "4.0"}):
        assert key not in BrokerConfig.parse(given).known()
        with pytest.raises(SettingError, match=rf"^{key}: no such setting"):
            BrokerConfig.parse({**given, key: value})
    assert BrokerConfig().changed({key: value}) == BrokerConfig(), "unknown settings are skipped, as in Kafka"


def test_settings_of_a_release() -> None:
    acted_on, of_3_9 = BrokerConfig.settings().keys(), BrokerConfig.settings_for({"as.version": "3.9"}).keys()
    assert acted_on < of_3_9
    assert not acted_on <= BrokerConfig.settings_for({}).keys(), "Kafka 4 has removed some"
    assert {"num.io.threads", "remote.log.reader.threads"} <= of_3_9
    assert {"process.roles", "group.share.max.size"} <= of_3_9
    assert {"group.share.assignors", "group.streams.max.size", "cordoned.log.dirs"} & of_3_9 == set()
    assert {"process.roles", "remote.log.reader.threads"} & BrokerConfig.settings_for(
        {"as.version": "2.7"}
    ).keys() == set()
    with pytest.raises(SettingError, match=r"^as\.version: '5\.0' is not a release"):
        BrokerConfig.settings_for({"as.version": "5.0"})


def test_before_4_0_records_may_be_of_any_time_to_come() -> None:
    assert BrokerConfig.parse({"as.version": "3.9"}).log.timestamp_after_max_ms == LONG_MAX
    given = {"as.version": "3.9", "log.message.timestamp.difference.max.ms": "5"}
    assert BrokerConfig.parse(given).log.timestamp_after_max_ms == 5


@pytest.mark.parametrize(
    "key",
    [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "min.insync.replicas",
    ],
)
def test_more_replicas_than_the_one_broker_has_are_refused(key: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.parse({key: "3"})
    assert str(caught.value) == f"{key}: 3 replicas need 3 brokers, but there is one; set {key}=1"
    assert BrokerConfig.parse({key: "1"})


def test_min_insync_replicas_can_be_raised_at_run_time_as_in_kafka() -> None:
    assert BrokerConfig().changed({"min.insync.replicas": "2"}).log.min_insync_replicas == 2


def test_settings_of_compaction_have_kafkas_names_and_defaults() -> None:
    config = BrokerConfig.parse({"log.roll.jitter.hours": "2", "log.cleaner.delete.retention.ms": "5"})
    assert (config.log.segment_jitter_ms, config.log.delete_retention_ms) == (7_200_000, 5)
    properties = BrokerConfig().to_properties()
    assert {key: value for key, value in properties.items() if key.startswith("log.cleaner.")} == {
        "log.cleaner.enable": "true",
        "log.cleaner.threads": "1",
        "log.cleaner.backoff.ms": "15000",
        "log.cleaner.dedupe.buffer.size": "134217728",
        "log.cleaner.io.buffer.load.factor": "0.9",
        "log.cleaner.io.buffer.size": "524288",
        "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
        "log.cleaner.min.cleanable.ratio": "0.5",
        "log.cleaner.min.compaction.lag.ms": "0",
        "log.cleaner.max.compaction.lag.ms": str(LONG_MAX),
        "log.cleaner.delete.retention.ms": "86400000",
    }


def test_settings_of_transactions_have_kafkas_names_and_defaults() -> None:
    properties = BrokerConfig().to_properties()
    assert {
        key: value
        for key, value in properties.items()
        if key.startswith("transaction") and key in BrokerConfig.settings()
    } == {
        "transaction.max.timeout.ms": "900000",
        "transactional.id.expiration.ms": "604800000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
        "transaction.partition.verification.enable": "true",
        "transaction.state.log.num.partitions": "50",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.segment.bytes": "104857600",
        "transaction.version": None,
    }
    assert BrokerConfig.parse({"transaction.version": 0, "as.version": "2.8"}).transaction_version == 0
