from collections.abc import Iterator

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import fill


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    """Two brokers, and one partition of `fetched_logs.BATCHES` batches."""
    with ScriptedCluster(brokers=2, topics={"t": 1}) as running:
        fill(running.partition("t"))
        yield running


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    """A client whose Fetch responses have few batches."""
    with Cluster(brokers.config(max_partition_fetch_bytes=2_000)) as made:
        yield made
