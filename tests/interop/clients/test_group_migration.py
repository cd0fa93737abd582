"""A group goes from the classic protocol to the consumer protocol and back, member by member, while it reads."""

import pytest

from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import PARTITIONS, REBALANCE_S, all_shared, produce_values, shared, values
from tests.support.clients.agent import Member
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

SPEAK_BOTH = [client for client in CLIENTS if "consumer" in client.protocols]


@pytest.mark.parametrize("client", SPEAK_BOTH, ids=lambda client: client.name)
def test_members_change_over_one_by_one(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(PARTITIONS)
    group = f"group-of-{topic}"

    def listed() -> ListedGroup:
        """The group, without a state while the coordinator does not know it."""
        with RawClient(servers) as admin:
            groups = {found.group_id: found for found in admin.ask(ListGroupsRequest(), 5).groups}
        return groups.get(group, ListedGroup(group_id=group))

    def sharing() -> tuple[object, str]:
        """Who owns what, and the group's state: partitions may be assigned before all members have confirmed it.

        A member that speaks the classic protocol and is still in an older generation as the last one of the new
        protocol leaves gets ILLEGAL_GENERATION, from Apache Kafka as well, and franz-go passes it to its user.
        """
        return shared(members), listed().group_state

    settled = (all_shared(topic), "Stable")

    members: list[Member] = []
    for number in range(2):
        members.append(agent.join(servers, group, [topic], f"{topic}-{number}"))
        eventually(sharing, settled, within_s=REBALANCE_S)
    assert listed().group_type.lower() == "classic"
    names = iter(f"{topic}-{number}" for number in range(2, 6))
    sent = 0
    for protocol in ("consumer", "classic"):
        for left in (1, 0):
            members.append(agent.join(servers, group, [topic], next(names), protocol=protocol))
            eventually(sharing, settled, within_s=REBALANCE_S)
            assert listed().group_type.lower() == "consumer"
            gone = members.pop(0)
            gone.commit()
            gone.leave()
            eventually(sharing, settled, within_s=REBALANCE_S)
            assert listed().group_type.lower() == ("consumer" if left or protocol == "consumer" else "classic")
            produce_values(agent, servers, topic, range(sent, sent + 40))
            sent += 40
            eventually(lambda: values(members)[-40:], [*range(sent - 40, sent)], within_s=REBALANCE_S)  # called at once
            for member in members:
                member.commit()
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(
        range(PARTITIONS), sent // PARTITIONS
    )
    for member in members:
        member.leave()
