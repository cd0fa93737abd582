"""The log cleaner: compacts the dirtiest log first, as many logs at a time as there are threads.

A partition with unreadable bytes, or another error that a retry does not repair, is logged and not compacted again
before the next start. After an error of the disk the compaction is retried after ``log.cleaner.backoff.ms``.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from broker_embedded._config.log_config import CleanerConfig, keys_fit
from broker_embedded._log.cleaner.cleanable import CleanableRange, cleanable_range, first_dirty_offset
from broker_embedded._log.cleaner.cleaner import Cleaner, CleanerLimits, CleanerStats
from broker_embedded._log.cleaner.replacement import CleaningAborted
from broker_embedded._log.log import Log
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_SHORTEST_WAIT_S: Final = 0.001
"""A shorter wait is added to the next one, because sleeping takes longer than requested."""


class _Candidate(NamedTuple):
    log: Log
    dirty: CleanableRange


class LogCleaner:
    """Compacts the logs of a manager. Any number of threads may call ``clean_one`` at the same time.

    ``uncleanable`` are the logs that are not compacted before the next start, ``last`` is the last compaction.
    """

    def __init__(self, logs: LogManager, platform: Platform, config: CleanerConfig) -> None:
        self.config = config
        self._logs = logs
        self._platform = platform
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._throttler = Throttler(time.monotonic, self._stopping.wait)
        self._busy: set[TopicPartition] = set()
        self._tried: set[TopicPartition] = set()  # not retried before the next run
        self.uncleanable: set[TopicPartition] = set()
        self.last: CleanerStats | None = None

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Abort compactions in progress, and begin no other."""
        self._stopping.set()

    def clean_one(self) -> bool:
        """Compact the dirtiest log whose compaction is due; whether there was one. Errors are logged."""
        found = None if self._stopping.is_set() else self._take_dirtiest()
        if found is None:
            return False
        log, dirty = found
        try:
            self._clean(log, dirty)
        finally:
            with self._lock:
                self._busy.discard(log.partition)
        return True

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _take_dirtiest(self) -> _Candidate | None:
        with self._lock:
            logs = self._logs.logs
            now_ms = self._platform.clock.now_ms()
            self.uncleanable &= logs.keys()
            passed_over = self._busy | self._tried | self.uncleanable
            candidates = [
                found
                for partition, log in logs.items()
                if log.config.compacts and log.offline is None and partition not in passed_over
                if (found := self._look_at(log, now_ms)) is not None
            ]
            due = [found for found in candidates if found.dirty.is_due(found.log.config.min_cleanable_dirty_ratio)]
            if not due:
                self._tried.clear()
                return None
            dirtiest = max(due, key=lambda found: found.dirty.dirty_ratio)
            self._busy.add(dirtiest.log.partition)
            return dirtiest

    def _look_at(self, log: Log, now_ms: int) -> _Candidate | None:
        try:
            start = first_dirty_offset(log, self._logs.cleaned_offsets.get(log.partition))
            return _Candidate(log, cleanable_range(log, start, now_ms))
        except OSError as error:
            logger.error("%s: cannot compute its dirty ratio: %s", log, error)
            self._tried.add(log.partition)
        except Exception as error:  # a retry would fail again, and the other logs must be compacted
            self._give_up(log, error)
        return None

    # --- compacting --------------------------------------------------------------------------------------------------

    def _clean(self, log: Log, dirty: CleanableRange) -> None:
        began_s = time.monotonic()
        try:
            log.local.flush_rolled()
            self._logs.checkpoint_recovery_points()
            report = Cleaner(log, dirty, self._limits(log), self._platform).run()
            self._logs.note_compacted(log, report.until_offset)
        except (CleaningAborted, FileNotFoundError) as error:
            logger.info("%s: its compaction was aborted: %s", log, error)
            self._put_off(log)
        except OSError as error:
            logger.error("%s: cannot be compacted now, will be retried: %s", log, error)
            self._put_off(log)
        except Exception as error:  # a retry would fail again, and the other logs must be compacted
            with self._lock:
                self._give_up(log, error)
        else:
            self.last = report
            _log_report(log, report, time.monotonic() - began_s)

    def _limits(self, log: Log) -> CleanerLimits:
        config, threads = self.config, max(1, self.config.threads)

        def spend(size: int) -> None:
            if self._stopping.is_set():
                raise CleaningAborted("the broker stops")
            if log.offline is not None:
                raise CleaningAborted(log.offline)
            if not log.config.compacts:
                raise CleaningAborted("cleanup.policy has changed")
            self._throttler.spend(size, self.config.io_max_bytes_per_second)

        return CleanerLimits(
            max_keys=keys_fit(config.dedupe_buffer_size // threads, config.io_buffer_load_factor),
            load_factor=config.io_buffer_load_factor,
            buffer_bytes=config.io_buffer_size // threads // 2,  # one buffer for reading, one for writing
            spend=spend,
            rest=functools.partial(time.sleep, 0),  # the event loop would else wait 5 ms for the interpreter lock
        )

    def _put_off(self, log: Log) -> None:
        with self._lock:
            self._tried.add(log.partition)

    def _give_up(self, log: Log, error: Exception) -> None:
        if isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._tried.add(log.partition)  # it is offline, which was logged
            return
        self.uncleanable.add(log.partition)
        logger.error("%s cannot be compacted, will be retried after a restart: %s", log, error, exc_info=error)


class Throttler:
    """Keeps the bytes that several threads ``spend`` together below a rate, on average.

    ``monotonic`` returns seconds. ``wait`` waits for a number of seconds, or less if the cleaner is stopped.
    """

    def __init__(self, monotonic: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._monotonic = monotonic
        self._wait = wait
        self._free_at_s = 0.0
        self._lock = threading.Lock()

    def spend(self, size: int, bytes_per_second: float) -> None:
        """Count bytes that were read or written, and wait until the rate is below the limit."""
        with self._lock:
            now_s = self._monotonic()
            self._free_at_s = max(self._free_at_s, now_s) + size / bytes_per_second
            pause_s = self._free_at_s - now_s
        if pause_s >= _SHORTEST_WAIT_S:
            self._wait(pause_s)


def _log_report(log: Log, report: CleanerStats, seconds: float) -> None:
    logger.info(
        "%s: compacted offsets %d to %d in %.1f s: %d of %d records and %d of %d bytes remain, in %s; "
        "%s in the offset map",
        log,
        report.from_offset,
        report.until_offset,
        seconds,
        report.records_kept,
        report.records_read,
        report.bytes_written,
        report.bytes_read,
        counted(report.segments_after, "segment"),
        counted(report.map_keys, "key"),
    )
