"""Groups of foreign clients: members come and go, partitions follow, and what was committed is not read again."""

import pytest
from dirty_equals import IsInt

from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import (
    PARTITIONS,
    REBALANCE_S,
    follow_the_members,
    members_resume_after_a_restart,
    produce_values,
    values,
    wait_until_shared,
)
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.clients.interface import Refused
from tests.support.servers.brokers import AnyBroker, RestartableBroker, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

each_protocol = pytest.mark.parametrize(
    ("client", "protocol"),
    [
        pytest.param(client, protocol, id=f"{client.name}-{protocol}")
        for client in CLIENTS
        for protocol in client.protocols
    ],
)


@each_protocol
def test_partitions_follow_the_members_of_a_group(
    client: ForeignClient, protocol: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    follow_the_members(agents(client), server.bootstrap_servers, new_topic(PARTITIONS), protocol)


@each_protocol
def test_members_see_partitions_that_are_added(
    client: ForeignClient, protocol: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(2)
    group = f"group-of-{topic}"
    members = [agent.join(servers, group, [topic], f"{topic}-{number}", protocol=protocol) for number in range(2)]
    wait_until_shared(members, topic, 2)
    agent.ask("add_partitions", servers=servers, topic=topic, total=PARTITIONS)
    wait_until_shared(members, topic)
    produce_values(agent, servers, topic, range(40))
    eventually(lambda: len(values(members)), IsInt(ge=40), within_s=REBALANCE_S)
    assert values(members) == list(range(40))
    for member in members:
        member.leave()


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.static_members], ids=lambda client: client.name)
def test_a_static_member_comes_back_to_its_partitions(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(PARTITIONS)
    group = f"group-of-{topic}"
    names = [f"{topic}-{number}" for number in range(2)]
    members = [agent.join(servers, group, [topic], name, instance=name) for name in names]
    wait_until_shared(members, topic)
    before = [member.assignment for member in members]
    members[1].leave()
    again = agent.join(servers, group, [topic], names[1], instance=names[1])
    eventually(lambda: again.look().assignment, before[1], within_s=REBALANCE_S)
    assert members[0].look().assignment == before[0]
    for member in (members[0], again):
        member.leave()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_groups_are_listed_described_and_deleted(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    if "groups" not in client.admin:
        pytest.skip(f"{client.name} administers no groups")
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(2)
    group = f"group-of-{topic}"
    member = agent.join(servers, group, [topic], f"{topic}-member")
    wait_until_shared([member], topic, 2)
    assert group in agent.ask("groups", servers=servers)
    description = agent.ask("describe_group", servers=servers, group=group)
    assert description["state"].lower() == "stable"
    assert {name: sorted(parts) for name, parts in description["members"].items()} == {
        member.name: [[topic, 0], [topic, 1]]
    }
    produce_values(agent, servers, topic, [4, 8])
    eventually(lambda: len(values([member])), 2)
    member.commit()
    if "delete_group" not in client.admin:
        member.leave()
        return
    with pytest.raises(Refused) as refused:
        agent.ask("delete_group", servers=servers, group=group)
    assert refused.value.code == 68  # NON_EMPTY_GROUP
    member.leave()
    description = agent.ask("describe_group", servers=servers, group=group)
    assert (description["state"].lower(), description["members"]) == ("empty", {})
    if "alter_offsets" in client.admin:
        agent.ask("alter_offsets", servers=servers, group=group, topic=topic, offsets={0: 1, 1: 0})
        assert agent.committed(servers, group, topic, [0, 1]) == {0: 1, 1: 0}
    if "delete_offsets" in client.admin:
        agent.ask("delete_offsets", servers=servers, group=group, topic=topic, partitions=[0])
        assert agent.committed(servers, group, topic, [0]) == {0: None}
    agent.ask("delete_group", servers=servers, group=group)
    assert group not in agent.ask("groups", servers=servers)
    assert agent.committed(servers, group, topic, [0, 1]) == {0: None, 1: None}


def some_protocols(*names: str) -> pytest.MarkDecorator:
    """`client/protocol` pairs; each of these stories takes its time."""
    clients = {client.name: client for client in CLIENTS}
    return pytest.mark.parametrize(
        ("client", "protocol"),
        [pytest.param(clients[name.partition("/")[0]], name.partition("/")[2], id=name) for name in names],
    )


@some_protocols("confluent/classic", "java-4.3.1/consumer")
def test_partitions_of_a_member_that_vanished_are_given_to_others(
    client: ForeignClient, protocol: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(PARTITIONS)
    group = f"group-of-{topic}"
    staying = agent.join(servers, group, [topic], f"{topic}-staying", protocol=protocol)
    doomed = client.start()
    try:
        vanishing = doomed.join(servers, group, [topic], f"{topic}-vanishing", protocol=protocol)
        wait_until_shared([staying, vanishing], topic)
        produce_values(agent, servers, topic, range(40))
        eventually(lambda: len(values([staying, vanishing])), 40, within_s=REBALANCE_S)
        staying.commit()
    finally:
        doomed.close()
    assert vanishing.records
    wait_until_shared([staying], topic)
    # It had committed nothing, so what it read is read again.
    eventually(lambda: values([staying]), list(range(40)), within_s=REBALANCE_S)
    staying.leave()


@some_protocols("confluent/classic", "confluent/consumer", "java-4.3.1/classic", "kafkajs/classic", "franz-go/consumer")
def test_a_group_resumes_when_the_broker_is_back(
    client: ForeignClient, protocol: str, server: RestartableBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent = agents(client)
    members_resume_after_a_restart([agent, agent], agent, server, new_topic(PARTITIONS), protocol)
