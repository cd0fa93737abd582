import itertools
from collections.abc import Iterator, Mapping

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from tests.support.clients.native import config_of
from tests.support.report import skip_if
from tests.support.requests.classic_group import wait_for_coordinator
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server, TopicMaker
from tests.support.servers.mock_cluster import MockCluster, mock_cluster_unavailable


class _MockServer:
    """The mock cluster with topics made as on the brokers. It knows no topic configs."""

    def __init__(self, mock: MockCluster) -> None:
        self._mock = mock

    @property
    def bootstrap_servers(self) -> str:
        return self._mock.bootstrap_servers

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        assert not configs
        self._mock.create_topic(name, partitions, 3)


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[MockCluster]:
    """Three mock brokers; skips where librdkafka cannot be had."""
    skip_if(mock_cluster_unavailable())
    with MockCluster(3) as mock:
        yield mock


@pytest.fixture(scope="session", params=["bundled", "mock", pytest.param("apache", marks=pytest.mark.interop)])
def server(request: pytest.FixtureRequest) -> Server:
    """All servers, one after the other."""
    if request.param == "mock":
        return _MockServer(request.getfixturevalue("mock_cluster"))
    found: Server = request.getfixturevalue("bundled_broker" if request.param == "bundled" else "apache_kafka")
    return found


@pytest.fixture
def topic_on(server: Server) -> TopicMaker:
    """`topic_on(partitions=3)` makes a topic on the server and returns its name."""
    return TopicMaker(server)


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    with Cluster(config_of(server.bootstrap_servers)) as cluster:
        yield cluster


NUMBERS = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"test-{next(NUMBERS)}"


@pytest.fixture
def group_id(name: str) -> str:
    return f"group-of-{name}"


@pytest.fixture
def admin(server: Server, group_id: str) -> Iterator[RawClient]:
    with RawClient(server.bootstrap_servers) as client:
        wait_for_coordinator(client, group_id)
        yield client
