"""Which segments a log has outlived."""

from collections.abc import Sequence

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.segment import LogSegment


def count_deletable(
    segments: Sequence[LogSegment], config: LogConfig, *, log_start_offset: int, now_ms: int
) -> tuple[int, str]:
    """How many of the oldest segments may go, and why the last of them may.

    As in Apache Kafka, in this order: what lies before the log start offset; if ``cleanup.policy`` has ``delete``,
    ``retention.bytes``, as long as the rest still has that many; then ``retention.ms`` by each segment's largest record
    timestamp, or the time of its last write if no record has one. The active segment counts like any other unless it is
    empty; the caller rolls it first.

    Raises OSError, UnreadableBatch.
    """
    count, reason = 0, ""
    while count < len(segments) - 1 and segments[count + 1].base_offset <= log_start_offset:
        count, reason = count + 1, f"it ends before the log start offset {log_start_offset}"

    def may_go() -> bool:
        return count < len(segments) - 1 or (count < len(segments) and segments[count].size > 0)

    if config.deletes and config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while may_go() and excess >= segments[count].size:
            excess -= segments[count].size
            count, reason = count + 1, f"the rest has retention.bytes = {config.retention_bytes}"
    if config.deletes and config.retention_ms >= 0:
        while may_go() and now_ms - segments[count].retention_timestamp() > config.retention_ms:
            count, reason = count + 1, f"it is older than retention.ms = {config.retention_ms}"
    return count, reason
