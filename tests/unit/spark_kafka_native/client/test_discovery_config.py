import dataclasses
import pickle

import pytest

from spark_kafka_native._client.config import PROPERTIES
from spark_kafka_native._client.discovery_config import DISCOVERY_PROPERTIES, DiscoveryConfig
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._zookeeper.connect_string import ConnectString

ZOOKEEPER = {"zookeeper.connect": "zk1:2181,zk2/kafka"}
CONNECT = ConnectString(servers=(HostPort("zk1", 2181), HostPort("zk2", 2181)), chroot="/kafka")


def test_every_field_is_a_property_that_spark_does_not_have() -> None:
    fields = {field.name.replace("_", ".") for field in dataclasses.fields(DiscoveryConfig)}
    assert fields == set(DISCOVERY_PROPERTIES)
    assert fields & set(PROPERTIES) == set()


def test_brokers_in_zookeeper_need_no_bootstrap_servers() -> None:
    config, client = DiscoveryConfig.parse(ZOOKEEPER | {"acks": "1"})
    assert config == DiscoveryConfig(zookeeper_connect=CONNECT)
    assert (client.bootstrap_servers, client.acks, client.servers_option) == ((), 1, "zookeeper.connect")
    assert pickle.loads(pickle.dumps(config)) == config


def test_bootstrap_servers_need_no_zookeeper() -> None:
    config, client = DiscoveryConfig.parse({"bootstrap.servers": "a:1"}, option_prefix="--x ")
    assert config.zookeeper_connect is None
    assert config.discovery() is None
    assert (client.bootstrap_servers, client.servers_option) == ((HostPort("a", 1),), "--x bootstrap.servers")


def test_the_names_of_kafka_0_7_are_understood() -> None:
    config, client = DiscoveryConfig.parse(
        {
            "zk.connect": "zk1:2181,zk2/kafka",
            "zk.sessiontimeout.ms": "7",
            "zk.connectiontimeout.ms": "8",
            "zk.read.num.retries": 9,
        }
    )
    assert config == DiscoveryConfig(
        zookeeper_connect=CONNECT,
        zookeeper_session_timeout_ms=7,
        zookeeper_connection_timeout_ms=8,
        zk_read_num_retries=9,
    )
    assert client.servers_option == "zk.connect"


@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        ("broker.list", "0:a:1,1:b:2"),
        ("broker.list", "a:1, b:2"),
        ("metadata.broker.list", "a:1,b:2"),
        ("Bootstrap.Servers", "a:1,b:2"),
    ],
)
def test_lists_of_brokers_of_each_release(name: str, brokers: str) -> None:
    _, client = DiscoveryConfig.parse({name: brokers})
    assert client.bootstrap_servers == (HostPort("a", 1), HostPort("b", 2))
    assert client.servers_option == name.lower()


@pytest.mark.parametrize(
    ("options", "option", "message"),
    [
        ({}, "bootstrap.servers", r"is required .* or zookeeper\.connect"),
        (ZOOKEEPER | {"broker.list": "0:a:1"}, "zookeeper.connect", "together with broker.list; set only one"),
        (ZOOKEEPER | {"zk.connect": "b"}, "zk.connect", "given twice, as 'zookeeper.connect' and 'zk.connect'"),
        ({"zk.connect": "a:x"}, "zk.connect", "is not a port"),
        ({"broker.list": "0:a:x"}, "broker.list", "is not a port"),
        ({"metadata.broker.list": "0:a:1"}, "metadata.broker.list", "needs brackets"),
        (ZOOKEEPER | {"zookeeper.session.timeout.ms": "0"}, "zookeeper.session.timeout.ms", "out of bounds"),
        (ZOOKEEPER | {"no.such": "0"}, "no.such", "is not a Kafka client property"),
        (ZOOKEEPER | {"broker.addresses": "bootstrap"}, "broker.addresses", "needs bootstrap.servers"),
    ],
)
def test_errors_name_the_option_as_it_was_given(options: dict[str, object], option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        DiscoveryConfig.parse(options)
    assert caught.value.option == option


def test_the_discovery_is_that_of_the_servers_and_not_open_yet() -> None:
    config, _ = DiscoveryConfig.parse(ZOOKEEPER)
    found = config.discovery()
    assert found is not None
    assert found.connect == CONNECT


@pytest.mark.parametrize(
    "name",
    ["zookeeper.session.timeout.ms", "zk.sessiontimeout.ms", "zookeeper.connection.timeout.ms", "zk.read.num.retries"],
)
def test_properties_of_zookeeper_have_no_effect_with_bootstrap_servers(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    DiscoveryConfig.parse(ZOOKEEPER | {name: "7"})
    assert not caplog.records
    DiscoveryConfig.parse({"bootstrap.servers": "a:1", name: "7"})
    assert f"property {name} has no effect without zookeeper.connect" in caplog.text
