from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.requests.consumer_group import RawConsumer, make_topic
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import Server

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.max.size": "4",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}
MakeMember = Callable[..., RawConsumer]


@pytest.fixture(scope="package", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Both brokers, without an assignment interval."""
    with running_broker(request.param, tmp_path_factory.mktemp("consumer-groups"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic(server: Server) -> str:
    return make_topic(server, 4)


@pytest.fixture
def member(server: Server, group_id: str) -> Iterator[MakeMember]:
    """`member("topic")` is a consumer of the group that has not joined yet."""
    with ExitStack() as connections:

        def make(*topics: str, **fields: Any) -> RawConsumer:
            return connections.enter_context(RawConsumer(server.bootstrap_servers, group_id, *topics, **fields))

        yield make
