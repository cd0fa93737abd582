from typing import Any

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import AppendContext, AppendOrigin
from broker_embedded._log.append.validation import assign, validate
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import CompressionType, TimestampType, check_crc, read_header, seal
from tests.support.records.log_batches import NOW_MS, Row, batch, joined, rows
from tests.support.records.message_sets import message_set
from tests.support.refusals import refused

HOUR_MS = 60 * 60 * 1000


def check(records: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, **settings: Any) -> None:
    """Validate a batch. The buffer must not change."""
    before = bytes(records)
    try:
        config = LogConfig(**settings)
        view = memoryview(records)
        found = validate(
            view, AppendContext(config=config, partition="t-0", origin=origin, now_ms=NOW_MS, base_offset=100)
        )
        assert found.records is view, "a batch without conversion is stored as it is"
    finally:
        assert records == before


def refusal(records: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, **settings: Any) -> tuple[ErrorCode, str]:
    error = refused(check, records, origin, **settings)
    assert error.detail.startswith("t-0: ")
    return error.code, error.detail


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_valid_batch_passes(codec: CompressionType) -> None:
    one = batch(b"a", b"b", compression=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    check(one)
    check(batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
    assert refusal(bytearray())[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("second", [batch(b"b"), message_set(b"b"), bytearray(b"b")], ids=["batch", "set", "bytes"])
def test_an_append_has_one_batch(second: bytearray) -> None:
    code, detail = refusal(joined([batch(b"a"), second]))
    expected = f"t-0: {len(second)} bytes after the record batch; an append has one batch"
    assert (code, detail) == (ErrorCode.INVALID_RECORD, expected)


@pytest.mark.parametrize("missing", [1, 50, 62, 65])
def test_a_batch_that_is_cut_off_is_corrupt(missing: int) -> None:
    assert refusal(batch(b"a")[:-missing])[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("at", [*range(17, 22), 30, 43, 60, -1])
def test_a_flipped_bit_is_corrupt(at: int) -> None:
    bad = batch(b"a", b"b")
    bad[at] ^= 1
    assert refusal(bad)[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("setting", "code"),
    [("max_message_bytes", ErrorCode.MESSAGE_TOO_LARGE), ("segment_bytes", ErrorCode.RECORD_LIST_TOO_LARGE)],
)
def test_batches_larger_than_the_limit_are_refused(setting: str, code: ErrorCode) -> None:
    records = batch(b"x" * 100)
    fits: dict[str, Any] = {setting: len(records)}
    too_large: dict[str, Any] = {setting: len(records) - 1}
    check(records, **fits)
    found, detail = refusal(records, **too_large)
    assert (found, setting.replace("_", ".") in detail) == (code, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_set_is_not_followed_by_a_batch(magic: int) -> None:
    code, detail = refusal(joined([message_set(b"a", magic=magic), batch(b"a")]))
    assert (code, detail) == (ErrorCode.INVALID_RECORD, f"t-0: a message of format v2 follows one of format v{magic}")


def test_an_unknown_codec_and_a_flipped_bit_are_different_errors() -> None:
    unknown = batch(b"a")
    unknown[22] |= 5
    assert refusal(unknown)[0] is ErrorCode.CORRUPT_MESSAGE
    seal(unknown)
    assert refusal(unknown)[0] is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(unknown[:40])[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"base_offset": 7}, "base offset"),
        ({"control": True}, "control"),
        ({"records_count": 0}, "the batch has no records"),
        ({"records_count": 1}, "last offset delta"),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, "sequence number -1"),
        ({"producer_id": 1, "producer_epoch": -1, "base_sequence": 0}, "epoch -1"),
        ({"transactional": True}, "no producer id"),
    ],
)
def test_control_and_malformed_batches_of_clients_are_refused(fields: dict[str, Any], why: str) -> None:
    code, detail = refusal(batch(b"a", b"b", **fields))
    assert code is ErrorCode.INVALID_RECORD
    assert why in detail


def test_coordinators_write_what_clients_may_not() -> None:
    unnumbered = batch(b"a", transactional=True, producer_id=1, producer_epoch=0)
    assert refusal(unnumbered)[0] is ErrorCode.INVALID_RECORD
    check(unnumbered, AppendOrigin.COORDINATOR)
    check(batch(b"a", control=True), AppendOrigin.COORDINATOR)


def test_markers_are_never_too_large() -> None:
    """A transaction that could not be ended would stop its readers for good."""
    settings = {"max_message_bytes": 10, "segment_bytes": 14}
    check(batch(b"a", control=True), AppendOrigin.COORDINATOR, **settings)
    assert refusal(batch(b"a"), AppendOrigin.COORDINATOR, **settings)[0] is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("timestamps", "settings", "good"),
    [
        (NOW_MS + HOUR_MS, {}, True),
        (NOW_MS + HOUR_MS + 1, {}, False),
        ((NOW_MS, NOW_MS + HOUR_MS + 1), {}, False),
        (0, {}, True),
        (-1, {}, True),
        (-1, {"message_timestamp_before_max_ms": 10}, True),
        (NOW_MS - 10, {"message_timestamp_before_max_ms": 10}, True),
        (NOW_MS - 11, {"message_timestamp_before_max_ms": 10}, False),
        ((NOW_MS - 11, NOW_MS), {"message_timestamp_before_max_ms": 10}, False),
        (NOW_MS + HOUR_MS + 1, {"message_timestamp_type": "LogAppendTime"}, True),
    ],
)
def test_timestamps_must_be_near_now(timestamps: Any, settings: dict[str, Any], good: bool) -> None:
    records = batch(*[b"v"] * (1 if isinstance(timestamps, int) else len(timestamps)), timestamps=timestamps)
    if good:
        check(records, **settings)
    else:
        assert refusal(records, **settings)[0] is ErrorCode.INVALID_TIMESTAMP


def test_producers_may_not_claim_the_brokers_time() -> None:
    stamped = batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert refusal(stamped)[0] is ErrorCode.INVALID_TIMESTAMP
    assert refusal(stamped, message_timestamp_type="LogAppendTime")[0] is ErrorCode.INVALID_TIMESTAMP
    check(stamped, AppendOrigin.COORDINATOR)


def assigned(records: bytearray, append_time: int = -1) -> bytearray:
    config = LogConfig(message_timestamp_type="CreateTime" if append_time < 0 else "LogAppendTime")
    view = memoryview(records)
    origin = AppendOrigin.CLIENT
    append = AppendContext(config=config, partition="t-0", origin=origin, now_ms=NOW_MS, base_offset=100)
    (placed,) = assign(validate(view, append), base_offset=100, leader_epoch=7, log_append_time_ms=append_time)
    header = read_header(records)
    assert placed == (0, header.size_in_bytes, header.last_offset, header.max_timestamp)
    check_crc(records, 0, header)
    assert header.partition_leader_epoch == 7
    return records


def test_offsets_are_given_one_after_the_other() -> None:
    records = batch(b"a", b"b", timestamps=[NOW_MS - 5, NOW_MS - 9])
    assert rows(assigned(records)) == [Row(100, NOW_MS - 5, b"a"), Row(101, NOW_MS - 9, b"b")]


def test_the_brokers_time_replaces_the_producers() -> None:
    records = assigned(batch(b"a", b"b", timestamps=[5, 6]), append_time=NOW_MS)
    assert [row.timestamp for row in rows(records)] == [NOW_MS] * 2
    assert read_header(records).timestamp_type is TimestampType.LOG_APPEND_TIME
