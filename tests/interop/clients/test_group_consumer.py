"""Members of `ConsumerConnector` and of other clients in one group."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import (
    PARTITIONS,
    REBALANCE_S,
    members_change_over,
    members_of_ours_join_and_leave,
    members_resume_after_a_restart,
    produce_values,
    values,
    wait_until_shared,
)
from tests.support.clients.agent import Agent, AgentError, TopicPartition
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.clients.interface import Refused
from tests.support.clients.our_members import GroupMember, Joins, OurMember, OurMembers
from tests.support.clients.topics import Topics
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.servers.brokers import AnyBroker, RestartableBroker, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

BY_NAME = {client.name: client for client in CLIENTS}
JAVA = BY_NAME["java-4.3.1"]
SPEAK_BOTH = [client for client in CLIENTS if "consumer" in client.protocols]
STICKY = ("sticky", "cooperative-sticky")


@pytest.fixture
def ours() -> Iterator[OurMembers]:
    members = OurMembers()
    yield members
    members.close()


# --- members come and go


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        pytest.param(client, assignor, id=f"{client.name}-{assignor}")
        for client in CLIENTS
        for assignor in client.assignors
    ],
)
def test_an_assignor_shares_partitions_with_members_of_other_clients(
    client: ForeignClient, assignor: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents, ours: OurMembers
) -> None:
    members_of_ours_join_and_leave(
        ours,
        agents(client),
        server.bootstrap_servers,
        new_topic(PARTITIONS),
        our_assignors=[assignor],
        their_assignors=[assignor],
    )


@pytest.mark.parametrize(
    ("our_assignors", "their_assignors"),
    [
        pytest.param([], [], id="defaults-of-both"),
        pytest.param([], ["cooperative-sticky"], id="eager-with-cooperative"),
        pytest.param(["cooperative-sticky"], [], id="cooperative-with-eager"),
        pytest.param(["sticky", "range"], ["roundrobin", "range"], id="one-in-common"),
    ],
)
def test_assignors_that_all_members_have_share_partitions(
    our_assignors: Sequence[str],
    their_assignors: Sequence[str],
    server: AnyBroker,
    new_topic: TopicMaker,
    agents: Agents,
    ours: OurMembers,
) -> None:
    members_of_ours_join_and_leave(
        ours,
        agents(JAVA),
        server.bootstrap_servers,
        new_topic(PARTITIONS),
        our_assignors=our_assignors,
        their_assignors=their_assignors,
    )


@pytest.mark.parametrize("client", SPEAK_BOTH, ids=lambda client: client.name)
def test_the_consumer_protocol_shares_partitions_with_members_of_other_clients(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents, ours: OurMembers
) -> None:
    members_of_ours_join_and_leave(
        ours, agents(client), server.bootstrap_servers, new_topic(PARTITIONS), protocol="consumer"
    )


@pytest.mark.parametrize(
    ("client", "ours_first"),
    [
        pytest.param(JAVA, True, id="ours-then-java"),
        pytest.param(JAVA, False, id="java-then-ours"),
        pytest.param(BY_NAME["confluent"], True, id="ours-then-confluent"),
        pytest.param(BY_NAME["franz-go"], False, id="franz-go-then-ours"),
    ],
)
def test_a_group_of_several_clients_migrates_to_the_consumer_protocol_and_back(
    client: ForeignClient,
    ours_first: bool,
    server: AnyBroker,
    new_topic: TopicMaker,
    agents: Agents,
    ours: OurMembers,
) -> None:
    agent = agents(client)
    joining: list[Joins] = [ours, agent] if ours_first else [agent, ours]
    members_change_over(joining, agent, server.bootstrap_servers, new_topic(PARTITIONS))


@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        pytest.param(JAVA, "classic", id="java-classic"),
        pytest.param(BY_NAME["confluent"], "consumer", id="confluent-consumer"),
    ],
)
def test_a_group_of_several_clients_resumes_when_the_broker_is_back(
    client: ForeignClient,
    protocol: str,
    server: RestartableBroker,
    new_topic: TopicMaker,
    agents: Agents,
    ours: OurMembers,
) -> None:
    agent = agents(client)
    members_resume_after_a_restart([ours, agent], agent, server, new_topic(PARTITIONS), protocol)


# --- assignments


class Wanted(NamedTuple):
    """A member that is to join."""

    name: str
    topics: Sequence[str]
    instance: str | None = None


def described(agent: Agent, server: AnyBroker, group: str) -> dict[str, list[TopicPartition]]:
    """The assignment of a stable group by client ids; nothing while it rebalances."""
    found = agent.ask("describe_group", servers=server.bootstrap_servers, group=group)
    if found["state"].lower() != "stable":
        return {}
    return {
        name: sorted((topic, partition) for topic, partition in partitions)
        for name, partitions in found["members"].items()
    }


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_our_leader_assigns_as_the_leader_of_java(
    assignor: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents, ours: OurMembers
) -> None:
    java, servers = agents(JAVA), server.bootstrap_servers
    a, b, c, d, e = (new_topic(partitions) for partitions in (1, 2, 5, 7, 3))
    # The leader's order is that of the instance ids, then that of the member ids, which begin with the client ids.
    wanted = [
        Wanted("m-2", [a, c, d]),
        Wanted("m-9", [b, c, d, e], "y"),
        Wanted("m-1", [c, d]),
        Wanted("m-3", [d, a, b], "z"),
    ]
    # The member that joins first leads the group.
    clients: dict[str, list[Joins]] = {
        f"java-of-{a}": [java] * 4,
        f"ours-leads-{a}": [ours, java, java, java],
        f"java-leads-{a}": [java, ours, java, ours],
        f"ours-of-{a}": [ours] * 4,
    }
    members: dict[str, list[GroupMember]] = {group: [] for group in clients}
    for number, (name, topics, instance) in enumerate(wanted):
        for group, joins in clients.items():
            client_id = f"{name}-in-{group}"
            joined = joins[number].join(servers, group, topics, client_id, instance=instance, assignors=[assignor])
            members[group].append(joined)
        for group in clients:
            eventually(
                lambda: len(described(java, server, group)),  # noqa: B023 - called at once
                number + 1,
                within_s=REBALANCE_S,
                retrying=(Refused, AgentError),  # before the coordinator knows the group
            )
    found = {group: described(java, server, group) for group in clients}
    in_order = {group: [found[group][member.name] for member in members[group]] for group in clients}
    by_java = in_order[f"java-of-{a}"]
    assert sorted(part for parts in by_java for part in parts) == sorted(
        (topic, number)
        for topic, partitions in ((a, 1), (b, 2), (c, 5), (d, 7), (e, 3))
        for number in range(partitions)
    )
    assert in_order == dict.fromkeys(clients, by_java)
    for group, joined_members in members.items():
        eventually(
            lambda: [member.look().assignment for member in joined_members],  # noqa: B023 - called at once
            in_order[group],
            within_s=REBALANCE_S,
        )
        # Static ones stay in the group; a member of Java's leaves only after the rebalance that it is in.
        for number in (0, 2):
            joined_members[number].leave()
        eventually(lambda: len(described(java, server, group)), 2, within_s=REBALANCE_S)  # noqa: B023 - called at once
        for number in (1, 3):
            joined_members[number].leave()


@pytest.mark.parametrize("ours_leads", [True, False], ids=["ours-leads", "java-leads"])
@pytest.mark.parametrize("assignor", STICKY)
@pytest.mark.parametrize("release", ["java-4.3.1", "java-2.8.2"])
def test_a_sticky_leader_knows_what_members_of_other_clients_had(
    release: str,
    assignor: str,
    ours_leads: bool,
    server: AnyBroker,
    new_topic: TopicMaker,
    agents: Agents,
    ours: OurMembers,
) -> None:
    java, servers, topic = agents(BY_NAME[release]), server.bootstrap_servers, new_topic(6)
    group = f"group-of-{topic}"
    clients: list[Joins] = [ours, java, java, ours] if ours_leads else [java, ours, ours, java]
    members: list[GroupMember] = []
    shares = ([6], [3, 3], [2, 2, 2], [1, 1, 2, 2])
    for number, (joins, share) in enumerate(zip(clients, shares, strict=True)):
        before = {member.name: set(member.assignment) for member in members}
        members.append(joins.join(servers, group, [topic], f"{topic}-{number}", assignors=[assignor]))
        eventually(lambda: sorted(len(member.look().assignment) for member in members), share, within_s=REBALANCE_S)
        wait_until_shared(members, topic, 6)
        for member in members[:-1]:
            assert set(member.assignment) <= before[member.name]
    for member in members:
        member.leave()


# --- static members


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        pytest.param(client, protocol, id=f"{client.name}-{protocol}")
        for client in (JAVA, BY_NAME["confluent"])
        for protocol in client.protocols
    ],
)
def test_a_static_member_keeps_its_partitions_without_a_rebalance_of_other_clients(
    client: ForeignClient,
    protocol: str,
    ours_first: bool,
    server: AnyBroker,
    new_topic: TopicMaker,
    agents: Agents,
    ours: OurMembers,
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(PARTITIONS)
    group, name = f"group-of-{topic}", f"{topic}-ours"

    def join_ours() -> OurMember:
        return ours.join(servers, group, [topic], name, protocol=protocol, instance=name)

    def join_theirs() -> GroupMember:
        return agent.join(servers, group, [topic], f"{topic}-theirs", protocol=protocol)

    if ours_first:
        first = join_ours()
        wait_until_shared([first], topic)
        other = join_theirs()
    else:
        other = join_theirs()
        wait_until_shared([other], topic)
        first = join_ours()
    wait_until_shared([first, other], topic)
    before = first.assignment
    produce_values(agent, servers, topic, range(40))
    eventually(lambda: values([first, other]), list(range(40)), within_s=REBALANCE_S)
    first.leave()
    again = join_ours()
    eventually(lambda: again.look().assignment, before, within_s=REBALANCE_S)
    wait_until_shared([again, other], topic)
    produce_values(agent, servers, topic, range(40, 80))
    eventually(lambda: values([first, again, other]), list(range(80)), within_s=REBALANCE_S)
    assert again.identity.generation == first.identity.generation
    for member in (again, other):
        member.leave()


# --- Kafka's tools


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_shows_our_member_and_its_offsets(
    protocol: str, server: AnyBroker, new_topic: TopicMaker, tools: KafkaTools, ours: OurMembers
) -> None:
    servers, topic = server.bootstrap_servers, new_topic(2)
    group = f"group-of-{topic}"

    def shown(*options: str) -> list[list[str]]:
        """The cells of the rows of the group."""
        output = tools.run("kafka-consumer-groups", "--describe", "--group", group, *options, server=servers).output
        return sorted(line.split() for line in output.splitlines() if line.split()[:1] == [group])

    with Topics(servers) as topics:
        topics.write(topic, ["0", "1", "2"], partition=[0, 0, 1])
    member = ours.join(servers, group, [topic], "our-client", protocol=protocol)
    wait_until_shared([member], topic, 2)
    eventually(lambda: values([member]), [0, 1, 2], within_s=REBALANCE_S)
    member.commit()
    who = [member.identity.member_id, "/127.0.0.1", "our-client"]
    assert shown("--members") == [[group, *who, "2"]]
    assert shown("--members", "--verbose")[0][6] == f"{topic}:0,1"
    offsets = [[group, topic, "0", "2", "2", "0"], [group, topic, "1", "1", "1", "0"]]
    assert shown() == [[*row, *who] for row in offsets]
    member.leave()
    assert shown("--members") == []
    assert shown() == [[*row, "-", "-", "-"] for row in offsets]
