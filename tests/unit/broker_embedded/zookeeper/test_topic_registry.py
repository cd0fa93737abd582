"""Topics and znodes become equal, whatever tools and clients have changed, and whenever the work is interrupted."""

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._zookeeper import topic_registry
from spark_kafka_native._zookeeper.errors import ConnectionLost
from tests.support.broker.driver import BrokerDriver
from tests.support.zookeeper.registered import SETTINGS, Registered, topic_node

LEADER = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[Registered]:
    with BrokerDriver(tmp_path / "data", SETTINGS) as broker:
        yield Registered(broker)


def test_topics_are_registered_with_their_states_and_settings(registered: Registered) -> None:
    registered.broker.create("events", 2, retention_ms="5")
    registered.synchronize()
    assert registered.nodes() == {
        "/brokers/topics/events": topic_node(registered.broker, "events", 2),
        "/brokers/topics/events/partitions/0/state": LEADER,
        "/brokers/topics/events/partitions/1/state": LEADER,
        "/config/topics/events": '{"version":1,"config":{"retention.ms":"5"}}',
    }


@pytest.mark.parametrize(
    ("release", "version", "keys"),
    [
        ("0.8.2", 1, set()),
        ("2.3", 1, set()),
        ("2.4", 2, {"adding_replicas", "removing_replicas"}),
        ("2.8", 3, {"adding_replicas", "removing_replicas", "topic_id"}),
    ],
)
def test_the_format_of_a_topic_is_that_of_the_release(
    registered: Registered, release: str, version: int, keys: set[str]
) -> None:
    registered.broker.create("events")
    registered.broker.passing_for(release)
    registered.open()
    registered.synchronize()
    found = json.loads(registered.zookeeper.nodes["/brokers/topics/events"].data)
    assert found["version"] == version
    assert found.keys() == {"version", "partitions"} | keys


def test_more_partitions_and_new_settings_are_registered(registered: Registered) -> None:
    registered.broker.create("events", retention_ms="5")
    registered.synchronize()
    registered.zookeeper.write({"/brokers/topics/events": topic_node(registered.broker, "events", 3)})
    registered.synchronize()
    assert registered.topics() == {"events": 3}
    assert registered.zookeeper.names("/brokers/topics/events/partitions") == ["0", "1", "2"]


def test_a_synchronized_registry_sends_no_requests(registered: Registered) -> None:
    registered.broker.create("events", 2)
    registered.synchronize()
    registered.zookeeper.requests.clear()
    registered.synchronize()
    assert registered.zookeeper.requests == []


def test_a_new_session_reads_the_nodes_and_writes_none(registered: Registered) -> None:
    registered.broker.create("events", 2)
    registered.synchronize()
    before = registered.nodes()
    registered.use()
    registered.zookeeper.requests.clear()
    registered.synchronize()
    assert not [each for each in registered.zookeeper.requests if each.startswith(("put", "delete"))]
    assert registered.nodes() == before


def test_a_topic_that_a_client_deletes_is_deleted_in_zookeeper(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    registered.broker.delete("events")
    assert registered.broker.broker.image.unregistering == {"events"}
    registered.synchronize()
    assert registered.nodes() == {}
    assert registered.broker.broker.image.unregistering == set()


def test_a_topic_deleted_while_zookeeper_was_away_does_not_come_back(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    registered.broker.delete("events")
    registered.broker.restart()
    registered.open()
    registered.synchronize()
    assert registered.topics() == {}
    assert registered.nodes() == {}


def test_a_topic_recreated_while_zookeeper_was_away_has_its_new_partitions(registered: Registered) -> None:
    registered.broker.create("events", 5)
    registered.broker.passing_for("1.1")  # its nodes have no topic ids
    registered.open()
    registered.synchronize()
    registered.broker.delete("events")
    registered.broker.passing_for("4.3").create("events", 2)
    registered.broker.passing_for("1.1")
    registered.open()
    registered.synchronize()
    assert registered.topics() == {"events": 2}
    assert registered.zookeeper.names("/brokers/topics/events/partitions") == ["0", "1"]


def test_a_topic_deleted_by_a_run_without_zookeeper_does_not_come_back(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    registered.broker.restart({"enable.zookeeper": "false"})
    registered.broker.delete("events")
    registered.broker.restart({"enable.zookeeper": "true"})
    registered.open()
    registered.synchronize()
    assert registered.topics() == {}
    assert registered.nodes() == {}


def test_a_new_topic_is_registered_by_two_requests(registered: Registered) -> None:
    registered.synchronize()
    registered.broker.create("events", 3, retention_ms="5")
    registered.zookeeper.requests.clear()
    registered.broker.run(registered.registry.synchronize())
    assert registered.zookeeper.requests == ["create_all /config/topics/events", "get /brokers/topics/events"]
    assert registered.broker.broker.image.topics["events"].registered_configs == {"retention.ms": "5"}
    before = registered.nodes()
    registered.broker.run(registered.zookeeper.session().delete("/brokers/topics/events"))
    registered.broker.run(registered.zookeeper.session().delete("/config/topics/events"))
    registered.synchronize()
    assert registered.nodes() == before


def test_a_new_topic_with_many_partitions_is_registered_by_several_requests(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_registry, "_PARTITIONS_IN_REQUEST", 2)
    registered.broker.create("events", 5)
    registered.synchronize()
    created = [each for each in registered.zookeeper.requests if each.startswith("create_all ")]
    assert created == [
        "create_all /config/topics/events",
        "create_all /brokers/topics/events/partitions/2",
        "create_all /brokers/topics/events/partitions/4",
    ]
    states = [each for each in registered.nodes() if each.endswith("/state")]
    assert states == [f"/brokers/topics/events/partitions/{index}/state" for index in range(5)]


def test_settings_in_zookeeper_of_another_topic_of_the_same_name_are_replaced(
    registered: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    registered.broker.create("events")
    registered.broker.create("kept")
    registered.broker.create("registered")
    registered.zookeeper.write(
        {
            "/config/topics/events": '{"version":1,"config":{"retention.ms":"7"}}',
            "/config/topics/kept": '{"version":1,"config":{}}',
            "/config/topics/registered": '{"version":1,"config":{"retention.ms":"7"}}',
            "/brokers/topics/registered": topic_node(registered.broker, "kept"),
        }
    )
    registered.synchronize()
    configs = registered.zookeeper.data("/config/topics")
    assert set(configs.values()) == {'{"version":1,"config":{}}'}
    assert [each.partition(" in ")[0] for each in caplog.messages] == [
        "/config/topics/events",
        "/config/topics/registered",
    ]


def test_a_topic_created_without_zookeeper_is_not_remembered(registered: Registered) -> None:
    registered.broker.restart({"enable.zookeeper": "false"})
    registered.broker.create("events")
    registered.broker.delete("events")
    assert registered.broker.broker.image.unregistering == set()


def test_settings_of_a_topic_whose_logs_were_moved_here_are_those_in_zookeeper(registered: Registered) -> None:
    """Apache Kafka has registered it with the same topic id, and its directory has no settings."""
    registered.create_without_zookeeper("moved", "other")
    configs = '{"version":1,"config":{"retention.ms":"-1"}}'
    registered.zookeeper.write(
        {
            "/brokers/topics/moved": topic_node(registered.broker, "moved"),
            "/brokers/topics/other": topic_node(registered.broker, "moved"),
            "/config/topics/moved": configs,
            "/config/topics/other": configs,
        }
    )
    registered.synchronize()
    topics = registered.broker.broker.image.topics
    assert (topics["moved"].configs, topics["other"].configs) == ({"retention.ms": "-1"}, {})
    assert registered.nodes()["/config/topics/moved"] == configs
    assert registered.nodes()["/config/topics/other"] == '{"version":1,"config":{}}'


# --- what tools write ------------------------------------------------------------------------------------------------


def test_a_topic_that_a_tool_creates_is_created(registered: Registered) -> None:
    registered.synchronize()
    registered.zookeeper.write(
        {
            "/config/topics/new": '{"version":1,"config":{"retention.ms":"7"}}',
            "/brokers/topics/new": '{"version":1,"partitions":{"1":[1],"0":[1]}}',
        }
    )
    registered.synchronize()
    assert registered.topics() == {"new": 2}
    assert registered.broker.broker.image.topics["new"].configs == {"retention.ms": "7"}
    assert registered.zookeeper.nodes["/brokers/topics/new"].data.decode() == topic_node(registered.broker, "new", 2)


def test_a_topic_that_a_tool_has_created_gets_the_partitions_that_a_tool_adds(registered: Registered) -> None:
    registered.zookeeper.write({"/brokers/topics/new": '{"version":1,"partitions":{"0":[1]}}'})
    with registered.zookeeper.events_come_late():
        registered.synchronize()
    registered.synchronize()
    registered.zookeeper.write({"/brokers/topics/new": '{"version":1,"partitions":{"0":[1],"1":[1]}}'})
    registered.synchronize()
    assert registered.topics() == {"new": 2}


def test_a_topic_that_a_tool_deletes_is_deleted(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    registered.zookeeper.write({"/admin/delete_topics/events": "", "/admin/delete_topics/missing": ""})
    registered.synchronize()
    assert registered.topics() == {}
    assert registered.nodes() == {}
    assert registered.zookeeper.names("/admin/delete_topics") == []


def test_delete_topic_enable_false_refuses_what_a_tool_deletes(
    registered: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    registered.broker.restart({"delete.topic.enable": "false"})
    registered.open()
    registered.broker.create("events")
    registered.zookeeper.write({"/admin/delete_topics/events": ""})
    registered.synchronize()
    assert registered.topics() == {"events": 1}
    assert registered.zookeeper.names("/admin/delete_topics") == []
    assert "topic events is not deleted as requested in ZooKeeper: delete.topic.enable is false" in caplog.messages


@pytest.mark.parametrize(
    "change",
    [
        '"events"',
        '{"version":1,"entity_type":"topics","entity_name":"events"}',
        '{"version":2,"entity_path":"topics/events"}',
    ],
)
def test_settings_that_a_tool_changes_are_those_of_the_topic(registered: Registered, change: str) -> None:
    registered.broker.create("events", retention_ms="5", segment_bytes="1048576")
    registered.synchronize()
    registered.zookeeper.write({"/config/topics/events": '{"version":1,"config":{"retention.ms":"9"}}'})
    registered.synchronize()
    assert registered.broker.broker.image.topics["events"].configs["retention.ms"] == "5", "it is not announced yet"
    registered.zookeeper.write({"/config/changes/config_change_0000000001": change})
    registered.synchronize()
    assert registered.broker.broker.image.topics["events"].configs == {"retention.ms": "9"}
    assert registered.zookeeper.names("/config/changes") == []


def test_settings_that_a_client_changes_go_before_those_in_zookeeper_that_no_tool_has_announced(
    registered: Registered,
) -> None:
    registered.broker.create("events", retention_ms="5")
    registered.zookeeper.write({"/config/topics/events": '{"version":1,"config":{"retention.ms":"9"}}'})
    registered.synchronize()
    assert registered.nodes()["/config/topics/events"] == '{"version":1,"config":{"retention.ms":"5"}}'


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"/brokers/topics/t": "x"}, "/brokers/topics/t in ZooKeeper is ignored: it is not JSON"),
        ({"/brokers/topics/t": "[]"}, "/brokers/topics/t in ZooKeeper is ignored: it is not a JSON object"),
        ({"/brokers/topics/t": '{"partitions":{}}'}, "/brokers/topics/t in ZooKeeper is ignored: it has no partitions"),
        (
            {"/brokers/topics/t": '{"partitions":{"1":[1]}}'},
            "/brokers/topics/t in ZooKeeper is ignored: its partitions are not numbered from 0",
        ),
        (
            {"/brokers/topics/t": '{"partitions":{"0":["1"]}}'},
            "/brokers/topics/t in ZooKeeper is ignored: its replicas are not lists of broker ids",
        ),
        ({"/brokers/topics/t": '{"partitions":{"0":[7]}}'}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"/brokers/topics/a b": '{"partitions":{"0":[1]}}'}, "INVALID_TOPIC_EXCEPTION"),
        (
            {"/config/topics/t": '{"config":{"no.such":"1"}}', "/brokers/topics/t": '{"partitions":{"0":[1]}}'},
            "INVALID_CONFIG",
        ),
        ({"/config/topics/t": "{}", "/brokers/topics/t": '{"partitions":{"0":[1]}}'}, "it has no config"),
        (
            {"/config/changes/config_change_1": '{"version":2,"entity_path":"others/1"}'},
            "/config/changes/config_change_1 in ZooKeeper is ignored: others/1 is not a topic, client, user",
        ),
        ({"/config/changes/config_change_1": "1"}, "it is not a JSON object"),
    ],
)
def test_what_the_broker_refuses_is_logged_once(
    registered: Registered, nodes: dict[str, str], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    registered.synchronize()
    registered.zookeeper.write(nodes)
    with caplog.at_level(logging.WARNING):
        registered.synchronize()
        assert [problem in message for message in caplog.messages] == [True]
        registered.zookeeper.write({"/brokers/topics/good": '{"partitions":{"0":[1]}}'})
        registered.synchronize()
    assert registered.topics() == {"good": 1}
    assert len(caplog.messages) == 1
    left = {path: data for path, data in nodes.items() if not path.startswith("/config/changes")}
    assert registered.zookeeper.data().items() >= left.items()
    assert registered.zookeeper.names("/config/changes") == []


def test_a_topic_that_was_refused_for_its_settings_is_created_in_a_new_session(registered: Registered) -> None:
    topic = {"/brokers/topics/t": '{"partitions":{"0":[1]}}'}
    registered.zookeeper.write({"/config/topics/t": '{"config":{"no.such":"1"}}', **topic})
    registered.synchronize()
    registered.zookeeper.write({"/config/topics/t": '{"config":{}}'})
    registered.use()
    registered.synchronize()
    assert registered.topics() == {"t": 1}


def test_refused_partitions_and_settings_of_a_topic_are_repaired(
    registered: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    registered.broker.create("events", retention_ms="5")
    registered.synchronize()
    before = registered.nodes()
    registered.zookeeper.write(
        {
            "/brokers/topics/events": '{"version":1,"partitions":{"0":[1],"1":[7]}}',
            "/config/topics/events": '{"version":1,"config":{"no.such":"9"}}',
            "/config/changes/config_change_1": '{"version":2,"entity_path":"topics/events"}',
        }
    )
    registered.synchronize()
    assert registered.nodes() == before
    problems = ("/config/changes/config_change_1 in ZooKeeper is ignored", "in ZooKeeper: no partitions are added")
    assert [problem for problem in problems if problem in caplog.text] == list(problems)


def test_a_refused_topic_is_created_once_its_node_is_valid(registered: Registered) -> None:
    registered.zookeeper.write({"/brokers/topics/t": '{"partitions":{"0":[7]}}'})
    registered.synchronize()
    registered.zookeeper.write({"/brokers/topics/t": '{"partitions":{"0":[1]}}'})
    registered.synchronize()
    assert registered.topics() == {"t": 1}


def test_a_damaged_node_of_a_topic_is_written_again(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    before = registered.nodes()
    registered.zookeeper.write({"/brokers/topics/events": "x", "/brokers/topics/events/partitions/0/state": "x"})
    registered.synchronize()
    assert registered.nodes() == before


def test_nodes_that_were_deleted_by_hand_are_written_again(registered: Registered) -> None:
    registered.broker.create("events")
    registered.synchronize()
    before = registered.nodes()
    registered.broker.run(registered.zookeeper.session().delete("/brokers/topics/events"))
    registered.synchronize()
    assert registered.nodes() == before


# --- interrupted at each request -------------------------------------------------------------------------------------


def test_work_that_is_interrupted_at_any_request_is_completed_by_the_next_start(tmp_path: Path) -> None:
    """Every number of requests before the connection is lost; then the broker is killed and started again."""
    interrupted = 0
    for fails_after in itertools.count():
        with BrokerDriver(tmp_path / str(fails_after), SETTINGS) as broker:
            registered = Registered(broker)
            for name in ("kept", "deleted", "removed"):
                broker.create(name)
            registered.synchronize()
            broker.delete("deleted")
            broker.create("created", 2, retention_ms="3")
            registered.zookeeper.write(
                {
                    "/admin/delete_topics/removed": "",
                    "/config/topics/kept": '{"version":1,"config":{"retention.ms":"9"}}',
                    "/config/changes/config_change_1": '{"version":2,"entity_path":"topics/kept"}',
                    "/brokers/topics/new": '{"version":1,"partitions":{"0":[1],"1":[1]}}',
                }
            )
            registered.use(fails_after=fails_after)
            try:
                broker.run(registered.registry.synchronize())
            except ConnectionLost:
                interrupted += 1
                broker.crash()
                registered.open()
                registered.synchronize()
                is_complete = False
            else:
                is_complete = True
                registered.use()
                registered.synchronize()
            assert registered.topics() == {"kept": 1, "created": 2, "new": 2}, fails_after
            assert broker.broker.image.topics["kept"].configs == {"retention.ms": "9"}, fails_after
            assert registered.zookeeper.names("/brokers/topics") == ["created", "kept", "new"], fails_after
            assert registered.zookeeper.names("/config/topics") == ["created", "kept", "new"], fails_after
            assert registered.zookeeper.names("/config/changes") == [], fails_after
            assert registered.zookeeper.names("/admin/delete_topics") == [], fails_after
            for name, count in registered.topics().items():
                assert registered.nodes()[f"/brokers/topics/{name}"] == topic_node(broker, name, count), fails_after
        if is_complete:
            break
    assert interrupted > 30
