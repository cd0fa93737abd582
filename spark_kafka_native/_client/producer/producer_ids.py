"""The producer id of an idempotent producer: from InitProducerId, its transactions, or an earlier producer.

See ``kept_producers`` for the last.
"""

import itertools
import os
import time
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.kept_producers import KeptProducer, SequencePosition
from spark_kafka_native._client.producer.partition_queue import PartitionQueue
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_NO_TRANSACTION_TIMEOUT_MS: Final = 2**31 - 1


class ProducerIds:
    """Which producer id, epoch and sequence number each partition of one producer begins with."""

    def __init__(self, cluster: Cluster, scope: TransactionScope | None = None, *, reuse: bool = False) -> None:
        """``scope``: the id is that of its transactions.

        ``reuse``: begin with an id that an earlier producer of the cluster has given back.
        """
        assert scope is None or not reuse
        self._cluster = cluster
        self._scope = scope
        self._reuse = reuse
        self._pid = os.getpid()
        self._identity: ProducerIdAndEpoch | None = None
        self._cluster_id: str | None = None
        """The cluster that assigned ``_identity``."""
        self._positions: dict[TopicPartition, SequencePosition] = {}
        """Of partitions that the identity has written to and that have no queue yet."""
        self._topic_ids: dict[str, UUID] = {}
        """Of topics that the identity has written to."""

    def identify(self, queue: PartitionQueue, topic_id: UUID) -> None:
        """Assign an id and the next sequence number to a partition that has none, or has used up its id's epochs.

        ``topic_id`` is that of the topic that is written to, all zeroes where the brokers have none.

        Raises KafkaError: InitProducerId failed.
        """
        if self._scope is not None:
            producer = self._scope.identity
            identity = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch)
            queue.continue_at(identity, self._scope.first_sequence(queue.partition))
            return
        if self._identity is not None and self._cluster_id != self._cluster.cluster_id:
            self._identity = None  # another cluster has these addresses now, and did not assign this id
            self._positions.clear()
            self._reuse = False  # batches with the other cluster's id must not be given back
        topic = queue.partition.topic
        if self._identity is None and self._reuse:
            self._take(topic)
        if self._identity is None or self._identity.producer_id == queue.used_up_producer_id:
            self._identity = self._cluster.retrying(self._ask, self._cluster.config.delivery_timeout_ms)
            self._cluster_id = self._cluster.cluster_id
        self._topic_ids[topic] = topic_id
        queue.continue_at(*self._positions.pop(queue.partition, SequencePosition(self._identity, 0)))

    def give_back(self, queues: Iterable[PartitionQueue]) -> None:
        """Let the next producer of the cluster continue with the id. All batches of ``queues`` are acknowledged."""
        if self._identity is None or not self._reuse or self._pid != os.getpid():
            return
        known = self._cluster.topic_ids_in_memory(self._topic_ids)
        if self._cluster_id != self._cluster.cluster_id or known.items() - self._topic_ids.items():
            return
        identity, self._identity = self._identity, None
        for queue in queues:
            assert queue.identity is not None
            self._positions[queue.partition] = SequencePosition(queue.identity, queue.next_sequence)
        kept = KeptProducer(
            cluster_id=self._cluster_id, identity=identity, positions=self._positions, topic_ids=self._topic_ids
        )
        self._cluster.kept_producers.keep(kept, time.monotonic())

    def _take(self, topic: str) -> None:
        """Continue with a kept id if new metadata shows the cluster that it was used with, and one of its topics."""
        kept = self._cluster.kept_producers.take(time.monotonic())
        if kept is None:
            return
        timeout_ms = self._cluster.config.delivery_timeout_ms
        names = {topic, *itertools.islice(reversed(kept.topic_ids), 1)}
        found = self._cluster.metadata(names, missing_ok=True, timeout_ms=timeout_ms)
        seen = {(name, found.topics[name].topic_id) for name in names} - {(name, ZERO_UUID) for name in names}
        if found.cluster_id != kept.cluster_id or not seen & kept.topic_ids.items():
            return
        self._cluster_id, self._identity = kept.cluster_id, kept.identity
        self._positions, self._topic_ids = dict(kept.positions), dict(kept.topic_ids)

    def _ask(self, deadline: Deadline) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
        response = self._cluster.send(None, request, deadline=deadline)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), "InitProducerId", operation="IDEMPOTENT_WRITE")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
