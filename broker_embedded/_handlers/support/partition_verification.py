"""Verification of transactional batches of a Produce (KIP-890).

If the coordinator does not know that a partition is in a transaction, it never writes a marker to it, and
read_committed consumers hang. So a batch is accepted if

- the transaction is open in the partition's log: it was verified before;
- or the coordinator verifies that the partition is in it (before v12; unless transaction.partition.verification.enable
  is false);
- or the coordinator adds the partition to it (v12 and later).

No marker is written between the verification and the append. On the event loop nothing runs between them. If one of
them has to wait, the transactional id's lock is held. The log checks its own state again during the append.

Error codes of the coordinator are translated as in Apache Kafka: after NOT_ENOUGH_REPLICAS a producer retries without
refreshing its metadata.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._log.append.incoming import AppendConditions
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

_ABORTABLE_SINCE: Final = 11
_ADDS_SINCE: Final = 12
_NOT_NOW: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class UnverifiedBatch(Protocol):
    """One partition of a Produce. The other properties are used only if it is ``in_transaction``."""

    @property
    def in_transaction(self) -> bool:
        """Whether there is a transactional batch to append."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer of the batch."""

    @property
    def partition_id(self) -> TopicPartition:
        """The partition."""

    @property
    def begins(self) -> bool:
        """Whether the transaction is not open in the partition's log yet."""

    def accept(self, conditions: AppendConditions) -> None:
        """Append with these conditions."""

    def refuse(self, error: KafkaError) -> None:
        """Do not append."""


class PartitionVerification:
    """Verifies or adds the partitions of one Produce with transactional batches."""

    def __init__(
        self,
        transactional_id: str | None,
        version: int,
        batches: Sequence[UnverifiedBatch],
        transactions: Transactions,
        *,
        verifies: bool,
    ) -> None:
        """Refuses all ``batches`` if the request has no transactional id, or several producers.

        ``verifies``: whether transaction.partition.verification.enable is on.
        """
        self._name = transactional_id or ""
        self._version = version
        self._transactions = transactions
        self._verifies = verifies
        found = [batch for batch in batches if batch.in_transaction]
        self._producer = found[0].producer
        problem = _problem(transactional_id, found)
        if problem is not None:
            for batch in batches:
                batch.refuse(problem)
        self._new = [batch for batch in found if problem is None and batch.begins]

    def needs_lock(self, *, waits_for_disk: bool) -> bool:
        """Whether the appends must run within ``locked``. If not, they must run now, on the event loop."""
        if not self._new:
            return False
        if self._version >= _ADDS_SINCE:
            return True
        if not self._verifies:
            self._accept()
            return False
        if waits_for_disk:
            return True
        self._check()
        return False

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the transactional id's lock within the block; partitions that are in the transaction are accepted."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._transactions.lock(self._name))
                await self._add_or_verify()
            except KafkaError as error:
                self._refuse(error)
            yield

    async def _add_or_verify(self) -> None:
        """Verify or add the partitions. Raises KafkaError: none of them is accepted."""
        if self._version < _ADDS_SINCE:
            self._check()
            return
        if not self._name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        partitions = {batch.partition_id for batch in self._new}
        await self._transactions.add_partitions_locked(self._name, self._producer, partitions, TransactionVersion.TV_2)
        self._accept()

    def _check(self) -> None:
        """Accept the partitions that are in the transaction."""
        try:
            missing = self._transactions.missing_partitions(
                self._name, self._producer, {batch.partition_id for batch in self._new}
            )
        except KafkaError as error:
            self._refuse(error)
            return
        for batch in self._new:
            if batch.partition_id in missing:
                detail = f"{batch.partition_id} is not part of {self._name}'s transaction"
                batch.refuse(self._translated(KafkaError(ErrorCode.TRANSACTION_ABORTABLE, detail)))
            else:
                batch.accept(AppendConditions(verified=True))

    def _accept(self) -> None:
        conditions = AppendConditions(verified=True, bumps_epochs=self._version >= _ADDS_SINCE)
        for batch in self._new:
            batch.accept(conditions)

    def _refuse(self, error: KafkaError) -> None:
        translated = self._translated(error)
        for batch in self._new:
            batch.refuse(translated)

    def _translated(self, error: KafkaError) -> KafkaError:
        """The coordinator's error as it is sent to a producer."""
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.TRANSACTION_ABORTABLE and self._version < _ABORTABLE_SINCE:
            code = ErrorCode.INVALID_TXN_STATE
        elif code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < _ADDS_SINCE):
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        return KafkaError(code, error.detail)


def _problem(transactional_id: str | None, batches: Sequence[UnverifiedBatch]) -> KafkaError | None:
    """The error of the whole request, or None."""
    if transactional_id is None:
        detail = "records of a transaction came without a transactional id"
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail)
    if len({batch.producer for batch in batches}) > 1:
        return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "records of a transaction came from several producers")
    return None
