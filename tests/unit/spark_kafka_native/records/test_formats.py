import pytest

from spark_kafka_native._records.batch import CompressionType, read_header
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch
from spark_kafka_native._records.formats import MIN_HEADER_BYTES, check_any_crc, iter_any, read_any
from spark_kafka_native._records.legacy import read_message
from tests.support.records.log_batches import batch
from tests.support.records.message_sets import message_set

PARTS = [
    message_set(b"a", b"b", magic=0),
    message_set(b"c", b"d", magic=0, compression=CompressionType.GZIP, first_offset=2),
    message_set(b"e", magic=1, first_offset=4),
    message_set(b"f", b"g", magic=1, compression=CompressionType.LZ4, first_offset=5),
    batch(b"h", b"i", base_offset=7),
    message_set(b"j", magic=0, first_offset=9),
]
WHOLE = b"".join(PARTS)


def test_iter_any_yields_batches_of_every_format() -> None:
    found = list(iter_any(WHOLE))
    assert [(header.magic, header.last_offset) for _, header in found] == [
        (0, 0),
        (0, 1),
        (0, 3),
        (1, 4),
        (1, 6),
        (2, 8),
        (0, 9),
    ]
    for position, header in found:
        check_any_crc(WHOLE, position, header)
        read = read_header if header.magic == 2 else read_message
        assert read_any(WHOLE, position) == read(WHOLE, position)
        assert read_any(WHOLE[: position + MIN_HEADER_BYTES], position, whole=False) == header


def test_every_cut_leaves_what_is_whole() -> None:
    ends = [position + header.size_in_bytes for position, header in iter_any(WHOLE)]
    for end in range(len(WHOLE)):
        assert len(list(iter_any(WHOLE[:end]))) == sum(1 for whole in ends if whole <= end)


def test_every_flipped_bit_is_noticed() -> None:
    for position, header in iter_any(WHOLE):
        first = {0: 16, 1: 16, 2: 21}[header.magic]
        for at in range(position + first, position + header.size_in_bytes):
            broken = bytearray(WHOLE)
            broken[at] ^= 1
            with pytest.raises(CorruptBatch, match=f"position {position}"):
                check_any_crc(broken, position, header)


@pytest.mark.parametrize(
    ("tail", "message"), [(bytes(100), "length 0"), (bytes(20), "length 0"), (b"\xff" * 40, "length -1")]
)
def test_damage_after_complete_batches_is_an_error(tail: bytes, message: str) -> None:
    found = iter_any(WHOLE + tail, len(WHOLE) - len(PARTS[-1]))
    assert next(found)[0] == len(WHOLE) - len(PARTS[-1])
    with pytest.raises(CorruptBatch, match=f"{message} .position {len(WHOLE)}"):
        next(found)


def test_too_few_bytes_for_a_magic_are_incomplete() -> None:
    for end in range(17):
        with pytest.raises(IncompleteBatch):
            read_any(PARTS[0][:end])
