from collections.abc import Iterator

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from tests.support.scripted.cluster import ScriptedCluster


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    """A client of the module's ``brokers``."""
    with Cluster(brokers.config()) as made:
        yield made
