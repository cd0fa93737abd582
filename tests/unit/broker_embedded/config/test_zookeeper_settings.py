"""Settings of ZooKeeper and of new topics, and the names that settings had before."""

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.old_names import renamed
from broker_embedded._config.settings import SettingError
from broker_embedded._config.topic_settings import TopicSettings
from broker_embedded._config.zookeeper_settings import ZooKeeperSettings


def test_there_is_no_zookeeper_by_default() -> None:
    assert BrokerConfig.parse({}).zookeeper() is None


@pytest.mark.parametrize("key", ["zookeeper.connect", "zk.connect"])
def test_zookeeper_connect_names_the_servers(key: str) -> None:
    assert str(BrokerConfig.parse({key: "a:1,b:2/kafka"}).zookeeper()) == "a:1,b:2/kafka"


def test_enable_zookeeper_false_goes_before_zookeeper_connect() -> None:
    assert BrokerConfig.parse({"zookeeper.connect": "a:1", "enable.zookeeper": "false"}).zookeeper() is None
    assert BrokerConfig.parse({"zookeeper.connect": "a:1", "enable.zookeeper": "true"}).zookeeper() is not None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"enable.zookeeper": "true"}, "enable.zookeeper: zookeeper.connect must be set, too: HOST:PORT[/CHROOT]"),
        ({"zookeeper.connect": "a:x"}, "zookeeper.connect: 'a:x': 'x' is not a port"),
        ({"zookeeper.connect": "a:1/b//c"}, "zookeeper.connect: the chroot '/b//c' has an empty name in it"),
        ({"zookeeper.session.timeout.ms": "0"}, "zookeeper.session.timeout.ms: 0 is out of range 1..2147483647"),
        ({"topic.partition.count.map": "a"}, "topic.partition.count.map: 'a' is not TOPIC:NUMBER"),
        ({"topic.partition.count.map": f"a:{'9' * 5000}"}, "topic.partition.count.map: 'a:999"),
        ({"topic.partition.count.map": "a:0"}, "topic.partition.count.map: 'a:0' is not TOPIC:NUMBER"),
        ({"topic.partition.count.map": "a:1,a:2"}, "topic.partition.count.map: topic a has two numbers of partitions"),
    ],
)
def test_invalid_settings_are_errors(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingError) as raised:
        BrokerConfig.parse(settings)
    assert str(raised.value).startswith(problem)


def test_partition_counts_of_single_topics() -> None:
    assert TopicSettings(topic_partition_count_map=("a:3", "b:2")).partition_counts() == {"a": 3, "b": 2}
    assert TopicSettings().partition_counts() == {}


@pytest.mark.parametrize(
    ("old", "present", "value"),
    [
        ("broker.id", "node.id", "3"),
        ("brokerid", "node.id", "3"),
        ("log.dir", "log.dirs", "/data"),
        ("zk.sessiontimeout.ms", "zookeeper.session.timeout.ms", "3"),
        ("zk.connectiontimeout.ms", "zookeeper.connection.timeout.ms", "3"),
        ("zk.synctime.ms", "zookeeper.sync.time.ms", "3"),
    ],
)
def test_older_names_are_accepted(old: str, present: str, value: str) -> None:
    assert BrokerConfig.parse({old: value}) == BrokerConfig.parse({present: value})
    assert BrokerConfig.parse({old: value, present: f" {value}"}) == BrokerConfig.parse({present: value})


@pytest.mark.parametrize("given", [{"broker.id": "1", "node.id": 2}, {"node.id": 2, "broker.id": "1"}])
def test_two_names_with_different_values_are_an_error(given: dict[str, object]) -> None:
    with pytest.raises(SettingError) as raised:
        renamed(given)
    assert str(raised.value) == "node.id: the older name broker.id is '1', and node.id is 2; remove broker.id"


def test_an_older_name_is_described_with_the_present_value() -> None:
    found = BrokerConfig.parse({"node.id": "7", "log.dirs": "/data"}).to_properties()
    assert (found["broker.id"], found["log.dir"]) == ("7", "/data")


def test_the_time_limit_of_the_connection_is_that_of_the_session_unless_it_is_set() -> None:
    assert ZooKeeperSettings(zookeeper_session_timeout_ms=7).connection_timeout_ms == 7
    assert ZooKeeperSettings(zookeeper_connection_timeout_ms=8).connection_timeout_ms == 8


@pytest.mark.parametrize("key", ["zookeeper.sync.time.ms", "zk.synctime.ms"])
def test_the_sync_time_of_kafka_0_is_accepted_without_effect(key: str) -> None:
    config = BrokerConfig.parse({key: "200"})
    assert config.unused == {"zookeeper.sync.time.ms": 200}
    assert BrokerConfig.all_settings()["zookeeper.sync.time.ms"].no_effect


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (
            "zookeeper.clientCnxnSocket",
            "org.apache.zookeeper.ClientCnxnSocketNetty",
            "the connection to ZooKeeper has no",
        ),
        ("zookeeper.metadata.migration.enable", "true", "topics stay in the broker's own files"),
        ("zookeeper.set.acl", "true", "this broker does not authenticate to ZooKeeper"),
        ("zookeeper.ssl.cipher.suites", "TLS_AES_128_GCM_SHA256", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.client.enable", "true", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.crl.enable", "true", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.3", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "none", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.keystore.location", "/k", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.keystore.password", "hunter2", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.keystore.type", "PEM", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.ocsp.enable", "true", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.protocol", "TLSv1.3", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.truststore.location", "/t", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.truststore.password", "hunter2", "the connection to ZooKeeper has no TLS"),
        ("zookeeper.ssl.truststore.type", "PEM", "the connection to ZooKeeper has no TLS"),
    ],
)
def test_settings_of_security_are_refused_by_their_feature(key: str, value: str, reason: str) -> None:
    """All of Apache Kafka 3.9 that `ZooKeeperSettings` does not have."""
    with pytest.raises(SettingError) as refused:
        BrokerConfig.parse({key: value})
    assert str(refused.value).startswith(f"{key}: only the default is allowed, because {reason}")
