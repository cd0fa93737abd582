"""Clients, tools and errors change topics while they are registered: no request is lost, and none is applied twice."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._testing.brokers import creatable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.driver import BrokerDriver
from tests.support.zookeeper.registered import SETTINGS, Registered, topic_node

CHANGE = {"/config/changes/config_change_1": '{"version":2,"entity_path":"topics/t"}'}


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[Registered]:
    with BrokerDriver(tmp_path / "data", SETTINGS) as broker:
        yield Registered(broker)


async def recreate(broker: BrokerDriver, name: str) -> None:
    """Delete and create a topic, as a client does."""
    lifecycle, topics = broker.broker.topic_lifecycle, broker.broker.topics
    await lifecycle.delete(topics.image.topics[name])
    await topics.create(creatable(name, 1, {}))


def test_settings_of_a_deleted_topic_are_not_those_of_its_successor(registered: Registered) -> None:
    """A tool has changed the deleted one while the broker had no connection."""
    registered.broker.create("t", retention_ms="5")
    registered.synchronize()
    registered.zookeeper.write({"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}', **CHANGE})
    registered.broker.delete("t")
    registered.broker.create("t", cleanup_policy="compact")
    registered.use()
    registered.synchronize()
    assert registered.broker.broker.image.topics["t"].configs == {"cleanup.policy": "compact"}
    assert registered.nodes()["/config/topics/t"] == '{"version":1,"config":{"cleanup.policy":"compact"}}'
    assert registered.zookeeper.names("/config/changes") == []


def test_a_request_to_delete_does_not_delete_the_successor(registered: Registered) -> None:
    for name in ("a", "b"):
        registered.broker.create(name)
    registered.synchronize()
    registered.zookeeper.write({"/admin/delete_topics/a": "", "/admin/delete_topics/b": ""})
    session = registered.use()
    session.before("delete /brokers/topics/a", lambda: recreate(registered.broker, "b"))
    registered.synchronize()
    assert registered.topics() == {"b": 1}
    assert registered.zookeeper.names("/brokers/topics") == ["b"]


def test_settings_that_a_tool_writes_during_the_registration_are_applied(registered: Registered) -> None:
    registered.broker.create("t", retention_ms="5")
    registered.synchronize()
    session = registered.use()

    async def write_settings() -> None:
        registered.zookeeper.write({"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}'})

    session.before("create /config/topics/t", write_settings)
    registered.synchronize()
    registered.zookeeper.write(CHANGE)
    registered.synchronize()
    assert registered.broker.broker.image.topics["t"].configs == {"retention.ms": "6"}


def test_settings_that_a_tool_changes_as_soon_as_it_has_created_a_topic_are_applied(registered: Registered) -> None:
    registered.zookeeper.write({"/brokers/topics/t": '{"version":1,"partitions":{"0":[1]}}'})
    session = registered.use()

    async def write_settings() -> None:
        registered.zookeeper.write({"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}'})

    session.before("create /config/topics/t", write_settings)
    registered.synchronize()
    registered.zookeeper.write(CHANGE)
    registered.synchronize()
    assert registered.broker.broker.image.topics["t"].configs == {"retention.ms": "6"}


def test_settings_that_a_client_has_changed_are_written_also_after_a_restart(registered: Registered) -> None:
    registered.broker.create("t", retention_ms="5")
    registered.synchronize()
    topics = registered.broker.broker.topics
    registered.broker.run(topics.configure("t", lambda _: {"retention.ms": "7"}))
    registered.broker.restart()
    registered.open()
    registered.synchronize()
    assert registered.nodes()["/config/topics/t"] == '{"version":1,"config":{"retention.ms":"7"}}'


def test_a_topic_that_a_client_creates_meanwhile_is_not_created_by_a_tool_s_znode(registered: Registered) -> None:
    registered.zookeeper.write({"/brokers/topics/t": '{"version":1,"partitions":{"0":[1],"1":[1]}}'})
    topics = registered.broker.broker.topics
    session = registered.use()
    session.before("get /config/topics/t", lambda: topics.create(creatable("t", 3, {})))
    registered.synchronize()
    assert registered.topics() == {"t": 3}
    assert registered.nodes()["/brokers/topics/t"] == topic_node(registered.broker, "t", 3)


def test_a_repaired_setting_and_its_notification_create_a_refused_topic(registered: Registered) -> None:
    registered.zookeeper.write(
        {
            "/config/topics/t": '{"version":1,"config":{"retention.ms":"x"}}',
            "/brokers/topics/t": '{"version":1,"partitions":{"0":[1]}}',
        }
    )
    registered.synchronize()
    assert registered.topics() == {}
    registered.zookeeper.write({"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}', **CHANGE})
    registered.synchronize()
    assert registered.topics() == {"t": 1}


@pytest.mark.parametrize(
    "nodes",
    [
        {"/brokers/topics/new": '{"version":1,"partitions":{"0":[1]}}'},
        {"/brokers/topics/t": '{"version":1,"partitions":{"0":[1],"1":[1]}}'},
        {"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}', **CHANGE},
        {"/admin/delete_topics/t": ""},
    ],
    ids=["create", "add partitions", "configure", "delete"],
)
def test_a_request_is_applied_after_an_error_of_the_disk(
    registered: Registered, nodes: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def state() -> object:
        topics = registered.broker.broker.image.topics
        return {name: (len(topic.partitions), topic.configs) for name, topic in topics.items()}

    async def full(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    registered.broker.create("t", retention_ms="5")
    registered.synchronize()
    before = state()
    registered.zookeeper.write(nodes)
    with monkeypatch.context() as patched:
        patched.setattr(registered.broker.broker._store, "_write", full)
        for _ in range(2):
            assert not registered.broker.run(registered.registry.synchronize())
    assert state() == before
    assert [message for message in caplog.messages if "no space left" in message] == [
        message for message in caplog.messages if message.endswith("; trying again")
    ]
    registered.synchronize()
    assert state() != before


@pytest.mark.parametrize(
    "path",
    ["/brokers/topics/secret", "/config/changes/config_change_1", "/admin/delete_topics/t", "/admin/delete_topics"],
)
def test_a_znode_that_cannot_be_read_does_not_stop_the_others(
    registered: Registered, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    registered.broker.create("t")
    registered.zookeeper.write({path: "x", "/brokers/topics/new": '{"version":1,"partitions":{"0":[1]}}'})
    session = registered.use()
    session.refused = path
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not registered.broker.run(registered.registry.synchronize())
    assert registered.topics() == {"t": 1, "new": 1}
    assert {"t", "new"} <= set(registered.zookeeper.names("/brokers/topics"))
    assert caplog.messages == [f"{path} in ZooKeeper: {path}: access is denied; trying again"]


@pytest.mark.parametrize("name", ["..", "a/../b", "\\ud800", "\\u0000", ""])
def test_a_change_of_an_impossible_topic_is_ignored(registered: Registered, name: str) -> None:
    change = f'{{"version":2,"entity_path":"topics/{name}"}}'
    registered.zookeeper.write({"/config/changes/config_change_1": change})
    registered.broker.create("events")
    registered.zookeeper.requests.clear()
    registered.synchronize()
    assert not [request for request in registered.zookeeper.requests if request.startswith("get /config/topics/")][1:]
    assert registered.zookeeper.names("/config/changes") == []
    assert registered.zookeeper.names("/brokers/topics") == ["events"]


@pytest.mark.parametrize("request_", ["get /admin/delete_topics/t", "get /config/topics/t"])
def test_a_topic_recreated_while_a_request_is_read_is_not_changed_by_it(registered: Registered, request_: str) -> None:
    registered.broker.create("t", 5)
    registered.synchronize()
    first = registered.broker.topic_id("t")
    node = {"/admin/delete_topics/t": ""} if "delete" in request_ else CHANGE
    registered.zookeeper.write({"/config/topics/t": '{"version":1,"config":{"retention.ms":"6"}}', **node})
    session = registered.use()
    session.before(request_, lambda: recreate(registered.broker, "t"))
    registered.synchronize()
    assert registered.topics() == {"t": 1}
    assert registered.broker.topic_id("t") != first
    assert registered.broker.broker.image.topics["t"].configs == {}
    assert registered.nodes()["/brokers/topics/t"] == topic_node(registered.broker, "t")
    assert registered.nodes()["/config/topics/t"] == '{"version":1,"config":{}}'


def test_a_topic_recreated_while_its_znode_is_read_keeps_its_partitions(registered: Registered) -> None:
    registered.broker.create("t", 5)
    registered.synchronize()
    session = registered.use()
    session.before("get /brokers/topics/t", lambda: recreate(registered.broker, "t"))
    registered.synchronize()
    assert registered.topics() == {"t": 1}
    assert registered.nodes()["/brokers/topics/t"] == topic_node(registered.broker, "t")


def test_a_deleted_topic_whose_znodes_stay_is_not_registered_again(registered: Registered) -> None:
    """A broker that may not delete its settings would delete and register its successor again and again."""
    registered.broker.create("t")
    registered.synchronize()
    registered.broker.delete("t")
    registered.broker.create("t")
    session = registered.use()
    session.refused = "/config/topics/t"
    registered.zookeeper.requests.clear()
    for _ in range(3):
        registered.woken = 0
        assert not registered.broker.run(registered.registry.synchronize())
    assert registered.woken == 0
    session.refused = ""
    registered.synchronize()
    assert registered.nodes()["/brokers/topics/t"] == topic_node(registered.broker, "t")


def test_settings_of_a_moved_topic_that_this_release_does_not_have_are_left_out(registered: Registered) -> None:
    registered.create_without_zookeeper("moved")
    configs = '{"version":1,"config":{"cleanup.policy":"compact","message.format.version":"2.0"}}'
    registered.zookeeper.write(
        {"/brokers/topics/moved": topic_node(registered.broker, "moved"), "/config/topics/moved": configs}
    )
    registered.synchronize()
    assert registered.broker.broker.image.topics["moved"].configs == {"cleanup.policy": "compact"}
    assert registered.nodes()["/config/topics/moved"] == configs


def test_a_znode_without_data_is_refused(registered: Registered) -> None:
    registered.zookeeper.write({"/brokers/topics/t": "", "/config/changes/config_change_1": ""})
    registered.broker.create("events")
    registered.synchronize()
    assert registered.topics() == {"events": 1}
    assert registered.zookeeper.names("/config/changes") == []
