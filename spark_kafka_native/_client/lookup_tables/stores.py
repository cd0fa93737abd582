"""The store of a location, and the look-up tables (``BucketTable``) that a write uses."""

from collections.abc import Iterable
from typing import Final, Protocol

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import FewerPartitionsThanTable
from spark_kafka_native._client.lookup_tables.file_store import Change, FileStore
from spark_kafka_native._client.lookup_tables.topic_store import TopicStore
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import Kind, TableLocation

METADATA_LAG_MS: Final = 2_000
"""How long a broker may not know partitions for which a table was reorganized with the metadata of another broker."""


class Store(Protocol):
    """Where tables are kept. ``str()`` is the location."""

    def read(self, topics: Iterable[str] | None = None) -> dict[str, BucketTable]:
        """The tables of all topics, or of those of ``topics`` that have one. Raises LookupTableError, KafkaError."""
        ...

    def change(self, topic: str, change: Change) -> BucketTable | None:
        """Replace a topic's table, and return the new one. Raises LookupTableError, KafkaError."""
        ...


def store_of(cluster: Cluster, location: TableLocation) -> Store:
    """The store of a location."""
    if location.kind is Kind.FILE:
        return FileStore(location.name)
    return TopicStore(cluster, location.name)


def tables_for(cluster: Cluster, location: TableLocation, topics: Iterable[str] | None = None) -> BucketTables:
    """The tables of these topics, or of all topics, as a producer's partitioner.

    Raises LookupTableError: a topic of ``topics`` has no table, or a table cannot be read; FewerPartitionsThanTable,
    for ``topics`` that exist.
    """
    names = None if topics is None else list(topics)
    servers = ",".join(map(str, cluster.config.bootstrap_servers))
    found = BucketTables(tables=store_of(cluster, location).read(names), location=str(location), servers=servers)
    if names is not None:
        found.check(names)
        _check_partitions(cluster, found, names)
    return found


def _check_partitions(cluster: Cluster, tables: BucketTables, topics: Iterable[str]) -> None:
    """Raise FewerPartitionsThanTable, after a time in which brokers learn of partitions that were added just now."""
    deadline = cluster.deadline(min(METADATA_LAG_MS, cluster.config.default_api_timeout_ms))
    backoff = cluster.backoff()
    while True:
        try:
            for name, topic in cluster.metadata(topics, missing_ok=True).topics.items():
                if topic.partitions:
                    tables.check_partitions(name, len(topic.partitions))
            return
        except FewerPartitionsThanTable:
            if not deadline.pause(backoff.next_ms()):
                raise
