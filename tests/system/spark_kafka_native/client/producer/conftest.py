from collections.abc import Iterator

import pytest

from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import PARTITIONS, SenderDriver


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2, topics={"t": PARTITIONS}) as running:
        yield running


@pytest.fixture
def driver(brokers: ScriptedCluster) -> Iterator[SenderDriver]:
    with SenderDriver(brokers) as made:
        yield made
