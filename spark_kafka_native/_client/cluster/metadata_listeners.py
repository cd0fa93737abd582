"""Functions of users that are called with a cluster's metadata when it has changed."""

import logging
from collections.abc import Callable

from spark_kafka_native._client.cluster.metadata import ClusterMetadata

_log = logging.getLogger(__name__)

MetadataListener = Callable[[ClusterMetadata], object]


class MetadataListeners:
    """The listeners of one cluster, called in the thread that has received a response. They must not block."""

    def __init__(self) -> None:
        self._listeners: list[MetadataListener] = []

    def add(self, listener: MetadataListener) -> None:
        """Call ``listener`` with all brokers and topics in memory after each change. Its errors are logged."""
        self._listeners.append(listener)

    def report(self, before: ClusterMetadata, after: ClusterMetadata) -> None:
        """Call the listeners if the metadata has changed."""
        if not self._listeners or after == before:
            return
        for listener in self._listeners:
            try:
                listener(after)
            except Exception:  # of the user's function
                _log.exception("a metadata listener failed")
