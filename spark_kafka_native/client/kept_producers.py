"""Producer ids that wait for the next producer of this process, with the sequence numbers that they have reached.

Brokers remember every producer id of a partition for ``producer.id.expiration.ms``, a day by default. A task has a
``Producer`` of its own; with a producer id of its own, too, tasks would fill the brokers' memory. So a producer takes
the id of an earlier one of the same ``Cluster``, and gives it back when it closes.

An id is safe to use again only if its sequence numbers are those of the brokers. So:

- ``take`` hands an id to one producer. A producer that is dropped, killed or fails gives nothing back.
- Only a producer whose every batch is acknowledged gives its id back, and only in the process that took it:
  ``Cluster`` clears these in a forked child.
- A partition's sequence numbers only ever go on. They are kept by name, not by topic id: a new topic of the name has
  not seen the producer, and takes any number (KIP-360). From 0 again, a broker that does know the producer, because the
  metadata was older than the broker, would take new records for a repetition and drop them.
- For the same reason an id with too many partitions is dropped as a whole.
- Another cluster at the same address may have given the same id to another producer, and so may the same cluster after
  its data was deleted. So an id is used again only after new metadata has shown the same cluster id, and for one of its
  topics the same topic id as before. Where topics have no id (brokers before 2.8) no id is used again.

A broker that has forgotten the producer takes any sequence number; one that has lost records, or is older than 2.5,
refuses the first batch, and the partition goes on in a new epoch (``partition_queue``).
"""

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from spark_kafka_native.client.partition_queue import ProducerIdentity
from spark_kafka_native.protocol.topic import TopicPartition

MAX_KEPT: Final = 4
"""Ids per cluster: as many threads can take turns."""
MAX_PARTITIONS: Final = 10_000
"""Partitions of an id, some 3 MB."""
MAX_IDLE_S: Final = 600.0
"""As ``spark.kafka.producer.cache.timeout`` of Spark's JVM connector."""


class SequencePosition(NamedTuple):
    """Where a producer goes on in one partition, whose epoch may be later than that of others."""

    identity: ProducerIdentity
    next_sequence: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptProducer:
    """A producer id that nobody uses."""

    cluster_id: str | None
    identity: ProducerIdentity
    """For partitions that it has not written to."""
    positions: Mapping[TopicPartition, SequencePosition]
    topic_ids: dict[str, UUID]
    """Of the topics that it has written to."""


class KeptProducers:
    """The ids of one cluster that nobody uses, the last used one first. Threads may share it. Pure: time is passed in.

    What needs several steps is done by methods of ``deque`` that are atomic, so there is no lock to be held at a fork.
    """

    def __init__(self) -> None:
        """None yet."""
        self._kept: deque[tuple[float, KeptProducer]] = deque(maxlen=MAX_KEPT)

    def take(self, now: float) -> KeptProducer | None:
        """An id to continue with if the cluster is still the same, now the caller's alone; None: request a new one."""
        while True:
            try:
                kept_at, kept = self._kept.pop()
            except IndexError:
                return None
            if now - kept_at <= MAX_IDLE_S:
                return kept

    def keep(self, producer: KeptProducer, now: float) -> None:
        """Take back an id whose every batch is acknowledged. The one that was idle for longest gives way."""
        if len(producer.positions) <= MAX_PARTITIONS:
            self._kept.append((now, producer))

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
