import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker_embedded._log.batches import batch_headers
from broker_embedded._log.timestamp_lookup import OffsetTimestamp
from broker_embedded._platform.platform import read_file
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.legacy import CODECS
from tests.support.broker.log_driver import DIRECTORY, batches_of, offset_for_timestamp
from tests.support.broker.old_format_log import OldFormatLog
from tests.support.records.log_batches import NOW_MS
from tests.support.refusals import refused

NONE, GZIP = CompressionType.NONE, CompressionType.GZIP
FIRST = f"{DIRECTORY}/00000000000000000000.log"


def every_kind(**settings: object) -> OldFormatLog:
    """A log that was written in every format and codec."""
    log = OldFormatLog(**{"index_interval_bytes": 200, "segment_bytes": 600, **settings})
    for release in ("0.9.0", "0.10.2", "2.0"):
        log.write_format(release)
        for codec in CODECS:
            log.clock.advance(10)
            values = [b"%d" % (log.log.log_end_offset + index) for index in range(3)]
            log.put_set(*values, magic=1, compression=codec)
    return log


def summary(log: OldFormatLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in log.records()]


def test_every_offset_can_be_read_from() -> None:
    log = every_kind()
    everything = log.records()
    assert [record.offset for record in everything] == list(range(36))
    assert len(log.log.local.view.bases) > 1
    for offset in range(36):
        found = log.records(offset)
        assert found[-1] == everything[-1]
        assert found[0].offset <= offset
        assert everything[-len(found) :] == found
    steps = batches_of(log.log)
    assert [header.last_offset for header, _ in steps] == [shape[2] for shape in log.shapes()]


def test_compressed_sets_of_several_producers_get_offsets_of_their_own() -> None:
    """They hold absolute offsets, which are written before the lock is taken, and again if the log has grown."""
    log = OldFormatLog(**{"message.format.version": "0.9.0"})
    sent = [[b"%d-%d" % (producer, number) * 50 for number in range(40)] for producer in range(4)]

    def produce(values: list[bytes]) -> list[int]:
        pairs = zip(values[::2], values[1::2], strict=True)
        return [log.put_set(*pair, magic=0, compression=GZIP).base_offset for pair in pairs]

    with ThreadPoolExecutor(len(sent)) as producers:
        found = list(producers.map(produce, sent))
    assert [record.offset for record in log.records()] == list(range(160))
    values = {record.offset: record.value for record in log.records()}
    for producer, offsets in enumerate(found):
        assert [values[offset + extra] for offset in offsets for extra in (0, 1)] == sent[producer]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_every_format_opens_again(clean: bool) -> None:
    log = every_kind()
    before, bases = log.records(), log.log.local.view.bases
    indexes = {name: size for name, size in log.files().items() if "index" in name}
    log.reopen(clean=clean)
    assert log.records() == before
    assert log.log.local.view.bases == bases
    if clean:
        assert sum(log.files()[name] for name in indexes) > 0
    log.put_set(b"36", magic=0)
    assert log.log.log_end_offset == 37


def test_recovery_truncates_partial_batches_in_every_format() -> None:
    whole = every_kind(segment_bytes=100_000)
    raw = whole.stored()
    starts = [position for position, _ in batch_headers(whole.disk.open(FIRST), 0, len(raw))]
    chance = random.Random(5)
    for end in chance.sample(range(len(raw)), 60):
        log = every_kind(segment_bytes=100_000)
        file = log.disk.open(FIRST)
        start = max(position for position in starts if position <= end)
        if chance.random() < 0.5 or end < start + 8:  # an offset is under no CRC
            file.truncate(end)
        else:
            (byte,) = file.read_at(end, 1)
            file.write_at(end, bytes([byte ^ 0x40]))
        log.reopen(clean=False)
        leader_epoch = (start + 12 <= end < start + 16) and raw[start + 16] == 2  # nor is that
        assert log.log.local.size_in_bytes == (
            len(raw) if leader_epoch and log.log.local.size_in_bytes > start else start
        )
        assert summary(log) == summary(whole)[: len(log.records())]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_every_flipped_bit_ends_the_log_there(magic: int, codec: CompressionType) -> None:
    log = OldFormatLog(message_format_version=("0.9.0", "0.10.2")[magic])
    log.put_set(b"a", magic=magic, compression=codec)
    size = log.log.local.size_in_bytes
    for at in range(8, size, 3):
        log.put_set(b"b", magic=magic, compression=codec)
        file = log.disk.open(FIRST)
        (byte,) = file.read_at(size + at, 1)
        file.write_at(size + at, bytes([byte ^ 1]))
        log.reopen(clean=False)
        assert (log.log.log_end_offset, log.log.local.size_in_bytes) == (1, size)


def test_times_are_found_in_every_format() -> None:
    log = every_kind()
    first_with_time = 12  # what came before is in v0
    times = {record.offset: record.timestamp for record in log.records()}
    assert {times[offset] for offset in range(first_with_time)} == {-1}
    for reopened in (False, True):
        if reopened:
            log.reopen(clean=False)
        for offset in range(first_with_time, 36, 3):
            found = offset_for_timestamp(log.log, times[offset])
            assert found == OffsetTimestamp(offset, times[offset])
            assert offset_for_timestamp(log.log, times[offset] - 9) == found
        assert offset_for_timestamp(log.log, 0) == OffsetTimestamp(12, times[12])
        assert offset_for_timestamp(log.log, times[35] + 1) is None
        assert offset_for_timestamp(log.log, None) == OffsetTimestamp(33, times[33])


def test_a_time_is_found_inside_a_wrapper() -> None:
    log = OldFormatLog(message_format_version="0.10.2")
    log.put_set(b"a", b"b", b"c", magic=1, compression=GZIP, timestamps=[NOW_MS, NOW_MS + 9, NOW_MS + 5])
    assert offset_for_timestamp(log.log, NOW_MS + 1) == OffsetTimestamp(1, NOW_MS + 9)
    assert offset_for_timestamp(log.log, None) == OffsetTimestamp(1, NOW_MS + 9)


def test_without_times_none_is_found() -> None:
    log = OldFormatLog(message_format_version="0.9.0")
    log.put_set(b"a", magic=0)
    assert offset_for_timestamp(log.log, 0) is None
    assert offset_for_timestamp(log.log, None) is None


def test_cutting_at_every_offset() -> None:
    for offset in range(36):
        log = every_kind()
        kept = [record for record in log.records() if record.offset < offset]
        end = log.log.truncate_to(offset)
        batch_starts = {0, *(shape[2] + 1 for shape in log.shapes())}
        assert end <= offset
        assert end in batch_starts
        assert log.records() == kept[:end]
        assert log.put_set(b"new", magic=1).base_offset == end
        log.reopen(clean=False)
        assert log.records()[end].value == b"new"


def test_a_compressed_message_is_cut_where_it_begins() -> None:
    log = OldFormatLog(message_format_version="0.10.2")
    for _ in range(3):
        log.put_set(b"a", b"b", b"c", magic=1, compression=GZIP)
    assert log.log.truncate_to(7) == 6
    assert log.log.truncate_to(3) == 3
    assert log.log.log_end_offset == 3


def test_leader_epochs_end_with_an_old_format() -> None:
    log = OldFormatLog()
    log.put_batch(b"a")
    assert log.log.epochs.latest == 3
    log.write_format("0.10.2")
    log.put_batch(b"b")
    assert log.log.epochs.latest is None
    log.write_format("2.0")
    log.put_batch(b"c")
    assert (log.log.epochs.latest, log.log.epochs.epoch_of(2)) == (3, 3)


def test_segments_roll_by_the_time_in_old_messages() -> None:
    log = OldFormatLog(message_format_version="0.10.2", segment_ms=100)
    log.put_set(b"a", magic=1, timestamps=NOW_MS)
    log.put_set(b"b", magic=1, timestamps=NOW_MS + 100)
    log.put_set(b"c", magic=1, timestamps=NOW_MS + 101)
    assert log.log.local.view.bases == (0, 2)


def test_offsets_before_a_time() -> None:
    log = OldFormatLog()
    assert log.log.reader.offsets_before(None) == [0]
    start = log.clock.now_ms()
    for index in range(3):
        log.put_batch(b"%d" % index, b"x")
        log.clock.advance(1000)
        log.log.local.roll()
    assert log.log.reader.offsets_before(None) == [6, 4, 2, 0]
    log.put_batch(b"last")
    assert log.log.reader.offsets_before(None) == [7, 6, 4, 2, 0]
    assert log.log.reader.offsets_before(log.clock.now_ms()) == [7, 6, 4, 2, 0]
    assert log.log.reader.offsets_before(start + 2000) == [4, 2, 0]
    assert log.log.reader.offsets_before(start + 1999) == [2, 0]
    assert log.log.reader.offsets_before(start) == [0]
    assert log.log.reader.offsets_before(start - 1) == []
    log.log.retention.delete_records(3)
    assert log.log.reader.offsets_before(start + 2000) == [4, 3, 3]


def test_a_preallocated_segment_has_its_full_size_until_it_is_closed() -> None:
    log = OldFormatLog(preallocate=True, segment_bytes=1000)
    name = FIRST.rpartition("/")[2]
    assert log.files()[name] == 1000
    log.put_batch(b"x" * 300)
    used = log.log.local.size_in_bytes
    assert (log.files()[name], used) == (1000, 370)
    log.log.local.roll()
    second = "00000000000000000001.log"
    assert (log.files()[name], log.files()[second]) == (used, 1000)
    log.reopen()
    assert (log.files()[name], log.files()[second]) == (used, 0)
    assert summary(log) == [(0, b"x" * 300)]


def test_preallocated_bytes_are_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    log = OldFormatLog(preallocate=True, segment_bytes=1000)
    for index in range(5):
        log.put_batch(b"%d" % index * 300)
    before = summary(log)
    log.reopen(clean=False)
    assert summary(log) == before
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    log.put_batch(b"more")
    assert log.log.log_end_offset == 6


def test_zeroes_are_a_loss_where_nothing_is_preallocated(caplog: pytest.LogCaptureFixture) -> None:
    log = OldFormatLog()
    log.put_batch(b"a")
    log.disk.open(FIRST).truncate(1000)
    log.reopen(clean=False)
    assert summary(log) == [(0, b"a")]
    assert any("bytes dropped" in record.getMessage() for record in caplog.records)


def test_a_failed_append_leaves_nothing_though_it_gives_back_what_was_preallocated() -> None:
    log = OldFormatLog(preallocate=True, segment_bytes=1000)
    log.put_batch(b"a")
    log.faults.fail("write *.log")
    assert refused(log.put_batch, b"x" * 200).code is ErrorCode.KAFKA_STORAGE_ERROR
    log.faults.heal()
    log.put_batch(b"b")
    assert summary(log) == [(0, b"a"), (1, b"b")]
    assert read_file(log.disk, FIRST)[: log.log.local.size_in_bytes] == log.stored()
