"""Foreign clients log in at both brokers, and are refused there."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.clients.conftest import Agents
from tests.support.clients.agent import AgentError
from tests.support.clients.agent_programs import CLIENTS, ForeignClient
from tests.support.clients.interface import Refused
from tests.support.servers.brokers import TopicMaker
from tests.support.servers.sasl_brokers import SaslServer, sasl_broker

pytestmark = pytest.mark.interop

each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture(scope="module", params=["bundled", "apache"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslServer]:
    with sasl_broker(request.param, tmp_path_factory.mktemp("sasl")) as running:
        yield running


@each_client
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_it_writes_and_reads(broker: SaslServer, agents: Agents, client: ForeignClient, mechanism: str) -> None:
    login: dict[str, Any] = {"mechanism": mechanism, "user": "alice", "password": "alice-hunter2"}
    topic = TopicMaker(broker)()
    assert agents(client).ask("over_sasl", servers=broker.servers_of("SASL"), topic=topic, **login) == ["over SASL"]


@each_client
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(broker: SaslServer, agents: Agents, client: ForeignClient, mechanism: str) -> None:
    login: dict[str, Any] = {"mechanism": mechanism, "user": "alice", "password": "wrong"}
    topic = TopicMaker(broker)()
    with pytest.raises((Refused, AgentError)) as caught:
        agents(client).ask("over_sasl", servers=broker.servers_of("SASL"), topic=topic, **login)
    said = f"{caught.value} {caught.value.__cause__}".lower()
    assert "auth" in said or "credential" in said or "sasl" in said, said
