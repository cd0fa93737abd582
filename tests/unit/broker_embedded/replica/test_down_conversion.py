import errno
from typing import Any, Self

import pytest

from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.view import FirstBatch
from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from broker_embedded._replica import down_conversion
from broker_embedded._replica.down_conversion import down_convert
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.wire import FileRegion
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import CODECS
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.log_driver import DIRECTORY, region_bytes
from tests.support.broker.old_format_log import ALL_BYTES, OldFormatLog
from tests.support.records.message_sets import messages_in, shapes
from tests.support.records.record_batches import marker
from tests.support.refusals import refused

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType


def fetched(
    log: OldFormatLog, offset: int = 0, *, magic: int = 1, max_bytes: int = ALL_BYTES, whole_first: bool = True
) -> bytes | tuple[FileRegion, ...]:
    found = log.log.reader.read(
        offset, max_bytes=max_bytes, first_batch=FirstBatch.WHOLE if whole_first else FirstBatch.CUT
    )
    return down_convert(log.log, offset, found.regions, magic=magic, until_offset=log.log.high_watermark)


def sent(log: OldFormatLog, offset: int = 0, **options: Any) -> bytes:
    records = fetched(log, offset, **options)
    return records if isinstance(records, bytes) else b"".join(map(region_bytes, records))


def refusal(log: OldFormatLog, offset: int = 0, *, magic: int = 1) -> KafkaError:
    return refused(fetched, log, offset, magic=magic)


def consume(log: OldFormatLog, *, magic: int, max_bytes: int, whole_first: bool) -> list[int]:
    """The offsets that a consumer reads, without records before its position and partial ones."""
    offsets: list[int] = []
    offset = 0
    while offset < log.log.high_watermark:
        raw = sent(log, offset, magic=magic, max_bytes=max_bytes, whole_first=whole_first)
        assert all(found <= magic for found, _, _ in shapes(raw))
        found = [message.offset for message in messages_in(raw) if message.offset >= offset]
        if not found:
            break
        offsets += found
        offset = found[-1] + 1
    return offsets


@pytest.fixture
def log() -> OldFormatLog:
    return OldFormatLog()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_record_batches_become_message_sets(magic: int, codec: CompressionType, log: OldFormatLog) -> None:
    log.put_batch(b"a", b"b", compression=codec)
    log.put_batch(b"c", compression=codec)
    for offset in (0, 2):
        assert {shape[:2] for shape in shapes(sent(log, offset, magic=magic))} == {(magic, codec)}
    time = log.clock.now_ms() if magic else -1
    assert messages_in(sent(log, magic=magic))[:2] == [LogRecord(0, time, None, b"a"), LogRecord(1, time, None, b"b")]
    assert messages_in(sent(log, 2, magic=magic)) == [LogRecord(2, time, None, b"c")]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_log_of_all_formats(magic: int) -> None:
    log = OldFormatLog(message_format_version="0.9.0")
    for release in ("0.10.2", "2.0", "0.9.0", "2.0"):
        log.put_set(b"x", b"y", magic=1, compression=GZIP)
        log.put_set(b"z", magic=0)
        log.write_format(release)
    assert {shape[0] for shape in log.shapes()} == {0, 1, 2}
    for whole_first in (True, False):
        for max_bytes in (100, 150, 1000):
            found = consume(log, magic=magic, max_bytes=max_bytes, whole_first=whole_first)
            assert found == list(range(log.log.log_end_offset))


def test_batches_of_the_requested_format_are_sent_from_the_file() -> None:
    log = OldFormatLog(message_format_version="0.10.2")
    log.put_set(b"a", b"b", magic=1)
    assert isinstance(fetched(log), tuple)
    assert isinstance(fetched(log, magic=0), bytes)
    assert fetched(log, 2) == ()


@pytest.mark.parametrize("max_bytes", [1, 30, 61, 100, 200, 400, 800])
@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_within_max_bytes_returns_every_record(
    magic: int, codec: CompressionType, max_bytes: int, log: OldFormatLog
) -> None:
    for index in range(5):
        log.put_batch(*[b"%d" % index * 30] * 3, compression=codec)
    assert consume(log, magic=magic, max_bytes=max_bytes, whole_first=True) == list(range(15))
    first = next(iter_any(sent(log, magic=magic)))[1].size_in_bytes
    for raw in (sent(log, magic=magic, max_bytes=max_bytes, whole_first=whole) for whole in (True, False)):
        assert len(raw) <= max(max_bytes, 3 * first)
    cut = sent(log, magic=magic, max_bytes=max_bytes, whole_first=False)
    whole = log.log.reader.read(0, max_bytes=max_bytes).size <= max_bytes
    assert len(cut) <= max_bytes or whole
    assert cut == sent(log, magic=magic)[: len(cut)]


def test_a_batch_larger_than_max_bytes_gives_the_records_that_fit(log: OldFormatLog) -> None:
    log.put_batch(*[b"x" * 100] * 10)
    raw = sent(log, max_bytes=500, whole_first=False)
    assert len(raw) == 500
    assert [message.offset for message in messages_in(raw)] == [0, 1, 2]
    assert consume(log, magic=1, max_bytes=500, whole_first=False) == list(range(10))


def test_an_uncompressed_batch_begins_at_the_fetch_offset(log: OldFormatLog) -> None:
    log.put_batch(b"a", b"b", b"c")
    log.put_batch(b"d", b"e", compression=GZIP)
    assert [message.offset for message in messages_in(sent(log, 1))] == [1, 2, 3, 4]
    assert [message.offset for message in messages_in(sent(log, 4))] == [3, 4]


def test_batches_that_vanish_are_passed_over(log: OldFormatLog) -> None:
    def control() -> None:
        log.log.append(
            marker(ControlType.COMMIT, 5), leader_epoch=0, conditions=AppendConditions(origin=AppendOrigin.COORDINATOR)
        )

    for _ in range(5):
        control()
    assert sent(log, 0, max_bytes=1) == b""
    log.put_batch(b"a")
    control()
    assert [message.offset for message in messages_in(sent(log, 0, max_bytes=1))] == [5]
    assert sent(log, 6) == b""
    log.put_batch(b"b")
    assert consume(log, magic=0, max_bytes=1, whole_first=True) == [5, 7]


def test_zstd_ends_a_response_or_is_refused(log: OldFormatLog) -> None:
    log.put_batch(b"a", b"b")
    log.put_batch(b"c", compression=ZSTD)
    log.put_batch(b"d")
    assert [message.offset for message in messages_in(sent(log))] == [0, 1]
    error = refusal(log, 2)
    assert (error.code, "offset 2" in error.detail) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True)
    assert [message.offset for message in messages_in(sent(log, 3))] == [3]


def test_a_topic_that_does_not_convert() -> None:
    log = OldFormatLog(message_downconversion_enable=False)
    assert refusal(log).code is ErrorCode.UNSUPPORTED_VERSION
    log.put_batch(b"a")
    error = refusal(log)
    assert (error.code, "message.downconversion.enable" in error.detail) == (ErrorCode.UNSUPPORTED_VERSION, True)
    old = OldFormatLog(message_downconversion_enable=False, message_format_version="0.10.2")
    old.put_batch(b"a")
    assert len(messages_in(sent(old))) == 1
    assert refusal(old, magic=0).code is ErrorCode.UNSUPPORTED_VERSION


def test_a_damaged_batch_on_the_disk_is_an_error(log: OldFormatLog) -> None:
    log.put_batch(b"x" * 100, compression=GZIP)
    path = f"{DIRECTORY}/00000000000000000000.log"
    log.disk.open(path).write_at(70, b"nonsense")
    error = refusal(log)
    assert (error.code, "t-0" in error.detail) == (ErrorCode.CORRUPT_MESSAGE, True)


class BrokenFile:
    def file(self) -> Self:
        return self

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, length: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


def test_a_disk_error_is_raised(log: OldFormatLog) -> None:
    log.put_batch(b"x")
    region = FileRegion(BrokenFile(), 0, 100)
    assert refused(down_convert, log.log, 0, (region,), magic=1, until_offset=1).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_records_converted_for_one_response_are_bounded_and_the_rest_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(down_conversion, "_MAX_RECORDS", 5)
    log = OldFormatLog()
    for _ in range(4):
        log.put_batch(b"a", b"b", b"c", compression=GZIP)
    assert [message.offset for message in messages_in(sent(log))] == list(range(6))
    assert consume(log, magic=1, max_bytes=ALL_BYTES, whole_first=True) == list(range(12))


def test_a_conversion_that_is_cancelled_stops_between_records(log: OldFormatLog) -> None:
    log.put_batch(b"a", b"b")
    found = log.log.reader.read(0, max_bytes=ALL_BYTES)
    cancellation = Cancellation()
    cancellation.cancel("the client has left")
    with pytest.raises(WorkCancelled, match="the client has left"):
        down_convert(log.log, 0, found.regions, magic=1, until_offset=2, cancellation=cancellation)
