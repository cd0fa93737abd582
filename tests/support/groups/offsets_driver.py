"""Committed offsets of groups, without a broker."""

from typing import Any
from uuid import UUID

from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.group import Group, Outcome
from broker_embedded._groups.offsets import GroupOffsets, OffsetCommit
from broker_embedded._groups.pending_offsets import PendingTransaction
from broker_embedded._groups.replay import ReplayContext, replay
from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded._records.last_records import LastRecords
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import read_header, set_offsets, set_producer
from spark_kafka_native._records.control import ControlType
from tests.support.broker.driver import decode_batch
from tests.support.records.record_batches import marker

ID = UUID(int=1)
CONFIG = ClassicConfig()


class OffsetsDriver:
    """Groups, their offsets, and their log in bytes: ``driver.commit(A0, to=5, producer=7)``.

    Every decision is read from the log, as in the broker. Offsets are those of a topic with the id ``ID``.
    """

    def __init__(self) -> None:
        self.state = GroupOffsets(max_metadata_chars=8)
        self.groups: dict[str, Group] = {}
        self.log: list[bytearray] = []
        self.end_offset = 0
        self.now_ms = 1000
        self.config = CONFIG

    def decide_commit(
        self,
        *partitions: TopicPartition,
        to: int,
        producer: int | None = None,
        group: str = "g",
        metadata: str = "",
        timestamp_ms: int | None = None,
        **fields: Any,
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        """``fields`` are those of the OffsetCommit request."""
        common: dict[str, Any] = {"topic_id": ID, "offset": to, "leader_epoch": 0, "timestamp_ms": timestamp_ms}
        commits = [OffsetCommit(partition=partition, metadata=metadata, **common) for partition in partitions]
        known, now_ms, config = self.groups.get(group), self.now_ms, self.config
        if producer is None:
            request = OffsetCommitRequest(group_id=group, **fields)
            return self.state.commit(known, request, commits, version=8, now_ms=now_ms, config=config)
        transactional = TxnOffsetCommitRequest(group_id=group, producer_id=producer)
        return self.state.commit_in_transaction(known, transactional, commits, now_ms=now_ms, config=config)

    def commit(
        self, *partitions: TopicPartition, to: int, producer: int | None = None, group: str = "g", **others: Any
    ) -> dict[TopicPartition, ErrorCode]:
        """As ``decide_commit``, and the decision is carried out."""
        outcome = self.decide_commit(*partitions, to=to, producer=producer, group=group, **others)
        self.carry_out(group, outcome, producer)
        assert isinstance(outcome.response, dict)
        return outcome.response

    def carry_out(self, group: str, outcome: Outcome[object], producer: int | None = None) -> None:
        transaction = None if producer is None else PendingTransaction(0, producer)
        for offset, record in enumerate(outcome.records, self.end_offset):
            self.state.replay(record, offset, transaction)
        if outcome.records:
            batch = encode_batch(outcome.records, self.now_ms)
            if producer is not None:
                set_producer(batch, 0, producer_id=producer, producer_epoch=0, base_sequence=-1, transactional=True)
            self.append(batch)
        if outcome.removed:
            del self.groups[group]
        elif outcome.group is not None:
            self.groups[group] = outcome.group

    def append(self, batch: bytearray) -> None:
        set_offsets(batch, 0, base_offset=self.end_offset, partition_leader_epoch=0)
        self.end_offset = read_header(batch).next_offset
        self.log.append(batch)

    def end(self, producer: int, *, commit: bool) -> None:
        self.state.end_transaction(PendingTransaction(0, producer), self.end_offset, commit=commit)
        self.append(marker(ControlType.COMMIT if commit else ControlType.ABORT, producer))

    def forget(self, *partitions: TopicPartition) -> None:
        if "g" in self.groups:
            self.carry_out("g", self.state.delete(self.groups["g"], "g", partitions))

    def expire(self, group: str = "g", retention_ms: int = 100) -> bool:
        outcome = self.state.expire(self.groups.get(group), self.now_ms, retention_ms)
        self.carry_out(group, outcome)
        return bool(outcome.response)

    @property
    def records(self) -> list[CoordinatorRecord]:
        return [record for batch in self.log for record in decode_batch(batch, 0, read_header(batch))]

    def restart(self) -> None:
        last = LastRecords()
        for batch in self.log:
            last.read(batch, 0, read_header(batch))
        self.state = GroupOffsets(max_metadata_chars=8)
        self.groups = {}
        for logged in last.in_order():
            transaction = None if logged.producer_id is None else PendingTransaction(0, logged.producer_id)
            self.state.replay(logged.record, logged.offset, transaction)
            replay(self.groups, logged.record, ReplayContext(classic=CONFIG))

    def offset(self, partition: TopicPartition, group: str = "g", topic_id: UUID = ID) -> int | None:
        value = self.state.committed(group, partition, topic_id)
        return None if value is None else value.offset

    def unstable(self, *partitions: TopicPartition, group: str = "g") -> list[bool]:
        return [self.state.is_unstable(group, partition, ID) for partition in partitions]
