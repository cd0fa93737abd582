import copy
from collections.abc import Sequence
from typing import Any

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import (
    AppendContext,
    AppendOrigin,
    InvalidRecords,
    RecordError,
    as_one_batch,
)
from broker_embedded._log.append.record_checks import check_records
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.record import LogRecord
from tests.support.records.log_batches import NOW_MS
from tests.support.records.message_sets import message_set, messages_in


def check(*records: tuple[bytes | None, int], **settings: Any) -> None:
    append = AppendContext(
        config=LogConfig(**settings), partition="t-0", origin=AppendOrigin.CLIENT, now_ms=NOW_MS, base_offset=0
    )
    check_records([LogRecord(0, time, key, b"v") for key, time in records], append)


def refused(*records: tuple[bytes | None, int], **settings: Any) -> tuple[ErrorCode, Sequence[int], str]:
    with pytest.raises(InvalidRecords) as caught:
        check(*records, **settings)
    return caught.value.code, [error.batch_index for error in caught.value.record_errors], caught.value.detail


COMPACT = {"cleanup_policy": ("compact",)}
KEYED = (b"k", NOW_MS)


def test_valid_records_pass() -> None:
    check(KEYED, (None, -1), (b"", NOW_MS + 3_600_000), (b"", 0))
    check(KEYED, (b"", -1), **COMPACT)


def test_a_compacted_topic_needs_keys() -> None:
    code, indexes, detail = refused(KEYED, (None, NOW_MS), KEYED, (None, -1), **COMPACT)
    assert (code, indexes) == (ErrorCode.INVALID_RECORD, [1, 3])
    assert detail == (
        "t-0: record 1: a compacted topic takes no record without a key; "
        "record 3: a compacted topic takes no record without a key"
    )


@pytest.mark.parametrize(
    ("time", "settings", "good"),
    [
        (NOW_MS - 10, {"message_timestamp_before_max_ms": 10}, True),
        (NOW_MS - 11, {"message_timestamp_before_max_ms": 10}, False),
        (NOW_MS + 10, {"message_timestamp_after_max_ms": 10}, True),
        (NOW_MS + 11, {"message_timestamp_after_max_ms": 10}, False),
        (NOW_MS + 11, {"message_timestamp_difference_max_ms": 10}, False),
        (NOW_MS - 11, {"message_timestamp_difference_max_ms": 10}, False),
        (NOW_MS - 11, {"message_timestamp_before_max_ms": 10, "message_timestamp_type": "LogAppendTime"}, True),
        (-1, {"message_timestamp_before_max_ms": 10}, True),
    ],
)
def test_timestamps_must_be_near_now(time: int, settings: dict[str, Any], good: bool) -> None:
    if good:
        check(KEYED, (b"k", time), **settings)
        return
    code, indexes, detail = refused(KEYED, (b"k", time), **settings)
    assert (code, indexes) == (ErrorCode.INVALID_TIMESTAMP, [1])
    assert f"timestamp {time} is not between" in detail


def test_a_record_is_named_once_and_timestamps_make_the_code() -> None:
    settings = {**COMPACT, "message_timestamp_before_max_ms": 10}
    assert refused((None, 5), KEYED, **settings)[:2] == (ErrorCode.INVALID_RECORD, [0])
    code, indexes, detail = refused((None, 5), (b"k", 5), (b"k", 6), (b"k", 7), **settings)
    assert (code, indexes) == (ErrorCode.INVALID_TIMESTAMP, [0, 1, 2, 3])
    assert detail.endswith("; and 1 more")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_messages_under_one_header(magic: int, codec: CompressionType) -> None:
    raw = message_set(b"a", b"b", b"c", magic=magic, compression=codec, timestamps=[5, 9, 7])
    found = list(iter_any(raw))
    assert len(messages_in(raw)) == 3
    batch = as_one_batch(memoryview(raw), found[0][1], (position for position, _ in found), count=3, largest=9)
    assert (bytes(batch.records), batch.header.size_in_bytes) == (bytes(raw), len(raw))
    assert (batch.header.last_offset_delta, batch.header.records_count) == (2, 3)
    assert batch.header.max_timestamp == (9 if magic else -1)
    assert batch.messages.tolist() == [position for position, _ in found]


def test_records_to_blame_survive_copying() -> None:
    error = InvalidRecords(ErrorCode.INVALID_TIMESTAMP, "t-0: no", [RecordError(3, f"{NOW_MS} is late")])
    again = copy.copy(error)
    assert again.record_errors == error.record_errors == (RecordError(3, f"{NOW_MS} is late"),)
    assert "INVALID_TIMESTAMP" in str(again)
