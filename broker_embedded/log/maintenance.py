"""The periodic tasks of a broker's logs: retention, flushes, checkpoints, expiry."""

from typing import Final

from broker_embedded.config.config import BrokerConfig
from broker_embedded.log.manager import LogManager
from broker_embedded.platform.clocks import Clock
from broker_embedded.platform.periodic import PeriodicTask
from broker_embedded.platform.worker_threads import OnDisk

_REMOVE_FILES_MS: Final = 5000


class LogMaintenance:
    """The periodic tasks. They wait for the disk in other threads."""

    def __init__(self, logs: LogManager, clock: Clock, on_disk: OnDisk) -> None:
        self._logs = logs
        self._clock = clock
        self._on_disk = on_disk

    def periodic_tasks(self, config: BrokerConfig) -> list[PeriodicTask]:
        """The tasks, with the intervals that a broker starts with."""
        return [
            PeriodicTask("retention", config.log_retention_check_interval_ms, self.apply_retention),
            PeriodicTask("removal of deleted files", _REMOVE_FILES_MS, self.remove_deleted_files),
            PeriodicTask("flush", config.log_flush_scheduler_interval_ms, self.flush_due_logs),
            PeriodicTask(
                "recovery checkpoint", config.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points
            ),
            PeriodicTask(
                "log start checkpoint",
                config.log_flush_start_offset_checkpoint_interval_ms,
                self.checkpoint_log_start_offsets,
            ),
            PeriodicTask(
                "high watermark checkpoint",
                config.replica_high_watermark_checkpoint_interval_ms,
                self.checkpoint_high_watermarks,
            ),
            PeriodicTask(
                "producer id expiry", config.producer_id_expiration_check_interval_ms, self.expire_producer_ids
            ),
        ]

    async def apply_retention(self) -> None:
        """Delete segments by ``retention.ms`` and ``retention.bytes``."""
        await self._on_disk(lambda: self._logs.tick(self._clock.now_ms(), self._clock.elapsed_ms()))

    async def remove_deleted_files(self) -> None:
        """Remove the files of deleted segments and topics whose ``file.delete.delay.ms`` has passed."""

        def remove() -> None:
            elapsed_ms = self._clock.elapsed_ms()
            for log in self._logs.logs.values():
                log.local.remove_retired(elapsed_ms)
            self._logs.remove_deleted(elapsed_ms)

        await self._on_disk(remove)

    async def flush_due_logs(self) -> None:
        """Flush logs whose ``flush.ms`` has passed."""
        await self._on_disk(lambda: self._logs.flush_due(self._clock.elapsed_ms()))

    async def checkpoint_recovery_points(self) -> None:
        """Flush complete segments, and write the recovery point of each log."""

        def flush_and_checkpoint() -> None:
            self._logs.flush_due(self._clock.elapsed_ms())
            self._logs.checkpoint_recovery_points()

        await self._on_disk(flush_and_checkpoint)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write the log start offset of each log."""
        await self._on_disk(self._logs.checkpoint_log_start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermark of each log."""
        await self._on_disk(self._logs.checkpoint_high_watermarks)

    async def expire_producer_ids(self) -> None:
        """Forget idempotent producers by ``producer.id.expiration.ms``."""

        def expire() -> None:
            for log in self._logs.logs.values():
                log.expire_producers(self._clock.now_ms())

        await self._on_disk(expire)
