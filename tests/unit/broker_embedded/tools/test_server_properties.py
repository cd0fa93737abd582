import re
from pathlib import Path

import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._tools.server_properties import (
    REFUSED,
    read_server_properties,
    read_storage_properties,
    understand,
)
from spark_kafka_native._command_line.output import InvalidOption

KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "3",
    "controller.quorum.voters": "3@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093,DOCKER://127.0.0.1:19094",
    "advertised.listeners": "PLAINTEXT://localhost:19092,DOCKER://host:19094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DOCKER:PLAINTEXT,SSL:SSL",
    "num.network.threads": "3",
    "log.dirs": "/data/kafka",
    "num.partitions": "4",
}


def test_settings_of_a_kraft_broker() -> None:
    server = understand(KRAFT)
    assert (server.config.node_id, server.data_dir, server.config.zookeeper()) == (3, "/data/kafka", None)
    assert server.config.num_partitions == 4
    assert server.config.listeners == "PLAINTEXT://127.0.0.1:19092,DOCKER://127.0.0.1:19094"
    assert server.config.advertised_listeners == "PLAINTEXT://localhost:19092,DOCKER://host:19094"
    assert list(server.config.unused) == ["process.roles", "controller.quorum.voters", "num.network.threads"]


def test_settings_of_a_broker_on_zookeeper() -> None:
    server = understand({"broker.id": "0", "port": "9393", "log.dir": "/d", "zookeeper.connect": "localhost:2181"})
    assert (server.config.node_id, server.data_dir, str(server.config.zookeeper())) == (0, "/d", "localhost:2181")
    assert server.config.listeners == "PLAINTEXT://:9393"


@pytest.mark.parametrize("key", ["zookeeper.set.acl", "zookeeper.ssl.client.enable"])
def test_security_of_zookeeper_that_is_not_supported_is_refused(key: str) -> None:
    understand({"zookeeper.connect": "localhost:2181", key: "false"})
    with pytest.raises(SettingError, match=f"{key}: only the default is allowed, because "):
        understand({"zookeeper.connect": "localhost:2181", key: "true"})


def test_a_misspelled_setting_of_zookeeper_is_ignored_with_the_nearest_one(caplog: pytest.LogCaptureFixture) -> None:
    understand({"zookeeper.conect": "localhost:2181"})
    assert caplog.messages == ["ignored zookeeper.conect: no such setting; did you mean zookeeper.connect?"]


def test_settings_that_kafka_4_removed_are_passed_over_as_it_does(caplog: pytest.LogCaptureFixture) -> None:
    given = {"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.10.0"}
    assert understand({**given, "as.version": "2.8"}).config.log.record_magic == 1
    assert not caplog.records
    assert understand(given).config.log.record_magic == 2
    (record,) = caplog.records
    assert record.getMessage() == (
        "settings without effect here: inter.broker.protocol.version, log.message.format.version"
    )


def test_both_names_of_a_setting_with_different_values_are_refused(tmp_path: Path) -> None:
    assert understand({"broker.id": "2", "node.id": "2"}).config.node_id == 2
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnode.id=2\n")
    problem = "node.id: the older name broker.id is '1', and node.id is '2'; remove broker.id"
    for read in (read_server_properties, read_storage_properties):
        with pytest.raises(InvalidOption) as refused:
            read(file)
        assert str(refused.value) == f"{file}: {problem}"


def test_an_error_names_the_file_or_the_option_that_replaces_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions\n")
    with pytest.raises(InvalidOption, match=r"server\.properties: num\.partitions: '' is not a whole number$"):
        read_server_properties(file)
    with pytest.raises(InvalidOption, match=r"^--override: num\.partitions: 'x' is not a whole number$"):
        read_server_properties(file, {"num.partitions": "x"})


def test_defaults_are_kafkas() -> None:
    server = understand({"broker.id": "-1"})
    assert (server.config.listeners, server.data_dir) == ("PLAINTEXT://:9092", "/tmp/kafka-logs")


def test_listeners_with_sasl(caplog: pytest.LogCaptureFixture) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2";'
    given = {
        "listeners": "PLAINTEXT://:9092,CLIENTS://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "listener.name.clients.ssl.keystore.location": "/nowhere",
    }
    config = understand(given).config
    assert config.sasl_of("PLAINTEXT") is None
    sasl = config.sasl_of("CLIENTS")
    assert sasl is not None
    assert {name: word.reveal() for name, word in sasl.plain_users.items()} == {"alice": "hunter2"}
    assert caplog.messages == ["settings without effect here: listener.name.clients.ssl.keystore.location"]


@pytest.mark.parametrize("key", sorted(REFUSED.keys() - {"controller.listener.names"}))
def test_a_setting_that_restricts_clients_is_refused(key: str) -> None:
    with pytest.raises(SettingError, match=f"^{re.escape(key)}: .*; remove the setting to start the broker without it"):
        understand({key: "com.example.Plugin"})
    assert understand({key: ""}).config.node_id == 1


def test_an_authorizer_that_allows_everyone_everything_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    given = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    understand({**given, "allow.everyone.if.no.acl.found": "true"})
    assert caplog.messages == ["settings without effect here: allow.everyone.if.no.acl.found, authorizer.class.name"]
    with pytest.raises(SettingError, match=r"authorizer\.class\.name: .*access rules \(ACLs\) are not supported"):
        understand({**given, "allow.everyone.if.no.acl.found": "false"})


def test_a_restriction_of_a_single_listener_is_refused_too() -> None:
    key = "listener.name.clients.plain.sasl.server.callback.handler.class"
    with pytest.raises(SettingError, match=re.escape(key)):
        understand({key: "com.example.Handler"})


def test_security_settings_that_restrict_nothing_here_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "false",
        "security.inter.broker.protocol": "PLAINTEXT",
        "ssl.client.auth": "required",
        "early.start.listeners": "CONTROLLER",
    }
    config = understand(given).config
    assert caplog.messages == ["settings without effect here: allow.everyone.if.no.acl.found, super.users"]
    assert sorted(config.unused) == [
        "early.start.listeners",
        "principal.builder.class",
        "security.inter.broker.protocol",
        "ssl.client.auth",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listeners": "SSL://:9093"}, "listeners: SSL://:9093 needs SSL, which this broker does not support"),
        ({"listeners": "A://:1", "listener.security.protocol.map": "A:SASL_SSL"}, "listeners: A://:1 needs SASL_SSL"),
        ({"listeners": "C://:1", "controller.listener.names": "C"}, "has only listeners of controllers"),
        ({"log.dirs": "/a,/b"}, "log.dirs: this broker supports one data directory, but 2 are set"),
        ({"num.partitions": "none"}, "num.partitions"),
        ({"offsets.topic.replication.factor": "3"}, "set offsets.topic.replication.factor=1"),
    ],
)
def test_unsupported_server_properties_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        understand(given)


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\n")
    with pytest.raises(InvalidOption, match=r"server\.properties: num\.partitions"):
        read_server_properties(file)
    assert read_server_properties(file, {"num.partitions": "2"}).config.num_partitions == 2


def test_users_of_a_jaas_file(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text('KafkaServer { a.PlainLoginModule required user_alice="from the file"; };')
    file = tmp_path / "server.properties"
    listeners = "listeners=PLAINTEXT://:9092,A://:9093,B://:9094"
    protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,A:SASL_PLAINTEXT,B:SASL_PLAINTEXT"
    own = 'listener.name.b.plain.sasl.jaas.config=PlainLoginModule required user_bob="of its own";'
    file.write_text("\n".join([listeners, protocols, own, "sasl.enabled.mechanisms=PLAIN"]))
    config = read_server_properties(file, jvm_options=f"-Djava.security.auth.login.config={jaas}").config
    users = {name: sasl.plain_users.keys() for name in "AB" if (sasl := config.sasl_of(name)) is not None}
    assert users == {"A": {"alice"}, "B": {"bob"}}
    with pytest.raises(InvalidOption, match=r"listener\.name\.a\.plain\.sasl\.jaas\.config: PLAIN needs users"):
        read_server_properties(file)


def test_storage_needs_no_users(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=SASL_PLAINTEXT://:1\nsasl.enabled.mechanisms=PLAIN\nbroker.id=7\nlog.dir=/data\n")
    storage = read_storage_properties(file)
    assert (storage.data_dir, storage.node_id) == ("/data", 7)
    file.write_text("node.id=x\n")
    with pytest.raises(InvalidOption, match=r"server\.properties: node\.id: 'x' is not a whole number"):
        read_storage_properties(file)


def test_settings_that_kafka_does_not_have_are_ignored_with_the_nearest_name(caplog: pytest.LogCaptureFixture) -> None:
    understand({
        "log.retention.hour": "1",
        "nonsense.setting": "x",
        "super.users": "User:a",
        "listener.name.plaintext.ssl.keystore.location": "f",
    })  # fmt: skip
    assert caplog.messages == [
        "settings without effect here: listener.name.plaintext.ssl.keystore.location, super.users",
        "ignored log.retention.hour: no such setting; did you mean log.retention.hours?",
        "ignored nonsense.setting: no such setting",
    ]
