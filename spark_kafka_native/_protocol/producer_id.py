"""The identity of a producer."""

from dataclasses import dataclass

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True, order=True)
class ProducerIdAndEpoch:
    """The identity of an idempotent or transactional producer (KIP-98)."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id} with epoch {self.epoch}"
