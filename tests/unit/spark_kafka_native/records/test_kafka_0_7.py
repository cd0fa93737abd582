import gzip
import struct
from zlib import crc32

import pytest

from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch
from spark_kafka_native._records.kafka_0_7 import encode_message, encode_messages, read_entries

HELLO = bytes.fromhex("0000000a003610a686") + b"hello"
"""Magic 0, from the format of the design document: length 1 + 4 + n, magic, CRC-32 of the payload, payload."""
HELLO_1 = bytes.fromhex("0000000b01003610a686") + b"hello"
"""Magic 1: attributes after the magic."""


def test_messages_have_the_bytes_of_the_document() -> None:
    assert crc32(b"hello") == 0x3610A686
    assert encode_message(b"hello", magic=0) == HELLO
    assert encode_message(b"hello") == HELLO_1
    assert encode_messages([b"hello", b""]) == HELLO_1 + bytes.fromhex("00000006010000000000")


def test_entries_have_byte_offsets() -> None:
    entries = list(read_entries(HELLO + HELLO_1 + HELLO, base_offset=1000))
    assert [(each.offset, each.next_offset, each.magic, bytes(each.payload)) for each in entries] == [
        (1000, 1014, 0, b"hello"),
        (1014, 1029, 1, b"hello"),
        (1029, 1043, 0, b"hello"),
    ]
    for each in entries:
        each.check_crc()
        assert list(each.messages()) == [b"hello"]


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY])
def test_messages_in_a_compressed_message(codec: CompressionType) -> None:
    payloads = [b"%d" % number * 20 for number in range(100)]
    (entry,) = read_entries(encode_messages(payloads, codec=codec))
    entry.check_crc()
    assert entry.codec is codec
    assert len(entry.payload) < 2_000
    assert [bytes(each) for each in entry.messages()] == payloads


def test_an_empty_set_has_no_entries() -> None:
    assert list(read_entries(b"")) == []
    assert encode_messages([], codec=CompressionType.GZIP) == b""


@pytest.mark.parametrize("size", range(1, len(HELLO_1)))
def test_a_message_that_is_cut_off_is_incomplete(size: int) -> None:
    entries = read_entries(HELLO + HELLO_1[:size], base_offset=7)
    assert bytes(next(entries).payload) == b"hello"
    with pytest.raises(IncompleteBatch, match=rf"is cut off after {size}.*\(position 14, base offset 21\)"):
        next(entries)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (struct.pack(">ib", 10, 2) + b"x" * 20, "unknown magic 2 of a message of Kafka 0.7"),
        (struct.pack(">ibI", 4, 0, 0), "impossible length 4 of a message"),
        (struct.pack(">ibbI", 5, 1, 0, 0), "impossible length 5 of a message"),
        (struct.pack(">ibI", -1, 0, 0), "impossible length -1 of a message"),
        (struct.pack(">ibbI", 6, 1, 3, 0), "unknown codec 3 of a message of Kafka 0.7"),
    ],
)
def test_bytes_that_are_no_message_are_refused(entry: bytes, problem: str) -> None:
    entries = read_entries(HELLO + entry)
    next(entries)
    with pytest.raises(CorruptBatch, match=rf"{problem} \(position 14, base offset 14\)"):
        next(entries)


def test_a_wrong_checksum_is_refused() -> None:
    (entry,) = read_entries(HELLO[:-1] + b"!", base_offset=5)
    with pytest.raises(CorruptBatch, match=rf"checksum {0x3610A686}, its payload has .* \(base offset 5\)"):
        entry.check_crc()


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        (HELLO[:-1], "is cut off after 13"),
        (HELLO[:-1] + b"!", "checksum"),
        (encode_messages([b"hello"], codec=CompressionType.SNAPPY), "compressed, too"),
    ],
    ids=["cut off", "checksum", "compressed"],
)
def test_a_damaged_set_in_a_compressed_message_is_refused(inside: bytes, problem: str) -> None:
    (entry,) = read_entries(encode_message(gzip.compress(inside), codec=CompressionType.GZIP), base_offset=9)
    with pytest.raises(CorruptBatch, match=rf"the compressed message cannot be read: .*{problem}.*\(base offset 9\)"):
        entry.messages()


@pytest.mark.parametrize(("magic", "codec"), [(0, CompressionType.GZIP), (1, CompressionType.LZ4)])
def test_codecs_that_0_7_does_not_have_are_not_written(magic: int, codec: CompressionType) -> None:
    with pytest.raises(ValueError, match=f"magic {magic} cannot have codec {codec.label}"):
        encode_message(b"", magic=magic, codec=codec)
