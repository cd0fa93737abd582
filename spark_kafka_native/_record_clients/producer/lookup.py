"""The partitioner ``lookup`` of a producer of single records: its tables are read again while it runs.

``refresh`` is called by ``send``, in the threads of the user, so that the sending thread never waits for a table.
"""

import logging
import threading
import time

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.lookup_tables.stores import tables_for
from spark_kafka_native._client.partitioning.key_hashes import I32
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError, TableLocation
from spark_kafka_native._client.partitioning.partitioners import Partitioner, Unassigned
from spark_kafka_native._protocol.errors import KafkaError

_log = logging.getLogger(__name__)


class CurrentTables:
    """The tables of the topics that a producer writes to. A table is read again after ``metadata.max.age.ms``."""

    def __init__(self, cluster: Cluster, location: TableLocation) -> None:
        self._cluster = cluster
        self._location = location
        self._lock = threading.Lock()
        self._tables: dict[str, BucketTables] = {}
        self._read_at: dict[str, float] = {}

    def refresh(self, topic: str) -> None:
        """Read the table of a topic if it is not known or old. An old one stays in use if it cannot be read.

        Raises LookupTableError, KafkaError: it was never read, and cannot be.
        """
        if self._is_fresh(topic):
            return
        with self._lock:
            if self._is_fresh(topic):
                return
            try:
                self._tables[topic] = tables_for(self._cluster, self._location, [topic])
            except (LookupTableError, KafkaError) as error:
                if topic not in self._tables:
                    raise
                _log.warning("the table of topic %s cannot be read again, and stays in use: %s", topic, error)
            self._read_at[topic] = time.monotonic()

    def current(self, topic: str) -> BucketTables:
        """The table of a topic after ``refresh``."""
        return self._tables[topic]

    def partitioner_of(self, topic: str, batch_bytes: int, first: int) -> Partitioner:
        """The partitioner of one topic, as ``make_partitioner``."""
        return _ByCurrentTable(self, topic, batch_bytes, first)

    def _is_fresh(self, topic: str) -> bool:
        read_at = self._read_at.get(topic)
        return read_at is not None and (time.monotonic() - read_at) * 1000 < self._cluster.config.metadata_max_age_ms


class _ByCurrentTable:
    """The partitioner of the current table of a topic."""

    def __init__(self, tables: CurrentTables, topic: str, batch_bytes: int, first: int) -> None:
        self._tables = tables
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._first = first
        self._used: BucketTables | None = None
        self._partitioner: Partitioner | None = None

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition. Raises TableTooWide."""
        current = self._tables.current(self._topic)
        if self._partitioner is None or current is not self._used:
            self._used = current
            self._partitioner = current.partitioner_of(self._topic, self._batch_bytes, self._first)
        return self._partitioner.assign(rows)
