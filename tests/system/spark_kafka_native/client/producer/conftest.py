from collections.abc import Iterator

import pytest

from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.sender_driver import PARTITIONS, SenderDriver

brokers = scripted_brokers(brokers=2, topics={"t": PARTITIONS})


@pytest.fixture
def driver(brokers: ScriptedCluster) -> Iterator[SenderDriver]:
    with SenderDriver(brokers) as made:
        yield made
