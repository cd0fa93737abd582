"""One cluster for each configuration in a process, so that tasks reuse connections and metadata."""

import atexit
import os
import threading

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig

_shared: dict[ClientConfig, Cluster] = {}
_lock = threading.Lock()


def shared_cluster(config: ClientConfig) -> Cluster:
    """The process's cluster for ``config``, made at the first call and kept open.

    Its connections and metadata outlive the tasks that use it. Threads may share it; a forked child gets its own.
    Callers do not close it: a connection that breaks is replaced at the next use.
    """
    with _lock:
        found = _shared.get(config)
        if found is None:
            found = _shared[config] = Cluster(config, warns=True)
        return found


def close_shared_clusters() -> None:
    """Close what ``shared_cluster`` has made in this process; the next call makes it again."""
    with _lock:
        clusters = list(_shared.values())
        _shared.clear()
    for cluster in clusters:
        cluster.close()


def _after_fork_in_child() -> None:
    """Another thread may have held the lock when the process forked."""
    global _lock  # noqa: PLW0603 -- the only place where a held lock can be replaced
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(close_shared_clusters)
