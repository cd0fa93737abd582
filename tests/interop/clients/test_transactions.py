"""Transactions of foreign clients: what each of them, and librdkafka, sees of them at both isolation levels."""

from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker, ErrorCode
from tests.interop.clients.conftest import SETTINGS, Agents, ServerFor
from tests.interop.clients.transaction_stories import (
    PARTITIONS,
    copy_and_check,
    fence_and_check,
    records_of,
    visible,
    write_and_read,
)
from tests.support.clients.agent_programs import CLIENTS, OLD_CLIENTS, ForeignClient
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import AnyBroker, TopicMaker

pytestmark = pytest.mark.interop

CONFLUENT = CLIENTS[0]

each_client = pytest.mark.parametrize("client", [one for one in CLIENTS if one.transactions], ids=lambda one: one.name)
each_old_client = pytest.mark.parametrize(
    "client", [one for one in OLD_CLIENTS if one.transactions], ids=lambda one: one.name
)


@each_client
def test_committed_and_aborted_transactions(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent = agents(client)
    write_and_read(agent, [agent, agents(CONFLUENT)], server.bootstrap_servers, new_topic(PARTITIONS))


@each_client
def test_consume_transform_produce(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    copy_and_check(agents(client), server.bootstrap_servers, new_topic(PARTITIONS), new_topic(PARTITIONS))


@each_client
def test_a_producer_is_fenced_by_the_next(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    agent, servers, topic = agents(client), server.bootstrap_servers, new_topic(PARTITIONS)
    fence_and_check(agent, servers, topic)
    assert agent.alive
    agent.transact(servers, f"id-of-{topic}", topic, [(records_of("a"), True)])
    assert len(visible(servers, topic)) == 20


@each_client
def test_one_client_continues_where_another_stopped(
    client: ForeignClient, server: AnyBroker, new_topic: TopicMaker, agents: Agents
) -> None:
    """The id is the same, the versions of the requests are each client's own."""
    servers, topic = server.bootstrap_servers, new_topic(PARTITIONS)
    for number in range(2):
        for one in (client, CONFLUENT):
            for commit in (True, False):
                written = records_of(f"{one.name}-{number}-{commit}", 2)
                agents(one).transact(servers, f"id-of-{topic}", topic, [(written, commit)])
    assert len(visible(servers, topic)) == 2 * 2 * 2


@each_old_client
def test_old_clients(client: ForeignClient, old_server: ServerFor, agents: Agents) -> None:
    server, agent = old_server(client), agents(client)
    topics = TopicMaker(server)
    write_and_read(agent, [agent], server.bootstrap_servers, topics(PARTITIONS))
    copy_and_check(agent, server.bootstrap_servers, topics(PARTITIONS), topics(PARTITIONS))
    fence_and_check(agent, server.bootstrap_servers, topics(PARTITIONS))


@pytest.fixture(scope="module", params=BOTH)
def level_1_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """Both brokers with ``transaction.version`` 1, where clients of today add partitions before they write to them."""
    directory = tmp_path_factory.mktemp("level-1")
    with running_broker(request.param, directory, SETTINGS, transaction_version=1) as broker:
        yield broker


@each_client
def test_level_1_of_the_feature(client: ForeignClient, level_1_server: AnyBroker, agents: Agents) -> None:
    agent, servers, topics = agents(client), level_1_server.bootstrap_servers, TopicMaker(level_1_server)
    write_and_read(agent, [agent], servers, topics(PARTITIONS))
    copy_and_check(agent, servers, topics(PARTITIONS), topics(PARTITIONS))


LOST = ("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
REFUSALS = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.fixture
def faulty_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as broker:
        yield broker


@each_client
@pytest.mark.parametrize("when", ["before", "after"])
def test_connections_that_are_lost(
    client: ForeignClient, faulty_broker: EmbeddedBroker, agents: Agents, when: str
) -> None:
    """Whether the broker has done what was asked or not: every request is lost once, and all ends well."""
    agent, servers, topics = agents(client), faulty_broker.bootstrap_servers, TopicMaker(faulty_broker)
    source, target = topics(PARTITIONS), topics(PARTITIONS)
    faults = {api: faulty_broker.faults.drop(api, when=when, times=1) for api in LOST}
    copy_and_check(agent, servers, source, target)
    for api in ("Produce", "EndTxn"):
        assert faults[api].is_spent


@each_client
def test_a_coordinator_that_is_not_ready(client: ForeignClient, faulty_broker: EmbeddedBroker, agents: Agents) -> None:
    agent, servers, topics = agents(client), faulty_broker.bootstrap_servers, TopicMaker(faulty_broker)
    source, target = topics(PARTITIONS), topics(PARTITIONS)
    for api in ("InitProducerId", "EndTxn"):
        faulty_broker.faults.fail(api, *REFUSALS)
    copy_and_check(agent, servers, source, target)
    assert all(fault.is_spent for fault in faulty_broker.faults)
