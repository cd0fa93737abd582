"""What every kind of group is to the shell around it: classic, consumer (KIP-848), and simple, with offsets alone.

All kinds share one space of ids. A group is a value: a decision makes a new one, which takes the old one's place once
the decision's records are in the log.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from broker_embedded.groups.outcome import Outcome, Reply, SetTimer, TimerKey
from broker_embedded.groups.records import CoordinatorRecord, OffsetCommitValue
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

RetentionStart: TypeAlias = Callable[[OffsetCommitValue], int]
"""The time from which offsets.retention.minutes counts for a position."""


class Group(Protocol):
    """One group."""

    @property
    def group_id(self) -> str:
        """The id, unique among groups of all kinds."""
        ...

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups answers."""
        ...

    @property
    def state_name(self) -> str:
        """The state as ListGroups answers it: ``Empty``, ``Stable``..."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``..., or nothing for a simple group."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it ends with its last offset."""
        ...

    def check_commit(self, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:
        """Whether the sender may commit; the timers that this prolongs. Raises KafkaError: it may not."""
        ...

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction (KIP-447); nothing is prolonged by it."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError unless the sender may ask for positions."""
        ...

    def check_offset_delete(self) -> None:
        """Raise KafkaError unless positions may be deleted at all; see ``is_subscribed`` for single topics."""
        ...

    def check_delete(self) -> None:
        """Raise KafkaError unless the group may be deleted."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read a topic, or may: its positions are neither deleted nor do they expire then."""
        ...

    def retention_start(self) -> RetentionStart | None:
        """From when on positions of topics that nobody is subscribed to grow old; None: they do not now."""
        ...

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that delete the group itself; its positions have their own."""
        ...

    def resumed(self) -> Outcome[None]:
        """What to do about the group after it was read from the log: fresh timers for its members."""
        ...

    def timer_fired(self, key: TimerKey, now_ms: int) -> Outcome[None]:
        """Decide what follows from a timer."""
        ...

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """An answer for every request that is parked: this broker coordinates the group no more."""
        ...
