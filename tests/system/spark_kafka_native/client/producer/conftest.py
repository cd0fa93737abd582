from collections.abc import Iterator

import pytest

from tests.support.scripted_broker import ScriptedCluster
from tests.support.sender_driver import PARTITIONS, SenderDriver


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2, topics={"t": PARTITIONS}) as running:
        yield running


@pytest.fixture
def driver(brokers: ScriptedCluster) -> Iterator[SenderDriver]:
    with SenderDriver(brokers) as made:
        yield made
