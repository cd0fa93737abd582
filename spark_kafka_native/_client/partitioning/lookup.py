"""The partitioner ``lookup``: keys go to partitions by the look-up tables of their topics, each a ``BucketTable``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_kafka_native._client.errors import FewerPartitionsThanTable
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.key_hashes import I32
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError
from spark_kafka_native._client.partitioning.partitioners import Partitioner, Spread, StickySpread, Unassigned
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.views import nulls


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketTables:
    """The tables of topics as they were when they were read; pickled to the tasks of a write."""

    tables: Mapping[str, BucketTable]
    location: str
    """Where they were read, as option ``lookupTable`` has it."""
    servers: str = ""
    """``bootstrap.servers``, for the commands in errors."""

    def check(self, topics: Iterable[str]) -> None:
        """Raise LookupTableError for a topic without a table, with the command that creates it."""
        for topic in topics:
            if topic not in self.tables:
                raise LookupTableError(
                    f"topic {topic} has no table in {self.location}; create it: {self._command('--create', topic)}"
                )

    def check_partitions(self, topic: str, partitions: int) -> None:
        """Raise FewerPartitionsThanTable if a topic has fewer partitions than its table."""
        known = self.tables[topic].partition_count
        if partitions < known:
            raise FewerPartitionsThanTable(TopicPartition(topic, known - 1), partitions, self.location)

    def partitioner_of(self, topic: str, batch_bytes: int, first: int) -> Partitioner:
        """The partitioner of one topic, as ``make_partitioner``. Raises LookupTableError: it has no table."""
        self.check([topic])
        return _BucketPartitioner(self, topic, StickySpread(batch_bytes, first))

    def _command(self, action: str, topic: str) -> str:
        servers = self.servers or "HOST:PORT"
        return (
            f"pykafka lookup-table --bootstrap-server {servers} --lookup-table {self.location} {action} --topic {topic}"
        )


class _BucketPartitioner:
    """Rows with a key go by the table. Rows without one are spread as by the default partitioner."""

    def __init__(self, tables: BucketTables, topic: str, spread: Spread) -> None:
        self._tables = tables
        self._topic = topic
        self._spread = spread

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition. Raises FewerPartitionsThanTable, only if a row has a key."""
        if rows.keys is None or rows.keys.null_count == len(rows.keys):
            return self._spread.assign(rows.sizes, rows.available)
        self._tables.check_partitions(self._topic, rows.partitions)
        ids = self._tables.tables[self._topic].partitions_of(rows.keys)
        absent = nulls(rows.keys)
        if absent is not None:
            ids[absent] = self._spread.assign(rows.sizes[absent], rows.available)
        return ids
