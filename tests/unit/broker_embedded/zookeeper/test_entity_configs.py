"""Quotas, users and settings of brokers that tools change through ZooKeeper."""

import base64
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker_embedded._quotas.entities import EntityFilter
from broker_embedded._security.credentials import ScramCredential, ScramUser
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.driver import BrokerDriver
from tests.support.zookeeper.registered import SETTINGS, Registered


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[Registered]:
    with BrokerDriver(tmp_path / "data", SETTINGS) as broker:
        yield Registered(broker)


def change(registered: Registered, entity: str, configs: Mapping[str, str]) -> None:
    """Write the settings of an entity and their notification, as tools do."""
    announce(registered, entity, json.dumps({"version": 1, "config": configs}))


def announce(registered: Registered, entity: str, data: str) -> None:
    notification = json.dumps({"version": 2, "entity_path": entity})
    registered.zookeeper.write({f"/config/{entity}": data, "/config/changes/config_change_1": notification})
    registered.synchronize()
    assert registered.zookeeper.names("/config/changes") == []


def quotas(registered: Registered) -> dict[str, dict[str, float]]:
    """The quotas of all entities."""
    found = registered.broker.broker.quotas.describe(EntityFilter([], strict=False))
    return {str(entity): dict(values) for entity, values in found}


def credential(password: str, mechanism: str = "SCRAM-SHA-256") -> ScramCredential:
    return ScramCredential.of_password(mechanism, Secret(password), salt=b"salt")


def text_of(found: ScramCredential) -> str:
    """A credential as Apache Kafka's tools write it."""
    parts = {name: base64.b64encode(getattr(found, name)).decode() for name in ("salt", "stored_key", "server_key")}
    return ",".join(f"{key}={value}" for key, value in {**parts, "iterations": str(found.iterations)}.items())


def names(registered: Registered) -> list[ScramUser]:
    return sorted(registered.broker.broker.scram_users.names())


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("clients/etl", "client-id etl"),
        ("clients/<default>", "client-id <default>"),
        ("users/ann", "user ann"),
        ("users/a%2Fb%20c", "user a/b c"),
        ("users/<default>", "user <default>"),
        ("users/ann/clients/etl", "user ann, client-id etl"),
        ("users/<default>/clients/<default>", "user <default>, client-id <default>"),
    ],
)
def test_quotas_of_an_entity_are_replaced(registered: Registered, path: str, entity: str) -> None:
    change(registered, path, {"producer_byte_rate": "1024", "request_percentage": "12.5"})
    assert quotas(registered) == {entity: {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}
    change(registered, path, {"consumer_byte_rate": "7"})
    assert quotas(registered) == {entity: {"consumer_byte_rate": 7.0}}
    registered.broker.restart()
    assert quotas(registered) == {entity: {"consumer_byte_rate": 7.0}}
    registered.open()
    change(registered, path, {})
    assert quotas(registered) == {}


def test_quotas_of_addresses_and_of_the_first_format_are_applied(registered: Registered) -> None:
    change(registered, "ips/127.0.0.1", {"connection_creation_rate": "5"})
    registered.zookeeper.write(
        {
            "/config/clients/old": '{"version":1,"config":{"producer_byte_rate":"3"}}',
            "/config/changes/config_change_1": '{"version":1,"entity_type":"clients","entity_name":"old"}',
        }
    )
    registered.synchronize()
    assert quotas(registered) == {
        "ip 127.0.0.1": {"connection_creation_rate": 5.0},
        "client-id old": {"producer_byte_rate": 3.0},
    }


def test_credentials_of_a_user_are_those_of_the_znode(registered: Registered) -> None:
    users = registered.broker.broker.scram_users
    first, second = credential("first"), credential("second", "SCRAM-SHA-512")
    change(registered, "users/ann", {"SCRAM-SHA-256": text_of(first), "SCRAM-SHA-512": text_of(second)})
    found = users.credential(ScramUser("ann", "SCRAM-SHA-256"))
    assert found is not None
    assert (found.stored_key, found.server_key, found.iterations) == (first.stored_key, first.server_key, 4096)
    change(registered, "users/ann", {"SCRAM-SHA-512": text_of(second), "producer_byte_rate": "5"})
    assert names(registered) == [ScramUser("ann", "SCRAM-SHA-512")]
    assert quotas(registered) == {"user ann": {"producer_byte_rate": 5.0}}
    registered.broker.restart()
    assert names(registered) == [ScramUser("ann", "SCRAM-SHA-512")]
    registered.open()
    change(registered, "users/ann", {})
    assert (names(registered), quotas(registered)) == ([], {})


def test_a_quota_of_a_user_keeps_credentials_that_are_not_of_zookeeper(tmp_path: Path) -> None:
    first = {"add.scram": "SCRAM-SHA-256=[name=ann,password=secret]"}
    with BrokerDriver(tmp_path / "data", {**SETTINGS, **first}) as broker:
        registered = Registered(broker)
        change(registered, "users/ann", {"producer_byte_rate": "5"})
        assert names(registered) == [ScramUser("ann", "SCRAM-SHA-256")]


def test_settings_of_brokers_are_replaced(registered: Registered) -> None:
    change(registered, "brokers/<default>", {"max.connections": "77", "log.retention.ms": "1000"})
    change(registered, "brokers/1", {"max.connections": "88"})
    config = registered.broker.broker.config
    assert (config.max_connections, config.log.retention_ms) == (88, 1000)
    change(registered, "brokers/1", {})
    change(registered, "brokers/<default>", {"max.connections": "77"})
    config = registered.broker.broker.config
    assert (config.max_connections, config.log.retention_ms) == (77, 7 * 24 * 3_600_000)


@pytest.mark.parametrize(
    ("entity", "data", "problem"),
    [
        ("clients/a", "x", "it is not JSON"),
        ("clients/a", "{}", "it has no config"),
        ("clients/a", '{"config":{"producer_byte_rate":"many"}}', "producer_byte_rate is 'many', not a number"),
        ("clients/a", '{"config":{"producer_byte_rate":"-1"}}', "producer_byte_rate must be greater than 0"),
        ("clients/a", '{"config":{"connection_creation_rate":"1"}}', "'connection_creation_rate' is not a quota of"),
        ("clients/a", '{"config":{"SCRAM-SHA-256":"hunter2"}}', "SCRAM-SHA-256 is neither a quota nor a SCRAM"),
        ("users/<default>", '{"config":{"SCRAM-SHA-256":"hunter2"}}', "SCRAM-SHA-256 is neither a quota nor a SCRAM"),
        ("users/a", '{"config":{"SCRAM-SHA-256":"hunter2"}}', "SCRAM-SHA-256 is not salt=...,stored_key=...,server"),
        (
            "users/a",
            '{"config":{"SCRAM-SHA-256":"salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096"}}',
            "SCRAM-SHA-256 is not salt=...",
        ),
        ("users/a/clients", '{"config":{}}', "users/a/clients is not a topic, client, user"),
        ("clients/a/users/b", '{"config":{}}', "clients/a/users/b is not a topic, client, user"),
        ("brokers/2", '{"config":{}}', "Unexpected broker id, expected 1, but received 2"),
        ("brokers/1", '{"config":{"max.connections":"x"}}', "max.connections: 'x' is not a whole number"),
        ("brokers/1", '{"config":{"ssl.keystore.password":"x"}}', "ssl.keystore.password is encrypted by password.enc"),
    ],
)
def test_what_is_refused_is_logged_and_changes_nothing(
    registered: Registered, entity: str, data: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        announce(registered, entity, data)
    (message,) = caplog.messages
    assert message.startswith(f"/config/changes/config_change_1 in ZooKeeper is ignored: {problem}")
    assert "hunter2" not in message
    assert (quotas(registered), names(registered)) == ({}, [])
    assert registered.broker.broker.config.max_connections == 2**31 - 1


@pytest.mark.parametrize("entity", ["", "clients", "clients/..", "clients/\0", "clients//a", "clients/\ud800"])
def test_an_impossible_path_is_ignored(registered: Registered, entity: str, caplog: pytest.LogCaptureFixture) -> None:
    notification = json.dumps({"version": 2, "entity_path": entity})
    registered.zookeeper.write({"/config/changes/config_change_1": notification})
    registered.synchronize()
    assert registered.zookeeper.names("/config/changes") == []
    assert len([each for each in caplog.messages if " is ignored: " in each]) == 1


@pytest.mark.parametrize(
    ("entity", "configs"),
    [
        ("\u00fc" * 10_000, {}),
        ("clients/a/" + "x" * 10_000, {}),
        ("clients/a", {"producer_byte_rate": "x" * 10_000}),
        ("clients/a", {"x" * 10_000: "1"}),
    ],
)
def test_long_paths_keys_and_values_are_cut_in_the_log(
    registered: Registered, entity: str, configs: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    change(registered, entity, configs)
    (message,) = caplog.messages
    assert "/config/changes/config_change_1 in ZooKeeper is ignored: " in message
    assert len(message) < 300


def test_a_change_is_applied_after_an_error_of_the_disk(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    registered.zookeeper.write(
        {
            "/config/clients/a": '{"version":1,"config":{"producer_byte_rate":"3"}}',
            "/config/changes/config_change_1": '{"version":2,"entity_path":"clients/a"}',
        }
    )
    with monkeypatch.context() as patched:
        patched.setattr(registered.broker.broker._store, "_write", full)
        assert not registered.broker.run(registered.registry.synchronize())
    assert quotas(registered) == {}
    registered.synchronize()
    assert quotas(registered) == {"client-id a": {"producer_byte_rate": 3.0}}
