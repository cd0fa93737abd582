"""Look-up tables (``BucketTable``) in a compacted topic: key = topic, value = JSON; a tombstone deletes a table.

    InitProducerId (fences other changes) -> wait for open transactions -> read the last records -> change
        -> write, commit -> read back

The topic of the tables has one partition. The transactional id is ``<topic of the tables>.<topic>``. Kafka has no
conditional write, so this producer is the check of the version: a change that began later fences an earlier one, whose
write fails. A program that writes to the topic without this transactional id is not excluded. Reads end before the
first open transaction, also one of another topic's table, which would hide a committed change of this topic. So a
change waits until such transactions have ended.
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.admin.topics import NewTopic, TopicsError, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import MAX_IN_FLIGHT_WITH_IDEMPOTENCE, READ_COMMITTED
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.lookup_tables.file_store import Change
from spark_kafka_native._client.partitioning.bucket_table import BucketTable, parse_json, tables_by_topic
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.errors import ProducerFenced
from spark_kafka_native._protocol.errors import AUTHORIZATION_ERRORS, ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition

MAX_TABLE_BYTES: Final = 1 << 26
"""Of all tables that one call reads, as JSON."""
_POLICY: Final = "cleanup.policy"
_REPLICAS: Final = 3
_IN_SYNC: Final = 2
"""Replication factor and min.insync.replicas of a new topic, if there are as many brokers."""
_TRANSACTION_MS: Final = 10_000
"""Longest time from the record to the commit. If a process ends in between, readers see later changes after it."""
_WAIT_MS: Final = _TRANSACTION_MS + 15_000
"""How long a change waits for open transactions of other changes. Brokers look for those that have timed out every 10 s
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``)."""
_REQUEST_BYTES: Final = 1 << 20
"""Least ``max.request.size`` for a table with the most buckets."""


class TopicStore:
    """The tables in a topic, which the first ``change`` creates if it is missing."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = TopicPartition(topic, 0)

    def __str__(self) -> str:
        return f"topic:{self._topic}"

    def read(self, topics: Iterable[str] | None = None) -> dict[str, BucketTable]:
        """The tables of all topics, or of those of ``topics`` that have one.

        Raises LookupTableError: a table is malformed, or the topic of the tables is missing or has several partitions;
        KafkaError: it cannot be read.
        """
        if not self._exists():
            raise LookupTableError(
                f"{self}: the topic does not exist; pykafka lookup-table --create creates it with the first table"
            )
        return self._read(topics)

    def change(self, topic: str, change: Change) -> BucketTable | None:
        """Replace a topic's table, and return the new one.

        Raises LookupTableError: as ``read`` or ``change``, the topic of the tables is not compacted, another process
        changes the table, too, or a transaction of another change stays open; KafkaError.
        """
        created = not self._exists()
        if created:
            change(None)  # which fails, if there must be a table
            self._create()
        else:
            self._check_policy()
        config = self._cluster.config
        reliable = dataclasses.replace(
            config,
            acks=-1,
            enable_idempotence=True,
            max_in_flight_requests_per_connection=MAX_IN_FLIGHT_WITH_IDEMPOTENCE,
            max_request_size=max(config.max_request_size, _REQUEST_BYTES),
        )
        transactional_id = f"{self._topic}.{topic}"
        with (
            Cluster(reliable) as cluster,
            TransactionalProducer(cluster, transactional_id, timeout_ms=_TRANSACTION_MS) as producer,
        ):
            try:
                producer.begin()
                self._wait_for_open_transactions()
                before = self._read([topic]).get(topic)
                after = change(before)
                if after is before:
                    return after
                producer.send(self._topic, _record(topic, after))
                producer.commit()
            except ProducerFenced as error:
                raise LookupTableError(
                    f"{self}: another process changes the table of topic {topic}, too; this change was not made. "
                    "Describe the table, and run the command again if the other change is not the same"
                ) from error
        self._cluster.retrying(lambda _: self._check_stored(topic, before, after))
        return after

    def _wait_for_open_transactions(self) -> None:
        """Return once all records that were written until now can be read. Raises LookupTableError after _WAIT_MS."""
        end = offsets_at(self._cluster, {self._partition: LATEST})[self._partition]
        deadline, backoff = self._cluster.deadline(_WAIT_MS), self._cluster.backoff()
        while offsets_at(self._cluster, {self._partition: LATEST}, isolation=READ_COMMITTED)[self._partition] < end:
            if not deadline.pause(backoff.next_ms()):
                raise LookupTableError(
                    f"{self}: another change is not finished: a transaction in {self._partition} is still open, and "
                    "nothing was changed. Run the command again later; pykafka transactions find-hanging prints a "
                    "transaction that stays open"
                )

    def _check_stored(self, topic: str, before: BucketTable | None, written: BucketTable | None) -> None:
        """Raise KafkaError, retriable, while the change cannot be read; LookupTableError: there is another change."""
        stored = self._read([topic]).get(topic)
        if _is_same(stored, written):
            return
        if not _is_same(stored, before):
            raise LookupTableError(
                f"{self}: another process changed the table of topic {topic} after this change; describe it"
            )
        detail = f"{self}: the change of the table of topic {topic} was committed and cannot be read yet; describe it"
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, detail)

    def _read(self, topics: Iterable[str] | None) -> dict[str, BucketTable]:
        wanted = None if topics is None else {topic.encode() for topic in topics}
        begin = offsets_at(self._cluster, {self._partition: EARLIEST})[self._partition]
        end = offsets_at(self._cluster, {self._partition: LATEST}, isolation=READ_COMMITTED)[self._partition]
        last: dict[bytes, bytes] = {}
        whole = PartitionRange(partition=self._partition, from_offset=begin, until_offset=end)
        with row_fetcher(self._cluster, [whole], columns=("key", "value"), isolation=READ_COMMITTED) as fetcher:
            for _, rows in fetcher:
                pairs: Any = zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)
                for key, value in pairs:
                    if key is None or (wanted is not None and key not in wanted):
                        continue
                    last.pop(key, None)
                    if value is not None:
                        last[key] = value
                self._check_size(last)
        values = {}
        for key, value in last.items():
            name = key.decode(errors="backslashreplace")
            values[name] = parse_json(value, f"{self}, topic {name}")
        return tables_by_topic(values, str(self))

    def _check_size(self, last: dict[bytes, bytes]) -> None:
        if sum(map(len, last.values())) > MAX_TABLE_BYTES:
            raise LookupTableError(f"{self} has tables of more than {MAX_TABLE_BYTES} bytes; use several topics")

    # --- the topic of the tables

    def _exists(self) -> bool:
        """Whether the topic exists. Raises LookupTableError: it has several partitions."""
        found = self._cluster.metadata([self._topic], missing_ok=True).topics.get(self._topic)
        if found is None or found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if found.error is ErrorCode.NONE and len(found.partitions) != 1:
            raise LookupTableError(f"{self}: the topic has {len(found.partitions)} partitions instead of one")
        return True

    def _check_policy(self) -> None:
        """Raise LookupTableError unless the topic is compacted, if the user may describe it."""
        try:
            found = describe_configs(self._cluster, Resource(type=ResourceType.TOPIC, name=self._topic), [_POLICY])
        except KafkaError as error:
            if error.code in AUTHORIZATION_ERRORS:
                return
            raise
        policy = found[_POLICY].value if _POLICY in found else None
        if policy is not None and policy != "compact":
            raise LookupTableError(
                f"{self}: the topic has {_POLICY}={policy}, and its last records must not be deleted; set "
                f"{_POLICY}=compact"
            )

    def _create(self) -> None:
        brokers = len(self._cluster.metadata([]).brokers)
        configs: dict[str, str | None] = {_POLICY: "compact"}
        if brokers >= _REPLICAS:
            configs["min.insync.replicas"] = str(_IN_SYNC)
        new = NewTopic(name=self._topic, partitions=1, replication_factor=min(_REPLICAS, brokers), configs=configs)
        try:
            create_topics(self._cluster, [new])
        except TopicsError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        self._cluster.retrying(lambda deadline: self._cluster.metadata([self._topic], timeout_ms=deadline.remaining_ms))


def _is_same(one: BucketTable | None, other: BucketTable | None) -> bool:
    return other is None if one is None else one.same_as(other)


def _record(topic: str, table: BucketTable | None) -> pa.RecordBatch:
    value = None if table is None else json.dumps(table.to_json(), separators=(",", ":")).encode()
    columns: dict[str, Any] = {
        "key": pa.array([topic.encode()], pa.binary()),
        "value": pa.array([value], pa.binary()),
        "partition": pa.array([0], pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)
