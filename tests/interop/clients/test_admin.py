"""Foreign clients administer topics, their configuration and their records."""

import time
from typing import Any

import pytest
from dirty_equals import Contains

from spark_kafka_native._protocol.errors import ErrorCode
from tests.interop.clients.conftest import Agents
from tests.support.clients.agent import ForeignRecord
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.clients.interface import Refused
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop


def each_client_that_can(what: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "client", [client for client in CLIENTS if what in client.admin], ids=lambda client: client.name
    )


@each_client_that_can("topics")
def test_topics_come_grow_and_go(client: ForeignClient, server: AnyBroker, agents: Agents) -> None:
    agent, servers = agents(client), server.bootstrap_servers
    topic = f"made-by-{client.name}"

    def refused(do: str, **arguments: Any) -> int:
        with pytest.raises(Refused) as refusal:
            agent.ask(do, servers=servers, **arguments)
        return refusal.value.code

    agent.ask("create_topic", servers=servers, topic=topic, partitions=2, configs={"retention.ms": "3600000"})
    eventually(lambda: agent.ask("topics", servers=servers), Contains(topic))
    ((_, leader), *_) = partitions = agent.ask("describe_topic", servers=servers, topic=topic)
    assert sorted(partitions) == [[0, leader], [1, leader]]
    agent.ask("add_partitions", servers=servers, topic=topic, total=3)
    eventually(lambda: len(agent.ask("describe_topic", servers=servers, topic=topic)), 3)
    agent.produce(servers, topic, [ForeignRecord("in the new one", partition=2)])

    def refused_new(name: str, **configs: str) -> int:
        return refused("create_topic", topic=name, partitions=1, configs=configs)

    assert refused_new(topic) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused_new("no/slashes") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused_new(f"odd-{topic}", **{"retention.ms": "soon"}) == ErrorCode.INVALID_CONFIG
    assert refused("add_partitions", topic=topic, total=2) == ErrorCode.INVALID_PARTITIONS

    agent.ask("delete_topic", servers=servers, topic=topic)
    eventually(lambda: agent.ask("topics", servers=servers), ~Contains(topic))
    assert refused("delete_topic", topic=topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_client_that_can("topic_config")
def test_a_topic_is_reconfigured(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers = agents(client), server.bootstrap_servers
    topic = new_topic(retention_ms="7200000")

    def config(name: str) -> str | None:
        value: str | None = agent.ask("topic_config", servers=servers, topic=topic)[name]
        return value

    assert config("retention.ms") == "7200000"
    assert config("cleanup.policy") == "delete"
    changes = {"retention.ms": "3600000", "max.message.bytes": "500"}
    agent.ask("alter_config", servers=servers, topic=topic, configs=changes)
    eventually(lambda: (config("retention.ms"), config("max.message.bytes")), ("3600000", "500"))
    with pytest.raises(Refused) as refused:
        agent.produce(servers, topic, [ForeignRecord("x" * 1000)])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(Refused) as refused:
        agent.ask("alter_config", servers=servers, topic=topic, configs={"max.message.bytes": "-5"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert config("max.message.bytes") == "500"


@each_client_that_can("delete_records")
def test_records_are_deleted(client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(2)
    agent.produce(servers, topic, [ForeignRecord(str(number), partition=number % 2) for number in range(100)])
    lows = agent.ask("delete_records", servers=servers, topic=topic, before={0: 20, 1: -1})
    assert lows == {"0": 20, "1": 50}
    assert agent.offsets(servers, topic, [0, 1], "earliest") == {0: 20, 1: 50}
    assert agent.offsets(servers, topic, [0, 1], "latest") == {0: 50, 1: 50}
    agent.produce(servers, topic, [ForeignRecord("after", partition=1)])
    stored = agent.consume(servers, topic, {0: 30, 1: 1})
    assert [record.offset for record in stored] == [*range(20, 50), 50]
    with pytest.raises(Refused) as refused:
        agent.ask("delete_records", servers=servers, topic=topic, before={0: 51})
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@each_client_that_can("topics")
def test_offsets_by_time(client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic()
    start = int(time.time() * 1000) - 3_600_000
    agent.produce(servers, topic, [ForeignRecord("v", timestamp=start + 10 * number) for number in range(50)])
    found = [agent.offsets(servers, topic, [0], start + late)[0] for late in (0, 1, 490, 491)]
    assert found == [0, 1, 49, -1]


@each_client_that_can("brokers")
def test_the_cluster_is_described(client: ForeignClient, server: AnyBroker, agents: Agents) -> None:
    found = agents(client).ask("brokers", servers=server.bootstrap_servers)
    assert found["brokers"] == [found["controller"]] == [1]
    assert found["cluster"]
