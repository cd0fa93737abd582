"""Checks of single records on their way into a log; all that fail are named (KIP-467)."""

from collections.abc import Iterator, Sequence

from broker_embedded.log.config import LogConfig
from broker_embedded.log.incoming import Append, InvalidRecords, RecordError
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.records.batch import NO_TIMESTAMP
from spark_kafka_native.records.legacy import Message

_SHOWN = 3


def check_records(records: Sequence[Message], append: Append) -> None:
    """Raise InvalidRecords unless every record may be stored.

    INVALID_TIMESTAMP if a timestamp is out of range, unless the topic's timestamps are the broker's. INVALID_RECORD: no
    key, in a compacted topic.
    """
    errors = list(_without_key(records)) if append.config.compacts else []
    out_of_range = [] if append.config.log_append_time else list(_out_of_range(records, append.config, append.now_ms))
    found = {error.batch_index: error for error in (*out_of_range, *errors)}  # of two the missing key counts
    if not found:
        return
    code = ErrorCode.INVALID_RECORD
    if any(found[error.batch_index] is error for error in out_of_range):
        code = ErrorCode.INVALID_TIMESTAMP
    ordered = [found[index] for index in sorted(found)]
    shown = "; ".join(f"record {index}: {message}" for index, message in ordered[:_SHOWN])
    more = f"; and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    raise InvalidRecords(code, f"{append.partition}: {shown}{more}", ordered)


def _without_key(records: Sequence[Message]) -> Iterator[RecordError]:
    for index, record in enumerate(records):
        if record.key is None:
            yield RecordError(index, "a compacted topic takes no record without a key")


def _out_of_range(records: Sequence[Message], config: LogConfig, now_ms: int) -> Iterator[RecordError]:
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if timestamp != NO_TIMESTAMP and not -after <= now_ms - timestamp <= before:
            yield RecordError(
                index,
                f"timestamp {timestamp} is not between {now_ms - before} and {now_ms + after}, see "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
            )
