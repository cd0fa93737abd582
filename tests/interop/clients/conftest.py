"""The brokers and the clients of these tests; each starts when it is first needed and serves many tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess, EmbeddedBroker
from tests.support.clients.agent import Agent
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.programs.maven import MavenError
from tests.support.programs.toolchains import ToolMissing
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.servers.brokers import RECORDS_STAY, AnyBroker, TopicMaker

SETTINGS = {
    **RECORDS_STAY,
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
}
"""Brokers serve many tests. Members learn of a rebalance by a heartbeat; by default those of the consumer protocol wait
five seconds for it, and the coordinator 45 seconds for one that has vanished."""

LAST_RELEASE_FOR_OLD_CLIENTS = "3.9.1"

FIRST_USE_TIMEOUT_S = 500
"""The first test that needs a client waits for its downloads and compilers."""

Agents = Callable[[ForeignClient], Agent]
ServerFor = Callable[[ForeignClient], AnyBroker]
Partner = Callable[[ForeignClient], ForeignClient]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(FIRST_USE_TIMEOUT_S))


@pytest.fixture(scope="session")
def bundled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("bundled-broker"), settings=SETTINGS) as broker:
        yield broker


apache_server = kafka_of_its_own("session", settings=SETTINGS)


@pytest.fixture(scope="session", params=["bundled", "apache"])
def server(request: pytest.FixtureRequest) -> AnyBroker:
    """The bundled broker and Apache Kafka, one after the other."""
    broker: AnyBroker = request.getfixturevalue(f"{request.param}_server")
    return broker


@pytest.fixture(scope="module")
def bundled_3_9(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The bundled broker as the last release that serves clients of all times."""
    settings = {**SETTINGS, "as.version": "3.9"}
    with BrokerProcess(tmp_path_factory.mktemp("bundled-3.9"), settings=settings) as broker:
        yield broker


apache_3_9 = kafka_of_its_own(release=LAST_RELEASE_FOR_OLD_CLIENTS, settings=RECORDS_STAY)


@pytest.fixture(scope="module", params=["bundled", "apache"])
def server_3_9(request: pytest.FixtureRequest) -> AnyBroker:
    """The bundled broker and Apache Kafka as of 3.9."""
    broker: AnyBroker = request.getfixturevalue(f"{request.param}_3_9")
    return broker


@pytest.fixture(scope="module")
def bundled_as_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], AnyBroker]]:
    """The bundled broker as a broker of the requested release."""
    running: dict[str, EmbeddedBroker] = {}

    def server(release: str) -> EmbeddedBroker:
        if release not in running:
            settings = {**SETTINGS, "as.version": release}
            running[release] = EmbeddedBroker(tmp_path_factory.mktemp(f"bundled-{release}"), settings=settings)
            running[release].start()
        return running[release]

    yield server
    for broker in running.values():
        broker.stop()


@pytest.fixture(scope="module", params=["bundled", "bundled-as-of-its-time", "apache"])
def old_server(request: pytest.FixtureRequest) -> ServerFor:
    """A server for an old client: one that serves clients of all times, or one of the client's own."""
    if request.param == "bundled-as-of-its-time":
        of_release: Callable[[str], AnyBroker] = request.getfixturevalue("bundled_as_of")
        return lambda client: of_release(client.made_for)
    server: AnyBroker = request.getfixturevalue(f"{request.param}_3_9")
    return lambda _: server


@pytest.fixture
def new_client(request: pytest.FixtureRequest) -> Partner:
    """Of all clients the newest that the old client's server serves."""
    alone = request.node.callspec.params["old_server"] == "bundled-as-of-its-time"
    return lambda client: client if alone else CLIENTS[0]


@pytest.fixture
def new_topic(server: AnyBroker) -> TopicMaker:
    return TopicMaker(server)


@pytest.fixture(scope="module")
def running_agents() -> Iterator[dict[str, Agent]]:
    """By the names of their clients. They live as long as a module's tests, as many are Java processes."""
    running: dict[str, Agent] = {}
    yield running
    for agent in running.values():
        agent.close()


@pytest.fixture
def agents(running_agents: dict[str, Agent]) -> Iterator[Agents]:
    """A running agent for a client; skips where the client cannot be had."""

    def agent(client: ForeignClient) -> Agent:
        if client.name not in running_agents:
            try:
                running_agents[client.name] = client.start()
            except (ToolMissing, MavenError) as error:
                pytest.skip(f"{client.name} is not available: {error}")
        return running_agents[client.name]

    yield agent
    # A test that failed may have left members in groups, or an agent that no longer answers.
    for name in [name for name, agent in running_agents.items() if agent.members or not agent.alive]:
        running_agents.pop(name).close()
