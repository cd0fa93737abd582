"""What foreign clients produce, they and librdkafka read back: keys, values, headers, times, under every codec."""

import pytest

from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import records_come_back
from tests.support.clients.agent import ForeignRecord
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.servers.brokers import AnyBroker, TopicMaker

pytestmark = pytest.mark.interop

CONFLUENT = CLIENTS[0]


@pytest.mark.parametrize(
    ("client", "codec"),
    [pytest.param(client, codec, id=f"{client.name}-{codec}") for client in CLIENTS for codec in client.codecs],
)
def test_records_come_back_as_they_were_sent(
    client: ForeignClient, codec: str, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent = agents(client)
    records_come_back(agent, [agent, agents(CONFLUENT)], server, new_topic(2), codec, headers=client.headers)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_keys_and_values_that_are_not_there(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic()
    records = [
        ForeignRecord("value", None),
        ForeignRecord(None, "key"),
        ForeignRecord("", ""),
        ForeignRecord("x" * 900_000, "large"),
    ]
    agent.produce(servers, topic, records)
    for reader in (agent, agents(CONFLUENT)):
        stored = reader.consume(servers, topic, {0: len(records)})
        assert [(record.key, record.value) for record in stored] == [(record.key, record.value) for record in records]
