"""Retention: where a log starts, and which segments it deletes."""

import logging
from collections.abc import Sequence

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.leader_epochs import LeaderEpochFileCache
from broker_embedded._log.local_log import LocalLog
from broker_embedded._log.segment import LogSegment
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._records.batch import UnreadableBatch

logger = logging.getLogger(__name__)


class Retention:
    """Holds ``log_start_offset``, the first offset that can be read, and increases it.

    It changes under the lock of the ``LocalLog``. Readers read it without a lock.
    """

    def __init__(self, local: LocalLog, epochs: LeaderEpochFileCache, log_start_offset: int) -> None:
        self._local = local
        self._epochs = epochs
        self.log_start_offset = log_start_offset

    @property
    def starts_within_segment(self) -> bool:
        """Whether the log start offset is within the first segment, after DeleteRecords, and must be checkpointed."""
        return self.log_start_offset > self._local.view.bases[0]

    def delete_old_segments(self) -> int:
        """Delete the segments that ``count_deletable`` finds; how many.

        1. If the active segment is one of them, a new one is started. If that fails, the active segment stays, because
           a full disk must not stop retention of the other segments. Crash here: as in an append.
        2. The log start offset moves after them. New reads do not find them, reads in progress continue.
        3. Their files are renamed to ``.deleted``, the oldest first. Crash here: the segments whose renames are lost
           exist again and are deleted by the next call; the next start removes the renamed files.
        4. ``file.delete.delay.ms`` later ``remove_retired`` removes the files. Crash here: the next start does it.

        Raises KafkaError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        local = self._local
        with local.names_lock:
            with local.lock:
                local.check_online()
                dropped = self._drop_old(local.platform.clock.now_ms())
            local.delete_segments(dropped)
        return len(dropped)

    def _drop_old(self, now_ms: int) -> tuple[LogSegment, ...]:
        """Steps 1 and 2: the segments that are no longer in the view."""
        local = self._local
        segments = local.view.segments
        try:
            count, reason = count_deletable(
                segments, local.config, log_start_offset=self.log_start_offset, now_ms=now_ms
            )
        except (OSError, UnreadableBatch) as error:
            local.fail("cannot find old segments", error)
        if count == len(segments):
            try:
                local.start_segment()
            except OSError as error:
                logger.warning(
                    "%s: the active segment cannot be rolled and is kept, although %s: %s", local, reason, error
                )
                count -= 1
        if not count:
            return ()
        start_offset = local.view.bases[count]
        logger.info("%s: deleting %s below offset %d: %s", local, counted(count, "segment"), start_offset, reason)
        self._move_start(start_offset)
        return local.drop_first(count)

    def delete_records(self, before_offset: int) -> int:
        """Move the log start offset to an offset, -1 for the end; the new log start offset (KIP-107).

        The next ``delete_old_segments`` deletes whole segments. The log start offset survives a restart once the
        manager has written its checkpoint.

        Raises KafkaError: POLICY_VIOLATION, ``cleanup.policy`` is ``compact`` alone. OFFSET_OUT_OF_RANGE: it is after
        the high watermark.
        """
        local = self._local
        with local.lock:
            local.check_online()
            config, end = local.config, local.view.end_offset
            if config.compacts and not config.deletes:
                policy = ",".join(config.cleanup_policy)
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"{local}: records cannot be deleted under cleanup.policy={policy}"
                )
            offset = end if before_offset == -1 else before_offset
            if not 0 <= offset <= end:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{local}: offset {offset} is not between 0 and {end}")
            self._move_start(offset)
            return self.log_start_offset

    def _move_start(self, offset: int) -> None:
        """Increase the log start offset to ``offset``. It never decreases."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_from_start(offset)


def count_deletable(
    segments: Sequence[LogSegment], config: LogConfig, *, log_start_offset: int, now_ms: int
) -> tuple[int, str]:
    """How many of the oldest segments to delete, and the reason for the last of them.

    As in Apache Kafka, in this order: segments before the log start offset; if ``cleanup.policy`` has ``delete``,
    ``retention.bytes``, as long as the remaining segments have that many; then ``retention.ms`` by each segment's
    largest record timestamp, or the time of its last write if no record has one. The active segment is included unless
    it is empty. The caller rolls it first.

    Raises OSError, UnreadableBatch.
    """
    count, reason = 0, ""
    while count < len(segments) - 1 and segments[count + 1].base_offset <= log_start_offset:
        count, reason = count + 1, f"it ends before the log start offset {log_start_offset}"

    def is_deletable() -> bool:
        return count < len(segments) - 1 or (count < len(segments) and segments[count].size > 0)

    if config.deletes and config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while is_deletable() and excess >= segments[count].size:
            excess -= segments[count].size
            count, reason = count + 1, f"the later segments have retention.bytes = {config.retention_bytes}"
    if config.deletes and config.retention_ms >= 0:
        while is_deletable() and now_ms - segments[count].retention_timestamp() > config.retention_ms:
            count, reason = count + 1, f"it is older than retention.ms = {config.retention_ms}"
    return count, reason
