from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.requests.classic_group import wait_for_coordinator
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import is_served
from tests.support.requests.transactions import LEVELS, RawProducer
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import Server, TopicMaker
from tests.support.waiting import eventually

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
}
MakeProducer = Callable[..., RawProducer]


@pytest.fixture(scope="package", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Both brokers, set up for transactions that time out soon."""
    with running_broker(request.param, tmp_path_factory.mktemp("transactions"), SETTINGS) as broker:
        yield broker
        if isinstance(broker, BrokerProcess):
            broker.kill()  # its data is not needed, so nothing needs to be flushed


@pytest.fixture(params=LEVELS, ids=lambda level: f"level{level}")
def level(request: pytest.FixtureRequest) -> int:
    """The level of transaction.version of the test's producers."""
    number: int = request.param
    return number


@pytest.fixture
def new_producer(server: Server, name: str) -> Iterator[MakeProducer]:
    """`new_producer(level=2)` is a producer of the test's transactional id, or another, that has not begun."""
    with ExitStack() as connections:

        def make(transactional_id: str = name, **others: Any) -> RawProducer:
            return connections.enter_context(RawProducer(server.bootstrap_servers, transactional_id, **others))

        yield make


@pytest.fixture
def producer(new_producer: MakeProducer, level: int) -> RawProducer:
    """One that has begun, of each level."""
    return new_producer(level=level).begin()


@pytest.fixture
def new_topic(server: Server, reader: RawClient) -> TopicMaker:
    """`new_topic(2)` makes a topic that can be written to, and returns its name."""

    class ReadyTopics(TopicMaker):
        def __call__(self, partitions: int = 1, **configs: str) -> str:
            made = super().__call__(partitions, **configs)
            eventually(lambda: [is_served(reader, made, number) for number in range(partitions)], [True] * partitions)
            return made

    return ReadyTopics(server)


@pytest.fixture
def topic(new_topic: TopicMaker) -> str:
    return new_topic(2)


@pytest.fixture
def group_id(name: str, reader: RawClient) -> str:
    """A group of the test's own, with a coordinator."""
    wait_for_coordinator(reader, f"group-of-{name}")
    return f"group-of-{name}"


@pytest.fixture
def reader(server: Server) -> Iterator[RawClient]:
    with RawClient(server.bootstrap_servers) as client:
        yield client
