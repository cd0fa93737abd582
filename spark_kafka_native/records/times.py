"""Which record of a batch is the first of a time or later: compiled where that has been built, else in plain Python.

Records are looked at one by one, and no more of them than time and offset; without numpy, whose import would slow a
broker's start. The compiled module is imported at first use. What it refuses, plain Python looks at again, and it alone
says what is wrong.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache

from spark_kafka_native.records._kernel import VARIABLE, if_wanted
from spark_kafka_native.records.batch import BatchHeader, TimestampType
from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import VARLONG_BYTES, read_varint

Find = Callable[[bytes, int, int, int, bool, int, int], tuple[int, int] | tuple[()] | None]


def _load() -> Find:
    from spark_kafka_native.records._kernel.times import first_at_or_after as find  # noqa: PLC0415 -- at first use

    return find


@cache
def compiled() -> Find | None:
    """The kernel's function, None where it has not been built or is not wanted. Raises as ``if_wanted``."""
    return if_wanted(os.environ.get(VARIABLE, ""), _load)


def first_at_or_after(
    payload: bytes, header: BatchHeader, timestamp: int, from_offset: int, find: Find | None
) -> tuple[int, int] | None:
    """Offset and time of the first record from ``from_offset`` on that is of ``timestamp`` or later, if there is one.

    ``payload`` is that of a batch of format v2, decompressed; ``find`` is what ``compiled`` returns.
    Raises BadRecord: a record before that is none.
    """
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME  # the batch's time is then every record's
    base_time = header.max_timestamp if stamped else header.base_timestamp
    if find is not None:
        found = find(payload, header.records_count, header.base_offset, base_time, stamped, timestamp, from_offset)
        if found is not None:
            return found or None
    for offset_delta, time_delta in _deltas(memoryview(payload), header.records_count):
        offset, time = header.base_offset + offset_delta, base_time if stamped else base_time + time_delta
        if time >= timestamp and offset >= from_offset:
            return offset, time
    return None


def _deltas(records: memoryview, count: int) -> Iterator[tuple[int, int]]:
    """Of each record those of its offset and of its time."""
    position = 0
    for index in range(count):
        length, body = read_varint(records, position, len(records), index)
        end = body + length
        if not body < end <= len(records):
            raise BadRecord(index, f"impossible record length {length}")
        time, at = read_varint(records, body + 1, end, index, VARLONG_BYTES)  # behind the attributes
        offset, _ = read_varint(records, at, end, index)
        yield offset, time
        position = end
