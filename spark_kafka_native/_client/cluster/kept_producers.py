"""Producer ids that wait for the next producer of this process, with the sequence numbers that they have reached.

Brokers remember every producer id of a partition for ``producer.id.expiration.ms``, a day by default. A task has a
``Producer`` of its own; with a producer id of its own, too, tasks would fill the brokers' memory. So a producer takes
the id of an earlier one of the same ``Cluster``, and gives it back when it closes.

An id is safe to use again only if its sequence numbers are those of the brokers. So:

- ``take`` hands an id to one producer. A producer that is dropped, killed or fails gives nothing back.
- Only a producer whose every batch is acknowledged gives its id back, and only in the process that took it:
  ``Cluster`` clears these in a forked child.
- A partition's sequence numbers never begin at 0 again. They are kept by topic name, not by topic id. A new topic of
  that name does not know the producer, and accepts any first sequence number (KIP-360). If they began at 0 because of
  outdated metadata, a broker that does know the producer would drop the new records as duplicates.
- For the same reason an id with too many partitions is dropped as a whole.
- Another cluster at the same address may have given the same id to another producer, and so may the same cluster after
  its data was deleted. So an id is used again only after new metadata has shown the same cluster id, and for one of its
  topics the same topic id as before. Where topics have no id (brokers before 2.8) no id is used again.

A broker that has forgotten the producer accepts any sequence number. A broker that has lost records, or is older than
2.5, refuses the first batch, and the partition continues in a new epoch (``partition_queue``).
"""

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

MAX_KEPT: Final = 4
"""Ids kept per cluster, enough for as many threads that write at the same time."""
MAX_PARTITIONS: Final = 10_000
"""Most partitions of a kept id, about 3 MB of memory."""
MAX_IDLE_S: Final = 600.0
"""As ``spark.kafka.producer.cache.timeout`` of Spark's JVM connector."""


class SequencePosition(NamedTuple):
    """Where a producer continues in one partition. Its epoch may be later than in the producer's other partitions."""

    identity: ProducerIdAndEpoch
    next_sequence: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptProducer:
    """A producer id that no producer uses."""

    cluster_id: str | None
    identity: ProducerIdAndEpoch
    """For partitions that it has not written to."""
    positions: Mapping[TopicPartition, SequencePosition]
    topic_ids: dict[str, UUID]
    """Of the topics that it has written to."""


class KeptProducers:
    """The unused producer ids of one cluster. The last used one is taken first. Thread-safe. Pure: time is passed in.

    It uses only atomic methods of ``deque``, because a lock could be held while the process forks.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[float, KeptProducer]] = deque(maxlen=MAX_KEPT)

    def take(self, now: float) -> KeptProducer | None:
        """Remove and return the last used id, or None. The caller checks that the cluster is still the same."""
        while True:
            try:
                kept_at, kept = self._kept.pop()
            except IndexError:
                return None
            if now - kept_at <= MAX_IDLE_S:
                return kept

    def keep(self, producer: KeptProducer, now: float) -> None:
        """Keep an id whose every batch is acknowledged. Beyond `MAX_KEPT` ids the one idle for longest is dropped."""
        if len(producer.positions) <= MAX_PARTITIONS:
            self._kept.append((now, producer))

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
