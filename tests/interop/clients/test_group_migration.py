"""A group goes from the classic protocol to the consumer protocol and back, member by member, while it reads."""

import pytest

from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import PARTITIONS, members_change_over
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.servers.brokers import AnyBroker, TopicMaker

pytestmark = pytest.mark.interop

SPEAK_BOTH = [client for client in CLIENTS if "consumer" in client.protocols]


@pytest.mark.parametrize("client", SPEAK_BOTH, ids=lambda client: client.name)
def test_members_change_over_one_by_one(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent = agents(client)
    members_change_over([agent], agent, server.bootstrap_servers, new_topic(PARTITIONS))
