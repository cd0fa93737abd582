from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records._kernel.batch_headers import BatchHeaders
from spark_kafka_native._records.batch import BatchHeader, UnreadableBatch, read_header, write_header
from tests.support.records.raw_kernel import SURROUNDINGS, Edges, amid

NEXT = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)
FIELDS = (
    "base_offset",
    "last_offset_delta",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "records_count",
    "crc",
    "partition_leader_epoch",
)


def batch(
    base_offset: int = 5, payload: bytes = b"payload", last_offset_delta: int = 3, records_count: int = 2
) -> bytes:
    """A batch that is never looked into: nothing in its header is 0, and its CRC is as wrong as can be."""
    raw = bytearray(61) + payload
    write_header(
        raw,
        size_in_bytes=len(raw),
        last_offset_delta=last_offset_delta,
        base_timestamp=-(2**62) + 7,
        max_timestamp=2**61 + 9,
        records_count=records_count,
        base_offset=base_offset,
        partition_leader_epoch=2**31 - 11,
        transactional=True,
        producer_id=2**55 + 3,
        producer_epoch=-2,
    )
    raw[17:21] = b"\xff\xfe\xfd\xfc"
    return bytes(raw)


def in_python(buffer: bytes | memoryview) -> tuple[list[tuple[int, ...]], int]:
    rows: list[tuple[int, ...]] = []
    position = 0
    while True:
        try:
            header = read_header(buffer, position)
        except UnreadableBatch:
            return rows, position
        rows.append((position, header.size_in_bytes, *(getattr(header, name) for name in FIELDS)))
        position += header.size_in_bytes


def compiled(buffer: bytes | memoryview) -> tuple[list[tuple[int, ...]], int]:
    headers = BatchHeaders(buffer)
    numbers = array("q", headers.numbers)
    assert len(numbers) == 12 * headers.count
    return [tuple(numbers[at : at + 12]) for at in range(0, len(numbers), 12)], headers.end


def test_headers_are_read_into_a_table() -> None:
    buffer = batch() + batch(10, b"") + batch(2**63 - 5, b"x" * 300) + batch(1)[:-1]
    rows, end = compiled(buffer)
    assert (rows, end) == in_python(buffer)
    assert [row[:3] for row in rows] == [(0, 68, 5), (68, 61, 10), (129, 361, 2**63 - 5)]
    assert end == 490


@pytest.mark.parametrize("place", range(61))
def test_a_byte_of_a_header_changed(place: int) -> None:
    first = batch(payload=bytes(70))
    for byte in NEXT:
        buffer = first[:place] + bytes([byte]) + first[place + 1 :] + batch(9)
        assert compiled(buffer) == in_python(buffer)
        after = batch(9) + buffer
        assert compiled(after) == in_python(after)


@pytest.mark.parametrize(
    ("offset", "last_offset_delta", "records_count", "good"),
    [
        (0, 0, 0, True),
        (0, 0, 1, True),
        (0, 0, 2, False),
        (0, 0, -1, False),
        (0, -1, 0, False),
        (0, 2**31 - 1, 2**31 - 1, True),
        (0, -(2**31), -(2**31), False),
        (2**63 - 2, 0, 1, True),
        (2**63 - 1, 0, 1, False),
        (2**63 - 3, 1, 1, True),
        (2**63 - 3, 2, 1, False),
        (-(2**63), 0, 1, True),
        (-1, 2**31 - 1, 1, True),
    ],
)
def test_counts_at_the_edges(offset: int, last_offset_delta: int, records_count: int, good: bool) -> None:
    buffer = batch(offset, b"", last_offset_delta, records_count)
    assert compiled(buffer) == in_python(buffer)
    assert BatchHeaders(buffer).count == good


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 48, 49, 50, 56, 57, 2**31 - 1])
def test_sizes_at_the_edges(size: int) -> None:
    raw = bytearray(batch())
    raw[8:12] = size.to_bytes(4, "big", signed=True)
    assert compiled(bytes(raw)) == in_python(bytes(raw))
    assert BatchHeaders(bytes(raw)).count == (49 <= size <= 56)


def test_no_byte_outside_the_buffer_is_read() -> None:
    edges = Edges()
    buffer = batch() + batch(9, b"") + batch(20)
    for length in range(len(buffer) + 1):
        expected = in_python(buffer[:length])
        assert compiled(edges.at_the_end(buffer[:length])) == expected
        assert compiled(edges.at_the_beginning(buffer[:length])) == expected


@given(st.lists(st.integers(0, 9), max_size=6), st.data())
@settings(max_examples=150)
def test_headers_of_damaged_batches_are_those_of_the_reference(payloads: list[int], data: st.DataObject) -> None:
    buffer = bytearray(b"".join(batch(9 * index, bytes(size)) for index, size in enumerate(payloads)))
    for _ in range(data.draw(st.integers(0, 4)) if buffer else 0):
        place = data.draw(st.integers(0, len(buffer) - 1))
        buffer[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not buffer:
            break
    expected = in_python(bytes(buffer))
    for around in SURROUNDINGS:
        assert compiled(amid(buffer, around)) == expected


def test_next_offset_and_its_leader_epoch() -> None:
    buffer = batch(0) + batch(50) + batch(4) + batch(50)
    headers = BatchHeaders(buffer)
    size, end = len(batch()), len(buffer)
    assert headers.next_offset(0, 0, 7) == (54, 2**31 - 11, end)
    assert headers.next_offset(0, 53, 7) == (54, 2**31 - 11, end)
    assert headers.next_offset(0, 54, 7) == (54, 7, end)
    assert headers.next_offset(2 * size, 0, 7) == (54, 2**31 - 11, end)
    assert headers.next_offset(2 * size, 10, 7)[0] == 54


def test_the_first_batch_with_the_next_offset_gives_the_epoch() -> None:
    first, second = bytearray(batch(50)), bytearray(batch(50))
    first[12:16], second[12:16] = (3).to_bytes(4, "big"), (4).to_bytes(4, "big")
    assert BatchHeaders(bytes(first + second)).next_offset(0, 0, -1)[:2] == (54, 3)


@pytest.mark.parametrize("position", [-(2**63), -1, 1, 61, 67, 69, 136, 2**63 - 1])
def test_where_no_batch_begins_nothing_is_found(position: int) -> None:
    assert BatchHeaders(batch() * 2).next_offset(position, 1, 2) == (1, 2, position)


def test_an_empty_buffer_has_no_headers() -> None:
    headers = BatchHeaders(b"")
    assert (headers.count, headers.end, headers.numbers) == (0, 0, b"")
    assert headers.next_offset(0, 1, 2) == (1, 2, 0)


def test_the_buffer_is_not_held() -> None:
    buffer = bytearray(batch())
    headers = BatchHeaders(buffer)
    buffer.clear()
    assert headers.count == 1


def test_what_has_no_memory_is_refused() -> None:
    with pytest.raises(TypeError):
        BatchHeaders(None)


def test_the_columns_have_the_order_of_the_header() -> None:
    assert set(FIELDS) < set(BatchHeader._fields)
