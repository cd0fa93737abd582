from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.requests.classic_group import RawMember
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import Server

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "4",
    "offsets.topic.num.partitions": "3",
}
MakeMember = Callable[..., RawMember]


@pytest.fixture(scope="package", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Both brokers, without an initial rebalance delay and with short sessions."""
    with running_broker(request.param, tmp_path_factory.mktemp("groups"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def member(server: Server, group_id: str) -> Iterator[MakeMember]:
    """`member()` is a client of the group that has not joined yet."""
    with ExitStack() as connections:

        def make(**others: Any) -> RawMember:
            return connections.enter_context(RawMember(server.bootstrap_servers, group_id, **others))

        yield make
