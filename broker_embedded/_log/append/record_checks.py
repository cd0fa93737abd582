"""Validation of single records, with an error for each record (KIP-467)."""

from collections.abc import Iterable
from typing import Final

from broker_embedded._config.settings import LONG_MAX
from broker_embedded._log.append.incoming import AppendContext, InvalidRecords, RecordError
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import NO_TIMESTAMP
from spark_kafka_native._records.record import LogRecord

_SHOWN: Final = 3
_MAX_ERRORS: Final = 100
"""Upper bound of the records in one error. A batch of a few KiB can contain a million records."""


def time_bounds(append: AppendContext) -> tuple[int, int]:
    """The earliest and the latest timestamp that a record may have."""
    config = append.config
    if config.log_append_time:
        return -LONG_MAX - 1, LONG_MAX
    earliest, latest = append.now_ms - config.timestamp_before_max_ms, append.now_ms + config.timestamp_after_max_ms
    return max(earliest, -LONG_MAX - 1), min(latest, LONG_MAX)


def check_records(records: Iterable[LogRecord], append: AppendContext) -> None:
    """Raise InvalidRecords unless every record is valid, see `RecordErrors`."""
    errors = RecordErrors(append)
    earliest, latest = time_bounds(append)
    needs_key = append.config.compacts
    for index, (_, timestamp, key, _, _) in enumerate(records):
        out_of_range = timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest
        if out_of_range or (needs_key and key is None):
            errors.add(index, timestamp, has_key=key is not None)
    errors.check()


class RecordErrors:
    """The first invalid records of a batch.

    INVALID_TIMESTAMP: a timestamp is out of range, except with LogAppendTime. INVALID_RECORD: no key, in a compacted
    topic. A record with both errors has INVALID_RECORD.
    """

    def __init__(self, append: AppendContext) -> None:
        self._append = append
        self._found: list[RecordError] = []
        self._code = ErrorCode.INVALID_RECORD

    def add(self, index: int, timestamp: int, *, has_key: bool) -> None:
        """Add a record without a key or with a bad timestamp. Raises InvalidRecords at `_MAX_ERRORS` records."""
        if self._append.config.compacts and not has_key:
            message = "a compacted topic takes no record without a key"
        else:
            self._code = ErrorCode.INVALID_TIMESTAMP
            earliest, latest = time_bounds(self._append)
            message = (
                f"timestamp {timestamp} is not between {earliest} and {latest}, see "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
            )
        self._found.append(RecordError(index, message))
        if len(self._found) == _MAX_ERRORS:
            self.check()

    def check(self) -> None:
        """Raise InvalidRecords if a record was added."""
        if not self._found:
            return
        shown = "; ".join(f"record {index}: {message}" for index, message in self._found[:_SHOWN])
        more = len(self._found) - _SHOWN
        if more > 0:
            shown += f"; and {more} more" if len(self._found) < _MAX_ERRORS else f"; and {more} or more others"
        raise InvalidRecords(self._code, f"{self._append.partition}: {shown}", self._found)
