import itertools
from typing import Any

import pytest

from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch
from spark_kafka_native._records.arrow.forward import MERGED_BELOW, Forwarded, forward
from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    CompressionType,
    TimestampType,
    check_crc,
    read_header,
    seal,
    set_offsets,
)
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.legacy import CODECS
from tests.support.records.log_batches import NOW_MS, batch, joined
from tests.support.records.message_sets import message_set, messages_in
from tests.support.records.record_batches import Aborted, marker

END = 2**62
VALUES = [b"a" * 50, b"b" * 50, b"c" * 50]


def forwarded(raw: bytes | bytearray | Batches, **options: Any) -> Forwarded:
    """By default without merging small batches."""
    defaults = {"from_offset": 0, "until_offset": END, "max_batch_bytes": 2**20, "merged_below": {}}
    return forward(raw, **{**defaults, **options})


def records_of(found: list[EncodedBatch]) -> list[tuple[int, bytes | None]]:
    """Timestamps and values. Each batch must be one that a leader accepts from a producer without a producer id."""
    records: list[tuple[int, bytes | None]] = []
    for each in found:
        header = read_header(each.buffer)
        check_crc(each.buffer, 0, header)
        assert (header.base_offset, header.partition_leader_epoch, header.producer_id) == (0, -1, -1)
        assert (header.producer_epoch, header.base_sequence, header.is_transactional) == (-1, -1, False)
        assert (header.timestamp_type, header.delete_horizon_ms) == (TimestampType.CREATE_TIME, None)
        messages = messages_in(each.buffer)
        assert [message.offset for message in messages] == list(range(header.last_offset_delta + 1))
        assert len(messages) == each.records_count == header.records_count
        records += [(message.timestamp, message.value) for message in messages]
    return records


def at(offset: int, raw: bytearray) -> bytearray:
    set_offsets(raw, 0, base_offset=offset, partition_leader_epoch=3)
    return raw


@pytest.mark.parametrize("codec", CompressionType)
def test_the_payload_of_a_batch_is_not_changed(codec: CompressionType) -> None:
    raw = at(7, batch(*VALUES, compression=codec, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True))
    found = forwarded(raw)
    (only,) = found.records
    assert bytes(only.buffer[RECORD_BATCH_OVERHEAD:]) == bytes(raw[RECORD_BATCH_OVERHEAD:])
    assert records_of(found.records) == [(NOW_MS, value) for value in VALUES]
    assert (found.next_offset, found.bytes_used, found.encoded_again) == (10, len(raw), 0)
    assert bytes(raw) == bytes(at(7, raw)), "the response is not changed"


def with_gap(raw: bytearray) -> bytearray:
    """As compaction leaves it: the last record was removed, and the last offset stays."""
    raw[23:27] = (3).to_bytes(4, "big")
    seal(raw)
    return raw


def with_delete_horizon(raw: bytearray) -> bytearray:
    raw[22] |= 0x40
    seal(raw)
    return raw


ENCODED_AGAIN = {
    "compacted": with_gap(batch(*VALUES)),
    "LogAppendTime": batch(*VALUES, timestamp_type=TimestampType.LOG_APPEND_TIME),
    "delete horizon": with_delete_horizon(batch(*VALUES)),
    **{
        f"format v{magic}, {codec.name}": message_set(*VALUES, magic=magic, compression=codec)
        for magic, codec in itertools.product([0, 1], CODECS)
    },
}


@pytest.mark.parametrize("kind", ENCODED_AGAIN)
def test_a_batch_that_a_leader_would_refuse_is_encoded_again(kind: str) -> None:
    raw = ENCODED_AGAIN[kind]
    codec = read_header(raw).compression if raw[16] == 2 else CompressionType(raw[17] & 7)
    found = forwarded(raw)
    assert [value for _, value in records_of(found.records)] == VALUES
    assert found.encoded_again > 0
    assert {read_header(each.buffer).compression for each in found.records} == {codec}


def test_records_that_are_encoded_again_keep_their_times_keys_and_headers() -> None:
    raw = batch(*VALUES, timestamps=[NOW_MS, NOW_MS + 5, NOW_MS - 3], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [time for time, _ in records_of(forwarded(raw).records)] == [NOW_MS + 5] * 3
    raw = with_gap(batch(*VALUES, timestamps=[NOW_MS, NOW_MS + 5, NOW_MS - 3]))
    assert [time for time, _ in records_of(forwarded(raw).records)] == [NOW_MS, NOW_MS + 5, NOW_MS - 3]
    old = message_set(*VALUES, keys=[b"k", None, b""])
    keys = [message.key for each in forwarded(old).records for message in messages_in(each.buffer)]
    assert keys == [b"k", None, b""]


@pytest.mark.parametrize(("start", "end", "expected"), [(1, END, VALUES[1:]), (0, 2, VALUES[:2]), (1, 2, VALUES[1:2])])
def test_only_records_in_the_range_of_offsets_are_forwarded(start: int, end: int, expected: list[bytes]) -> None:
    found = forwarded(batch(*VALUES), from_offset=start, until_offset=end)
    assert [value for _, value in records_of(found.records)] == expected
    assert found.next_offset == min(3, end)


def test_runs_of_old_messages_are_encoded_together_between_batches() -> None:
    raw = joined([message_set(*VALUES), at(3, batch(*VALUES)), message_set(*VALUES, first_offset=6)])
    found = forwarded(raw)
    assert [value for _, value in records_of(found.records)] == VALUES * 3
    assert [each.records_count for each in found.records] == [3, 3, 3]
    assert (found.next_offset, found.encoded_again) == (9, 6)


def test_markers_and_aborted_transactions_are_left_out() -> None:
    raw = joined(
        [
            at(0, batch(b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)),
            at(1, batch(b"kept", producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)),
            at(2, marker(ControlType.ABORT, 1)),
            at(3, batch(b"after", producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)),
            at(4, marker(ControlType.COMMIT, 2)),
        ]
    )
    committed = forwarded(raw, aborted=[Aborted(1, 0)])
    assert [value for _, value in records_of(committed.records)] == [b"kept", b"after"]
    assert (committed.next_offset, committed.bytes_used, committed.aborted) == (5, len(raw), ())
    everything = forwarded(raw)
    assert [value for _, value in records_of(everything.records)] == [b"aborted", b"kept", b"after"]


def test_a_call_that_stops_at_target_bytes_is_continued_by_the_next() -> None:
    parts = [at(3 * number, batch(*VALUES, compression=CompressionType.LZ4)) for number in range(5)]
    batches, offset, calls = Batches.of(joined(parts)), 0, 0
    values: list[bytes | None] = []
    while batches.size:
        found = forwarded(batches, from_offset=offset, target_bytes=len(parts[0]) + 1)
        values += [value for _, value in records_of(found.records)]
        batches, offset, calls = batches.skip(found.bytes_used), found.next_offset, calls + 1
    assert (values, offset, calls) == (VALUES * 5, 15, 3)


def test_a_batch_that_is_cut_off_is_left_for_the_next_response() -> None:
    whole, cut = batch(*VALUES), at(3, batch(*VALUES))[:-1]
    found = forwarded(joined([whole, bytearray(cut)]))
    assert (len(found.records), found.next_offset, found.bytes_used) == (1, 3, len(whole))


@pytest.mark.parametrize("kind", ["format v2", *ENCODED_AGAIN])
def test_damage_is_found_although_the_crc_is_written_again(kind: str) -> None:
    damaged = bytearray(ENCODED_AGAIN.get(kind) or batch(*VALUES))
    damaged[-3] ^= 1
    with pytest.raises(CorruptBatch):
        forwarded(damaged)


def test_offsets_that_go_back_are_damage() -> None:
    with pytest.raises(CorruptBatch, match="offset 3 or a later one must come next"):
        forwarded(joined([batch(*VALUES), at(2, batch(*VALUES))]))


def test_rows_are_those_of_decode() -> None:
    raw = joined([message_set(*VALUES), at(3, with_gap(batch(*VALUES))), at(7, batch(*VALUES))])
    rows = decode(raw, from_offset=0, until_offset=END, columns=["value"]).records
    assert [value for _, value in records_of(forwarded(raw).records)] == rows.column("value").to_pylist()


# --- small batches


@pytest.mark.parametrize("codec", CompressionType)
def test_small_batches_become_one_with_the_same_codec(codec: CompressionType) -> None:
    raw = joined(at(3 * number, batch(*VALUES, compression=codec)) for number in range(4))
    found = forwarded(raw, merged_below=MERGED_BELOW)
    (only,) = found.records
    assert records_of(found.records) == [(NOW_MS, value) for value in VALUES * 4]
    assert read_header(only.buffer).compression is codec
    assert (found.next_offset, found.bytes_used, found.encoded_again) == (12, len(raw), 4)


def test_one_small_batch_between_others_is_forwarded() -> None:
    large = [b"x" * 1000]
    raw = joined([at(0, batch(*large)), at(1, batch(b"small")), at(2, batch(*large))])
    found = forwarded(raw, merged_below={CompressionType.NONE: 500})
    payloads = [bytes(each.buffer[RECORD_BATCH_OVERHEAD:]) for each in found.records]
    assert payloads == [bytes(batch(value)[RECORD_BATCH_OVERHEAD:]) for value in (*large, b"small", *large)]
    assert (found.next_offset, found.encoded_again) == (3, 0)


def test_small_batches_of_other_codecs_are_not_merged() -> None:
    lz4 = batch(b"b", compression=CompressionType.LZ4)
    raw = joined([at(0, batch(b"a")), at(1, lz4), at(2, batch(b"c")), at(3, batch(b"d"))])
    found = forwarded(raw, merged_below=MERGED_BELOW)
    assert [each.records_count for each in found.records] == [1, 1, 2]
    assert records_of(found.records) == [(NOW_MS, value) for value in (b"a", b"b", b"c", b"d")]
    assert found.encoded_again == 2


def test_merged_batches_are_not_larger_than_a_batch_of_the_producer() -> None:
    raw = joined(at(number, batch(b"%d" % number * 100)) for number in range(20))
    found = forwarded(raw, merged_below=MERGED_BELOW, max_batch_bytes=1000)
    assert [value for _, value in records_of(found.records)] == [b"%d" % number * 100 for number in range(20)]
    assert len(found.records) > 1
    assert max(len(each.buffer) for each in found.records) <= 1000


def test_merged_batches_are_decoded_in_pieces_whose_memory_is_bounded() -> None:
    raw = joined(at(number, batch(b"x" * 20_000)) for number in range(40))
    found = forwarded(raw, merged_below=MERGED_BELOW, max_batch_bytes=2**22)
    assert len(found.records) == 3
    assert max(len(each.buffer) for each in found.records) < 300_000
    assert found.next_offset == 40
