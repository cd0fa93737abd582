from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.decode import Decoded, decode
from spark_kafka_native._records.batch import CorruptBatch, UnreadableBatch, seal
from tests.support.records import reference
from tests.support.records.record_batches import as_rows
from tests.support.records.reference import CODECS, Batch, Record, numbered, rows, write_batch
from tests.support.records.strategies import record_lists

pytestmark = pytest.mark.usefixtures("each_kernel")


def decode_all(buffer: bytes) -> Decoded:
    return decode(buffer, from_offset=0, until_offset=2**62)


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return reference.write_varint(len(joined)) + joined


def varints(*numbers: int) -> list[bytes]:
    return [reference.write_varint(number) for number in numbers]


GOOD = body(b"\x00", *varints(0, 0, -1, -1, 0))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (GOOD, "2 records cannot make 7 bytes"),
        (GOOD + GOOD, "offset 10 is not greater than the previous record's offset 10"),
        (GOOD + body(b"\x00", *varints(0, 5, -1, -1, 0)), "offset 15 is greater than the batch's last offset 11"),
        (GOOD + body(b"\x00", *varints(0, -1, -1, -1, 0)), "impossible offset delta -1 or key length -1"),
        (body(b"\x00", *varints(0, -1, -1, -1, 0)) + GOOD, "impossible offset delta -1 or key length -1"),
        (GOOD + body(b"\x00", *varints(0, 1, -1, -1, 0)) + b"\x00", "1 bytes are left after the batch's last record"),
        (
            GOOD + body(b"\x00", *varints(0, 1, -1, -1, 0, 0)),
            "impossible header count 0, 1 bytes of the record are left",
        ),
        (
            GOOD + body(b"\x00", *varints(0, 1, -2, -1, 0)),
            "impossible offset delta 1 or key length -2, 2 bytes of the record",
        ),
        (GOOD + body(b"\x00", *varints(0, 1, -1, -2, 0)), "impossible value length -2, 1 bytes of the record are left"),
        (GOOD + body(b"\x00", *varints(0, 1, 1, -1, 0)), "impossible value length 0, 0 bytes of the record are left"),
        (
            GOOD + body(b"\x00", *varints(0, 1, 2**31 - 1, 2**31 - 1, 0)),
            "or key length 2147483647, 6 bytes of the record",
        ),
        (
            GOOD + body(b"\x00", *varints(0, 1, -1, -1, -1)),
            "impossible header count -1, 0 bytes of the record are left",
        ),
        (
            GOOD + body(b"\x00", *varints(0, 1, -1, -1, 2, 0, 0)),
            "impossible header count 2, 2 bytes of the record are left",
        ),
        (GOOD + body(b"\x00", *varints(0, 1, -1, -1, 1, -1, 0)), "header 0 has no key"),
        (GOOD + body(b"\x00", *varints(0, 1, -1, -1, 1, 0, -2)), "impossible length -2 of a header's key or value"),
        (
            GOOD + body(b"\x00", *varints(0, 1, -1, -1, 1, 9, 0)),
            "impossible length 9 of a header's key or value, 1 bytes",
        ),
        (GOOD + body(b"\x00", *varints(0, 1, -1, -1, 1, 0, 0, 0)), "1 bytes are left after the record's 1 headers"),
        (GOOD + body(b"\x00\x00", b"\xff" * 5 + b"\x01", *varints(-1, -1, 0)), "a varint is longer than 5 bytes"),
        (GOOD + body(b"\x00\x00", b"\x80\x80\x80\x80\x10", *varints(-1, -1, 0)), "a varint is longer than 5 bytes"),
        (GOOD + body(b"\x00", b"\xff" * 10 + b"\x01", *varints(1, -1, -1, 0)), "a varint is longer than 10 bytes"),
        (GOOD + b"\x80\x80\x80\x80\x80\x01" + GOOD, "a varint is longer than 5 bytes"),
        (GOOD + b"\x80" * 3 + b"\x04" + GOOD, "the batch ends 4194297 bytes before the record does"),
        (GOOD + b"\x0b" + GOOD, "impossible record length -6"),
        (GOOD + b"\x0a" + GOOD, "impossible record length 5"),
        (GOOD + b"\x80" * 9, "a varint is longer than 5 bytes"),
        (GOOD + b"\x0c" + b"\x00" * 6 + GOOD, "offset 10 is not greater than the previous record's offset 10"),
        (GOOD + body(b"\x00", *varints(0, 1, 0, 0, 0)) + GOOD, "7 bytes are left after the batch's last record"),
        (body(b"\x00", *varints(0, 0, -1, 9), bytes(9), *varints(0)), "the batch has fewer than 2 records"),
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_records_that_no_writer_writes(payload: bytes, message: str, codec: int) -> None:
    before = write_batch(Batch(records=numbered([Record(value=b"%d" % row) for row in range(3)]), codec=codec))
    batch = Batch(records=(Record(), Record(offset=1)), base_offset=10, codec=codec)
    batch = replace(batch, records=tuple(replace(record, offset=record.offset + 10) for record in batch.records))
    with pytest.raises(CorruptBatch, match=f"{message}.*position {len(before)}, base offset 10"):
        decode_all(before + write_batch(batch, payload))


@pytest.mark.parametrize("codec", CODECS)
def test_no_records_and_yet_bytes(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=r"0 records cannot make 7 bytes .*base offset 5"):
        decode_all(write_batch(Batch(base_offset=5, codec=codec), GOOD))
    assert decode_all(write_batch(Batch(base_offset=5, codec=codec), b"")).next_offset == 6


SAMPLE = write_batch(
    Batch(
        records=numbered(
            [
                Record(b"key", b"value", (("name", b"x"), ("n", None)), 1_700_000_000_000),
                Record(None, b"", (), 1_700_000_000_005),
                Record(b"", None, (("é", b""),), 1_700_000_000_003),
            ]
        )
    )
)


def test_any_flipped_byte_is_noticed() -> None:
    wanted = as_rows(decode_all(SAMPLE))
    for position in range(len(SAMPLE)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(SAMPLE)
            broken[position] ^= flip
            try:
                decoded = decode(broken, from_offset=0, until_offset=2**63 - 1)
            except UnreadableBatch:
                continue
            if position < 8:  # base_offset is not under the CRC: the same records, elsewhere
                moved = int.from_bytes(broken[:8], "big")
                assert as_rows(decoded) == [{**row, "offset": moved + index} for index, row in enumerate(wanted)]
            elif position < 12:  # batch_length: taken for the beginning of a larger batch
                assert decoded.bytes_used == 0
            else:  # partition_leader_epoch
                assert 12 <= position < 16
                assert as_rows(decoded) == wanted


@given(st.data())
@settings(max_examples=80)
def test_garbage_under_a_good_crc_is_corrupt_or_a_valid_parse(data: st.DataObject) -> None:
    records = data.draw(record_lists(min_size=1, max_size=6))
    payload = bytearray(b"".join(reference.write_record(record, 0, records[0].timestamp) for record in records))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert_agrees(write_batch(Batch(records=records), bytes(payload)))


@given(st.integers(1, 4), st.binary(max_size=60), st.sampled_from(CODECS))
@settings(max_examples=80)
def test_random_payloads_are_corrupt_or_a_valid_parse(count: int, payload: bytes, codec: int) -> None:
    assert_agrees(write_batch(Batch(records=tuple(numbered([Record()] * count)), codec=codec), payload))


@given(st.binary(max_size=200), st.sampled_from(CODECS))
@settings(max_examples=80)
def test_random_compressed_bytes_are_corrupt(stored: bytes, codec: int) -> None:
    buffer = bytearray(write_batch(Batch(records=tuple(numbered([Record()] * 2))), stored))
    buffer[22] |= codec
    seal(buffer)
    assert_agrees(bytes(buffer))


def assert_agrees(buffer: bytes) -> None:
    """What decodes is what the reference reads; what is CorruptBatch, the reference does not take for good either."""
    try:
        found = as_rows(decode_all(buffer))
    except CorruptBatch:
        try:
            batch = reference.read_batch(buffer)
        except Exception:  # the codecs raise what they like
            return
        assert not is_plausible(batch)
    else:
        assert found == rows(reference.read_batch(buffer).records)


def is_plausible(batch: Batch) -> bool:
    bounds = [batch.base_offset - 1, *(record.offset for record in batch.records)]
    assert batch.last_offset_delta is not None
    return (
        all(low < high for low, high in pairwise(bounds)) and bounds[-1] <= batch.base_offset + batch.last_offset_delta
    )
