import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._log.cleaner.keyed_records import KeyedRecord, keyed_blocks, timestamp_delta, with_base_timestamp
from spark_kafka_native._records.batch import BatchHeader, CorruptBatch, read_header
from tests.support.records import reference

BASE_TIMESTAMP = 1_700_000_000_000

optional_bytes = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=300)
records = st.lists(
    st.builds(
        reference.Record,
        key=optional_bytes,
        value=optional_bytes,
        headers=st.lists(st.tuples(st.text(max_size=3), optional_bytes), max_size=2).map(tuple),
        timestamp=st.integers(-(2**40), 2**62).map(lambda ms: max(-1, ms)),
    ),
    min_size=1,
    max_size=25,
).map(reference.numbered)


def written(found: tuple[reference.Record, ...], *, base_timestamp: int = BASE_TIMESTAMP) -> bytes:
    return reference.write_batch(reference.Batch(records=found, base_timestamp=base_timestamp))


def keyed_records(payload: bytes, header: BatchHeader) -> list[KeyedRecord]:
    return [record for _, records in keyed_blocks([payload], header) for record in records]


def read(batch: bytes) -> list[KeyedRecord]:
    return keyed_records(batch[61:], read_header(batch))


@given(records)
def test_records_of_any_kind(found: tuple[reference.Record, ...]) -> None:
    batch = written(found)
    payload = batch[61:]
    assert [
        (record[2], record[3], record[4], BASE_TIMESTAMP + timestamp_delta(payload, record)) for record in read(batch)
    ] == [(record.offset, record.key, record.value is not None, record.timestamp) for record in found]
    assert b"".join(payload[start:end] for start, end, *_ in read(batch)) == payload


@given(records, st.integers(-(2**41), 2**41))
def test_a_record_moves_to_another_base_timestamp(found: tuple[reference.Record, ...], moved_ms: int) -> None:
    batch = written(found)
    payload = batch[61:]
    moved = b"".join(with_base_timestamp(payload, record, moved_ms) for record in read(batch))
    assert moved == written(found, base_timestamp=BASE_TIMESTAMP + moved_ms)[61:]


SOME = written(
    reference.numbered(
        [
            reference.Record(b"key", b"v" * 100, (("h", b"1"),), BASE_TIMESTAMP + 500),
            reference.Record(None, None, (), BASE_TIMESTAMP),
            reference.Record(b"", b"", (), BASE_TIMESTAMP - 1),
        ]
    )
)


def test_records_that_are_cut_off_anywhere() -> None:
    header, payload = read_header(SOME), SOME[61:]
    indexes: list[int] = []
    for size in range(len(payload)):
        with pytest.raises(CorruptBatch, match="record") as caught:
            keyed_records(payload[:size], header)
        assert caught.value.base_offset == 0
        assert caught.value.record_index is not None
        indexes.append(caught.value.record_index)
    assert indexes == sorted(indexes)
    assert set(indexes) == {0, 1, 2}


def test_bytes_after_the_last_record() -> None:
    with pytest.raises(CorruptBatch, match="1 bytes are left after the last"):
        keyed_records(SOME[61:] + b"\x00", read_header(SOME))


def test_damage_is_an_error_or_other_records_never_a_crash() -> None:
    header, payload = read_header(SOME), SOME[61:]
    for position in range(len(payload)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = payload[:position] + bytes([value]) + payload[position + 1 :]
            try:
                found = keyed_records(damaged, header)
            except CorruptBatch:
                continue
            assert len(found) == 3


@pytest.mark.parametrize("number", [b"\xff" * 10, b"\x80" * 10 + b"\x00", b"\x01", b"\x03"])
def test_a_length_that_no_record_has(number: bytes) -> None:
    with pytest.raises(CorruptBatch, match="impossible"):
        keyed_records(number + bytes(20), read_header(SOME))
