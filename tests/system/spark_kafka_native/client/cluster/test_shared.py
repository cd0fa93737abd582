import dataclasses
import os
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster import shared as shared_module
from spark_kafka_native._client.cluster.shared import close_shared_clusters, shared_cluster
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers

brokers = scripted_brokers(brokers=3, topics={"t": 3})


@pytest.fixture
def _no_shared_clusters() -> Iterator[None]:
    close_shared_clusters()
    yield
    close_shared_clusters()


@pytest.mark.feature("run.connections", "split.locality")
@pytest.mark.usefixtures("_no_shared_clusters")
def test_a_process_has_one_cluster_for_equal_configurations(brokers: ScriptedCluster) -> None:
    shared = shared_cluster(brokers.config())
    assert shared_cluster(brokers.config()) is shared
    assert shared_cluster(brokers.config(client_id="other")) is not shared
    renamed = dataclasses.replace(brokers.config(), servers_option="--bootstrap-servers")
    assert shared_cluster(renamed) is not shared, "its errors name another option"
    close_shared_clusters()
    assert shared_cluster(brokers.config()) is not shared


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.usefixtures("_no_shared_clusters")
def test_a_forked_child_gets_a_cluster_of_its_own_and_leaves_the_parents_alone(brokers: ScriptedCluster) -> None:
    config = brokers.config()
    parents = shared_cluster(config)
    parents.metadata(["t"])
    # Another thread may hold the locks at the moment of the fork.
    with shared_module._lock, parents._lock, parents._pool._lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                own = shared_cluster(config)
                answered = set(own.metadata(["t"]).topics) == {"t"} and set(parents.metadata(["t"]).topics) == {"t"}
                code = 0 if own is not parents and answered else 2
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    connections = brokers.brokers[1].open_connections
    assert set(parents.metadata(["t"]).topics) == {"t"}
    assert brokers.brokers[1].open_connections <= connections
