"""What another process needs to resume a transactional producer, or to end its transaction.

Plain values: they may be pickled, compared, used as keys, and written as JSON.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Self

from spark_kafka_native._protocol.topic import TopicPartition

EPOCH_PER_TRANSACTION: Final = 2
"""The first ``transaction.version`` with which every transaction has an epoch of its own, and partitions become part of
one by being written to (KIP-890)."""

UNKNOWN_OFFSET: Final = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdentity:
    """A producer id and epoch that a coordinator gave to a transactional id. Their holder is that producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """How long the broker lets a transaction be open."""
    transaction_version: int
    """The level of the cluster's feature ``transaction.version`` then; it selects the request versions."""

    def __str__(self) -> str:
        return f"{self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch})"

    @property
    def identity(self) -> "TransactionalIdentity":
        """The identity alone, without the transaction of a handle."""
        names = [item.name for item in dataclasses.fields(TransactionalIdentity)]
        return TransactionalIdentity(**{name: getattr(self, name) for name in names})

    @property
    def has_epoch_per_transaction(self) -> bool:
        """Whether the epoch rises with the end of every transaction."""
        return self.transaction_version >= EPOCH_PER_TRANSACTION

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can have; see ``from_json``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The identity in what ``to_json`` gave. Raises ValueError saying what is wrong."""
        return cls(**_fields(cls, values))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPartition:
    """One partition of a transaction and where its records are, between those of others.

    -1 stands for an offset that is not known, because an acknowledgement was lost.
    """

    partition: TopicPartition
    from_offset: int = UNKNOWN_OFFSET
    until_offset: int = UNKNOWN_OFFSET

    def __str__(self) -> str:
        return f"{self.partition} offsets {self.from_offset} to {self.until_offset}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHandle(TransactionalIdentity):
    """A transaction that is written and not ended. Any process can end it with this."""

    partitions: tuple[WrittenPartition, ...] = ()
    groups: tuple[str, ...] = ()
    """Consumer groups whose offsets are part of it."""
    started_ms: int = -1
    """When its first partition was about to be added, by the writing process's clock; -1: it has none."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is part of it, so that the coordinator does not know it."""
        return not self.partitions and not self.groups

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can have; see ``from_json``."""
        partitions = [[*item.partition, item.from_offset, item.until_offset] for item in self.partitions]
        return {
            **self.identity.to_json(),
            "partitions": partitions,
            "groups": list(self.groups),
            "started_ms": self.started_ms,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The handle in what ``to_json`` gave. Raises ValueError saying what is wrong."""
        found = _fields(cls, values)
        try:
            found["partitions"] = tuple(
                WrittenPartition(partition=TopicPartition(topic, number), from_offset=first, until_offset=until)
                for topic, number, first, until in found["partitions"]
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"a transaction's partitions are not [topic, partition, from, until]: {error}") from error
        return cls(**{**found, "groups": tuple(found["groups"])})


def _fields(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    names = [item.name for item in dataclasses.fields(cls)]
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"this is no {cls.__name__}: {', '.join(missing)} missing")
    return {name: values[name] for name in names}
