import pytest

from spark_kafka_native._records.batch import CorruptBatch, check_crc, read_header
from spark_kafka_native._records.control import ControlRecord, ControlType, decode_control, encode_end_txn_marker
from tests.support.records.reference import CODECS, Batch, Record, read_batch, write_batch


def control_batch(key: bytes | None, value: bytes | None, codec: int = 0) -> bytes:
    return write_batch(Batch(records=(Record(key, value, offset=5),), base_offset=5, control=True, codec=codec))


def decoded(buffer: bytes) -> ControlRecord | None:
    return decode_control(b"..." + buffer, 3, read_header(buffer))


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_end_transaction_markers_are_read_back(kind: ControlType) -> None:
    marker = encode_end_txn_marker(
        kind,
        producer_id=2**40,
        producer_epoch=3,
        coordinator_epoch=-1,
        timestamp_ms=1234,
        base_offset=77,
        partition_leader_epoch=9,
    )
    header = read_header(marker)
    check_crc(marker, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert decode_control(marker, 0, header) == ControlRecord(kind, -1)
    assert read_batch(bytes(marker)) == Batch(
        records=(Record(b"\x00\x00" + kind.to_bytes(2, "big"), b"\x00\x00\xff\xff\xff\xff", (), 1234, 77),),
        base_offset=77,
        partition_leader_epoch=9,
        transactional=True,
        control=True,
        last_offset_delta=0,
        base_timestamp=1234,
        producer_id=2**40,
        producer_epoch=3,
    )


def test_only_the_end_of_a_transaction_is_a_marker() -> None:
    arguments = {"producer_epoch": 0, "coordinator_epoch": 0, "timestamp_ms": 0}
    with pytest.raises(ValueError, match="ends with COMMIT or ABORT, not LEADER_CHANGE"):
        encode_end_txn_marker(ControlType.LEADER_CHANGE, producer_id=1, **arguments)
    with pytest.raises(ValueError, match="needs a producer id, not -1"):
        encode_end_txn_marker(ControlType.ABORT, producer_id=-1, **arguments)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", ControlRecord(ControlType.COMMIT, 7)),
        (b"\x00\x05\x00\x00more", b"\x00\x01\x00\x00\x00\x08more", ControlRecord(ControlType.ABORT, 8)),
        (b"\x00\x00\x00\x02", b"anything", ControlRecord(ControlType.LEADER_CHANGE, None)),
        (b"\x00\x00\x00\x06", None, ControlRecord(ControlType.KRAFT_VOTERS, None)),
        (b"\x00\x00\x00\x07", None, ControlRecord(ControlType.UNKNOWN, None)),
        (b"\x00\x00\xff\xfe", None, ControlRecord(ControlType.UNKNOWN, None)),
    ],
)
def test_control_records_of_each_type(key: bytes, value: bytes | None, found: ControlRecord, codec: int) -> None:
    assert decoded(control_batch(key, value, codec)) == found


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, None, "a key of at least 4 bytes is needed, not None"),
        (b"\x00\x00\x00", None, "a key of at least 4 bytes is needed, not b"),
        (b"\xff\xff\x00\x00", None, "impossible version -1 of the key"),
        (b"\x00\x00\x00\x00", None, "a value of at least 6 bytes is needed, not None"),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00", "a value of at least 6 bytes is needed, not b"),
        (b"\x00\x00\x00\x01", b"\x80\x00\x00\x00\x00\x00", "impossible version -32768 of the value"),
    ],
)
def test_control_records_that_no_broker_writes(key: bytes | None, value: bytes | None, message: str) -> None:
    with pytest.raises(CorruptBatch, match=f"control record: {message}.*position 3, base offset 5, record 0"):
        decoded(control_batch(key, value))


def test_a_control_batch_emptied_by_compaction() -> None:
    assert decoded(write_batch(Batch(control=True, producer_id=1))) is None


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x0c\x00\x00\x00\x0a\x01", b"\x0c\x00\x80\x80\x80\x80\x80"])
def test_control_batches_without_a_record(payload: bytes) -> None:
    buffer = write_batch(Batch(records=(Record(),), control=True), payload)
    with pytest.raises(CorruptBatch, match=r"control record: .*position 3"):
        decoded(buffer)


def test_a_control_batch_that_does_not_decompress() -> None:
    buffer = bytearray(control_batch(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", 4))
    buffer[61] ^= 0xFF
    with pytest.raises(CorruptBatch, match=r"zstd payload: .*position 3, base offset 5"):
        decoded(bytes(buffer))
