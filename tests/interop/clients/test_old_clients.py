"""Clients of Kafka 0.8.2, 0.9, 0.10, 0.11 and 1.0, on a broker of their own time and on one of 3.9, as Apache Kafka.

3.9 is the last release that serves them. There clients of today read what they write in the message formats of their
time, and the other way round.
"""

import pytest
from dirty_equals import Contains

from spark_kafka_native._protocol.errors import ErrorCode
from tests.interop.clients.conftest import Agents, Partner, ServerFor
from tests.interop.clients.stories import PARTITIONS, START_MS, follow_the_members, wait_until_shared
from tests.support.clients.agent import ForeignRecord
from tests.support.clients.agent_programs import OLD_CLIENTS, ForeignClient
from tests.support.clients.interface import Refused
from tests.support.servers.brokers import RECORDS_STAY, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

each_old_client = pytest.mark.parametrize("client", OLD_CLIENTS, ids=lambda client: client.name)


@pytest.mark.parametrize(
    ("client", "codec"),
    [pytest.param(client, codec, id=f"{client.name}-{codec}") for client in OLD_CLIENTS for codec in client.codecs],
)
def test_old_and_new_clients_read_each_other(
    client: ForeignClient, codec: str, old_server: ServerFor, new_client: Partner, agents: Agents
) -> None:
    server = old_server(client)
    servers, topic = server.bootstrap_servers, TopicMaker(server)()
    old, new = agents(client), agents(new_client(client))
    headers = (("one", "1"), ("one", "")) if client.headers else ()
    records = [
        ForeignRecord(f"value {number}, " * 20, f"key-{number}", 0, headers, START_MS + number) for number in range(200)
    ]
    assert old.produce(servers, topic, records[:100], codec) == list(range(100))
    assert new.produce(servers, topic, records[100:], codec) == list(range(100, 200))
    has_timestamps = client.made_for not in ("0.8.2", "0.9")
    for reader in (old, new):
        stored = reader.consume(servers, topic, {0: 200})
        assert [(record.offset, record.key, record.value) for record in stored] == [
            (number, record.key, record.value) for number, record in enumerate(records)
        ]
        if client.headers:
            assert {record.headers for record in stored} == {headers}
        if has_timestamps:
            assert [record.timestamp for record in stored] == [record.timestamp for record in records]


@each_old_client
def test_null_keys_and_values_in_old_formats(
    client: ForeignClient, old_server: ServerFor, new_client: Partner, agents: Agents
) -> None:
    server = old_server(client)
    servers, topic = server.bootstrap_servers, TopicMaker(server)()
    records = [ForeignRecord("value"), ForeignRecord(None, "key"), ForeignRecord("", ""), ForeignRecord("x" * 900_000)]
    agents(client).produce(servers, topic, records)
    for reader in (agents(client), agents(new_client(client))):
        stored = reader.consume(servers, topic, {0: len(records)})
        assert [(record.key, record.value) for record in stored] == [(record.key, record.value) for record in records]


@pytest.mark.parametrize(
    "client", [client for client in OLD_CLIENTS if client.protocols], ids=lambda client: client.name
)
def test_partitions_follow_the_members_of_a_group(client: ForeignClient, old_server: ServerFor, agents: Agents) -> None:
    server = old_server(client)
    follow_the_members(agents(client), server.bootstrap_servers, TopicMaker(server)(PARTITIONS), "classic")


def test_a_consumer_of_0_8_2_commits_without_joining(
    old_server: ServerFor, new_client: Partner, agents: Agents
) -> None:
    (client,) = [client for client in OLD_CLIENTS if client.made_for == "0.8.2"]
    server, agent = old_server(client), agents(client)
    servers, topic = server.bootstrap_servers, TopicMaker(server)(2)
    group = f"group-of-{topic}"
    assert agent.committed(servers, group, topic, [0, 1]) == {0: None, 1: None}
    agent.ask("commit_alone", servers=servers, group=group, topic=topic, offsets={0: 7, 1: 9})
    agent.ask("commit_alone", servers=servers, group=group, topic=topic, offsets={1: 4})
    for reader in (agent, agents(new_client(client))):
        assert reader.committed(servers, group, topic, [0, 1]) == {0: 7, 1: 4}


@pytest.mark.parametrize("client", [client for client in OLD_CLIENTS if client.offsets], ids=lambda client: client.name)
def test_where_partitions_begin_and_end(client: ForeignClient, old_server: ServerFor, agents: Agents) -> None:
    server, agent = old_server(client), agents(client)
    servers, topic = server.bootstrap_servers, TopicMaker(server)(2)
    agent.produce(servers, topic, [ForeignRecord("v", partition=1) for _ in range(5)])
    assert agent.offsets(servers, topic, [0, 1], "earliest") == {0: 0, 1: 0}
    assert agent.offsets(servers, topic, [0, 1], "latest") == {0: 0, 1: 5}


@pytest.mark.parametrize(
    "client", [client for client in OLD_CLIENTS if "topics" in client.admin], ids=lambda client: client.name
)
def test_topics_are_administered(client: ForeignClient, old_server: ServerFor, agents: Agents) -> None:
    server, agent = old_server(client), agents(client)
    servers, topic = server.bootstrap_servers, f"made-by-{client.name}"

    def config() -> tuple[str, str]:
        values = agent.ask("topic_config", servers=servers, topic=topic)
        return values["retention.ms"], values["max.message.bytes"]

    agent.ask("create_topic", servers=servers, topic=topic, partitions=2, configs={"retention.ms": "7200000"})
    eventually(lambda: agent.ask("topics", servers=servers), Contains(topic))
    eventually(lambda: sorted(agent.ask("describe_topic", servers=servers, topic=topic)), [[0, 1], [1, 1]])
    with pytest.raises(Refused) as refused:
        agent.ask("create_topic", servers=servers, topic=topic, partitions=2, configs={})
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert config()[0] == "7200000"
    agent.ask("alter_config", servers=servers, topic=topic, configs={"max.message.bytes": "2000"})
    # What was not named is as the broker has it again.
    eventually(config, (RECORDS_STAY["log.retention.ms"], "2000"))
    agent.ask("delete_topic", servers=servers, topic=topic)
    eventually(lambda: agent.ask("topics", servers=servers), ~Contains(topic))


@pytest.mark.parametrize(
    "client", [client for client in OLD_CLIENTS if "groups" in client.admin], ids=lambda client: client.name
)
def test_groups_are_described(client: ForeignClient, old_server: ServerFor, agents: Agents) -> None:
    server, agent = old_server(client), agents(client)
    servers, topic = server.bootstrap_servers, TopicMaker(server)(PARTITIONS)
    group = f"group-of-{topic}"
    member = agent.join(servers, group, [topic], f"{topic}-member")
    wait_until_shared([member], topic)
    assert group in agent.ask("groups", servers=servers)
    description = agent.ask("describe_group", servers=servers, group=group)
    parts = [[topic, partition] for partition in range(PARTITIONS)]
    assert description == {"state": "Stable", "members": {member.name: parts}}
    member.leave()
    assert agent.ask("describe_group", servers=servers, group=group) == {"state": "Empty", "members": {}}
