import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from spark_kafka_native._records.batch import CompressionType, check_crc, read_header, seal, write_header
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.legacy import read_message
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.driver import decode_batch

RAW_KEY = b"\x00\x01\x00\x06gruppe\x00\x01t\x00\x00\x00\x07"
RECORDS = st.lists(
    st.builds(CoordinatorRecord, key=st.binary(max_size=300), value=st.none() | st.binary(max_size=300)),
    min_size=1,
    max_size=5,
)


def records_in(buffer: bytes | bytearray, position: int = 0) -> list[CoordinatorRecord]:
    return list(decode_batch(buffer, position, read_header(buffer, position)))


@given(RECORDS, st.integers(0, 2**48))
def test_batches_hold_their_records(records: list[CoordinatorRecord], timestamp_ms: int) -> None:
    batch = encode_batch(records, timestamp_ms)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.size_in_bytes, header.records_count, header.max_timestamp) == (
        len(batch),
        len(records),
        timestamp_ms,
    )
    assert records_in(b"junk" + batch, 4) == records


def test_compressed_batches_are_read_too() -> None:
    records = [CoordinatorRecord(key=RAW_KEY, value=None)] * 3
    plain = encode_batch(records, 5)
    packed = bytearray(61) + compress(CompressionType.LZ4, plain[61:])
    write_header(
        packed,
        size_in_bytes=len(packed),
        last_offset_delta=2,
        base_timestamp=5,
        max_timestamp=5,
        records_count=3,
        compression=CompressionType.LZ4,
    )
    seal(packed)
    assert records_in(packed) == records


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.SNAPPY])
def test_records_of_old_message_formats_are_read(magic: int, codec: CompressionType) -> None:
    packed = write_message_set([LogRecord(7, 5, RAW_KEY, b"v")], magic=magic, compression=codec)
    assert list(decode_batch(packed, 0, read_message(packed))) == [CoordinatorRecord(key=RAW_KEY, value=b"v")]


def test_control_batches_hold_no_records_for_us() -> None:
    batch = encode_batch([CoordinatorRecord(key=b"\0\0\0\0", value=b"")], 5)
    write_header(
        batch,
        size_in_bytes=len(batch),
        last_offset_delta=0,
        base_timestamp=5,
        max_timestamp=5,
        records_count=1,
        control=True,
    )
    assert records_in(batch) == []


def test_a_batch_cut_inside_a_record_is_corrupt() -> None:
    batch = encode_batch([CoordinatorRecord(key=RAW_KEY, value=b"v" * 50)], 5)
    for length in range(62, len(batch)):
        cut = batch[:length]
        cut[8:12] = (length - 12).to_bytes(4, "big")
        with pytest.raises(CorruptBatch):
            records_in(cut)
