"""The partitioner ``lookup`` of a producer of single records: its tables are read again while it runs.

``refresh`` is called by ``send``, in the threads of the user. It waits for a table that was never read. One that is old
is read again in a thread of its own, and is used meanwhile. The sending thread waits for the tables of those topics
alone to which only a handler sends.
"""

import logging
import math
import threading
import time

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.lookup_tables.stores import tables_for
from spark_kafka_native._client.partitioning.key_hashes import I32
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import TableLocation
from spark_kafka_native._client.partitioning.partitioners import Partitioner, Unassigned

_log = logging.getLogger(__name__)


class CurrentTables:
    """The tables of the topics that a producer writes to. A table is read again after ``metadata.max.age.ms``."""

    def __init__(self, cluster: Cluster, location: TableLocation) -> None:
        self._cluster = cluster
        self._location = location
        self._lock = threading.Lock()
        self._tables: dict[str, BucketTables] = {}
        self._read_at: dict[str, float] = {}
        """When a table was read, or its reading began, in seconds of ``time.monotonic()``."""

    def refresh(self, topic: str) -> None:
        """Read the table of a topic if it is not known. An old one is read again, and stays in use meanwhile.

        Raises LookupTableError, KafkaError: it was never read, and cannot be.
        """
        if topic not in self._tables:
            self._tables[topic] = self._read(topic)
            self._read_at[topic] = time.monotonic()
        elif self._begin_again(topic):
            try:
                threading.Thread(target=self._read_again, args=(topic,), name=f"table of {topic}", daemon=True).start()
            except RuntimeError:  # no thread can be started now
                self._read_at[topic] = time.monotonic()

    def _begin_again(self, topic: str) -> bool:
        """Whether the table is old, and no other thread reads it."""
        with self._lock:
            now = time.monotonic()
            if (now - self._read_at.get(topic, now)) * 1000 < self._cluster.config.metadata_max_age_ms:
                return False
            self._read_at[topic] = math.inf
            return True

    def _read(self, topic: str) -> BucketTables:
        return tables_for(self._cluster, self._location, [topic])

    def _read_again(self, topic: str) -> None:
        try:
            self._tables[topic] = self._read(topic)
        except Exception as error:  # the thread ends with it, and the table stays in use
            _log.warning("the table of topic %s cannot be read again, and stays in use: %s", topic, error)
        finally:
            self._read_at[topic] = time.monotonic()

    def check(self, topic: str) -> None:
        """Read the table of a topic that was never read. Raises LookupTableError, KafkaError."""
        if topic not in self._tables:
            self.refresh(topic)

    def current(self, topic: str) -> BucketTables:
        """The table of a topic after ``refresh`` or ``check``."""
        return self._tables[topic]

    def partitioner_of(self, topic: str, batch_bytes: int, first: int) -> Partitioner:
        """The partitioner of one topic, as ``make_partitioner``."""
        return _ByCurrentTable(self, topic, batch_bytes, first)


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
        """Each row's partition. Raises FewerPartitionsThanTable."""
        current = self._tables.current(self._topic)
        if self._partitioner is None or current is not self._used:
            self._used = current
            self._partitioner = current.partitioner_of(self._topic, self._batch_bytes, self._first)
        return self._partitioner.assign(rows)
