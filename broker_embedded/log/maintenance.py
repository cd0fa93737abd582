"""The periodic tasks of a broker's logs: retention, flushes, checkpoints, expiry."""

import functools
from collections.abc import Callable
from typing import Final

from broker_embedded.config.config import BrokerConfig
from broker_embedded.log.manager import LogManager
from broker_embedded.platform.clocks import Clock
from broker_embedded.platform.periodic import PeriodicTask
from broker_embedded.platform.worker_threads import OnDisk

_REMOVE_FILES_MS: Final = 5000


def log_tasks(config: BrokerConfig, logs: LogManager, clock: Clock, on_disk: OnDisk) -> list[PeriodicTask]:
    """The tasks, with the intervals at the start of the broker. They wait for the disk in other threads."""

    def remove_deleted_files() -> None:
        elapsed_ms = clock.elapsed_ms()
        for log in logs.logs.values():
            log.local.remove_retired(elapsed_ms)
        logs.remove_deleted(elapsed_ms)

    def flush_and_checkpoint() -> None:
        logs.flush_due(clock.elapsed_ms())
        logs.checkpoint_recovery_points()

    def expire_producer_ids() -> None:
        for log in logs.logs.values():
            log.expire_producers(clock.now_ms())

    start_checkpoint_ms = config.log_flush_start_offset_checkpoint_interval_ms
    watermark_checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
    tasks: tuple[tuple[str, int, Callable[[], object]], ...] = (
        ("retention", config.log_retention_check_interval_ms, lambda: logs.tick(clock.now_ms(), clock.elapsed_ms())),
        ("removal of deleted files", _REMOVE_FILES_MS, remove_deleted_files),
        ("flush", config.log_flush_scheduler_interval_ms, lambda: logs.flush_due(clock.elapsed_ms())),
        ("recovery checkpoint", config.log_flush_offset_checkpoint_interval_ms, flush_and_checkpoint),
        ("log start checkpoint", start_checkpoint_ms, logs.checkpoint_log_start_offsets),
        ("high watermark checkpoint", watermark_checkpoint_ms, logs.checkpoint_high_watermarks),
        ("producer id expiry", config.producer_id_expiration_check_interval_ms, expire_producer_ids),
    )
    return [PeriodicTask(name, interval_ms, functools.partial(on_disk, work)) for name, interval_ms, work in tasks]
