"""Transaction markers: control batches that end a transaction in its partitions (KIP-98).

A marker takes effect when it is in the log: the last stable offset increases, delayed fetches complete, and the offsets
of the transaction are committed or dropped. A marker may be written twice, as after a crash before the coordinator's
Complete record. The second one changes nothing.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.log import OFFSETS_TOPIC
from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._platform.timers import Timers
from broker_embedded._platform.worker_threads import OnDisk
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.partitions import LocalPartition, Partitions
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.control import ControlType, encode_end_txn_marker

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Markers that are written before other tasks of the event loop run."""


class TransactionMarkers:
    """Writes markers into partitions that this broker leads. Belongs to one event loop."""

    def __init__(
        self, *, partitions: Partitions, groups: Groups, delayed: DelayedOperations, timers: Timers, on_disk: OnDisk
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._delayed = delayed
        self._timers = timers
        self._on_disk = on_disk

    async def write(
        self,
        partitions: Iterable[TopicPartition],
        producer: ProducerIdAndEpoch,
        *,
        commit: bool,
        coordinator_epoch: int,
        version: TransactionVersion,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Write one marker into each partition; an error code per partition, NONE if it is in the log.

        UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist. INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED: a newer producer or coordinator has written. KAFKA_STORAGE_ERROR: a retry may
        succeed. INVALID_REQUEST: the producer id is negative.
        """
        codes: dict[TopicPartition, ErrorCode] = {}
        conditions = AppendConditions(origin=AppendOrigin.COORDINATOR, bumps_epochs=version.bumps_epochs)
        for partition in sorted(partitions):
            if codes and len(codes) % _AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                local = self._partitions.get(*partition)
                offset = await self._append(local, self._marker(producer, commit, coordinator_epoch), conditions)
            except KafkaError as error:
                logger.debug("no marker of producer %d in %s: %s", producer.producer_id, partition, error)
                codes[partition] = error.code
                continue
            codes[partition] = ErrorCode.NONE
            if partition.topic == OFFSETS_TOPIC:
                self._groups.end_transaction(partition.partition, producer.producer_id, offset, commit=commit)
            self._delayed.changed(partition)
        return codes

    def _marker(self, producer: ProducerIdAndEpoch, commit: bool, coordinator_epoch: int) -> bytearray:
        if producer.producer_id < 0 or producer.epoch < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no producer {producer.producer_id}")
        return encode_end_txn_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._timers.now_ms(),
        )

    async def _append(self, partition: LocalPartition, marker: bytearray, conditions: AppendConditions) -> int:
        """The offset of the marker. Raises KafkaError: it is not in the log."""
        if partition.flushes_on_append:
            return (await self._on_disk(lambda: partition.append(marker, conditions))).base_offset
        return partition.append(marker, conditions).base_offset
