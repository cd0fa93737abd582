from collections.abc import Iterator

import pytest

from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import fill
from tests.support.scripted.fixtures import client_of_brokers


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    """Two brokers, and one partition of `fetched_logs.BATCHES` batches."""
    with ScriptedCluster(brokers=2, topics={"t": 1}) as running:
        fill(running.partition("t"))
        yield running


cluster = client_of_brokers(max_partition_fetch_bytes=2_000)
"""A client whose Fetch responses have few batches."""
