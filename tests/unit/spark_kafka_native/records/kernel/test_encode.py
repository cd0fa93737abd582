from array import array
from typing import Any

import pytest

from spark_kafka_native._records._kernel.encode import Measured
from tests.support.records.raw_kernel import Memory
from tests.support.records.reference import Record, write_record


def ints(*numbers: int) -> "array[int]":
    return array("q", numbers)


KEYS = (b"abc", ints(0, 1, 3), 0, ints(1, 2))
HEADERS = (b"abc", ints(0, 1, 1, 3), 0, ints(1, 0, 2))


def measured(**other: Any) -> Measured:
    given = {
        "rows": 2,
        "keys": KEYS,
        "values": None,
        "counts": ints(2, 1),
        "header_keys": HEADERS,
        "header_values": HEADERS,
    }
    return Measured(**{**given, **other})


def test_records_as_they_are_on_the_wire() -> None:
    memory = Memory()
    data, begins = measured().encode(ints(0, 1), ints(0), ints(5, 7), 0, memory.allocate)
    memory.check()
    records = [Record(b"a", None, (("a", b"a"), ("", b"")), 5, 0), Record(b"bc", None, (("bc", b"bc"),), 7, 1)]
    wanted = [write_record(record, 0, 5) for record in records]
    assert bytes(data) == b"".join(wanted)
    assert bytes(begins) == bytes(ints(0, len(wanted[0]), len(data)))


def test_every_batch_has_a_header_of_zeroes_before_it() -> None:
    memory = Memory()
    data, begins = Measured(3, None, None, None, None, None).encode(
        ints(0, 1, 2), ints(0, 2), ints(5, 7, 9), 61, memory.allocate
    )
    memory.check()
    first = [write_record(Record(timestamp=time, offset=offset), 0, 5) for offset, time in enumerate((5, 7))]
    second = write_record(Record(timestamp=9), 0, 9)
    assert bytes(data) == bytes(61) + b"".join(first) + bytes(61) + second
    ends = len(bytes(61) + b"".join(first))
    assert bytes(begins) == bytes(ints(61, 61 + len(first[0]), ends + 61, len(data)))


@pytest.mark.parametrize("rows", [(1, 0), (1,), (0, 0, 1), ()])
def test_rows_in_any_order(rows: tuple[int, ...]) -> None:
    memory = Memory()
    data, begins = measured().encode(ints(*rows), ints(*range(len(rows))), ints(5, 7), 0, memory.allocate)
    memory.check()
    records = [Record(b"a", None, (("a", b"a"), ("", b"")), 5), Record(b"bc", None, (("bc", b"bc"),), 7)]
    wanted = [write_record(records[row], 0, records[row].timestamp) for row in rows]
    assert bytes(data) == b"".join(wanted)
    assert len(bytes(begins)) == 8 * (len(rows) + 1)


@pytest.mark.parametrize("row", [-1, 2, 2**63 - 1, -(2**63)])
def test_rows_that_do_not_exist_are_refused(row: int) -> None:
    with pytest.raises(ValueError, match="a row does not exist"):
        measured().encode(ints(0, row), ints(0), ints(5, 7), 0, bytearray)


@pytest.mark.parametrize("room", [-1, 2**16 + 1, 2**62])
def test_room_of_impossible_size_is_refused(room: int) -> None:
    with pytest.raises(ValueError, match="zeroes before each batch"):
        measured().encode(ints(0, 1), ints(0), ints(5, 7), room, bytearray)


@pytest.mark.parametrize("size", range(70))
def test_strings_of_all_lengths(size: int) -> None:
    text = bytes(range(100, 170))[:size]
    memory = Memory()
    records = Measured(1, (text, ints(0), 0, ints(size)), (text, ints(0), 0, ints(size)), None, None, None)
    data, _ = records.encode(ints(0), ints(0), ints(0), 0, memory.allocate)
    memory.check()
    assert bytes(data) == write_record(Record(text, text), 0, 0)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"rows": -1}, "-1 rows"),
        ({"rows": 3}, "lengths are missing"),
        ({"keys": (b"abc", ints(0, 1), 0, ints(1))}, "lengths are missing"),
        ({"keys": (b"abc", ints(0), 0, ints(1, 2))}, "offsets are missing"),
        ({"keys": (b"abc", ints(0, 1), 1, ints(1, 2))}, "offsets are missing"),
        ({"keys": (b"abc", ints(0, 1), -1, ints(1, 2))}, "offsets are missing"),
        ({"keys": (b"abc", ints(0, 1), 2**63 - 1, ints(1, 2))}, "offsets are missing"),
        ({"keys": (b"abc", ints(0, 2, 3), 0, ints(1, 2))}, "outside"),
        ({"keys": (b"abc", ints(0, -1, 3), 0, ints(1, 1))}, "outside"),
        ({"keys": (b"abc", ints(0, 1, 3), 0, ints(1, 2**63 - 1))}, "outside"),
        ({"keys": (None, ints(0, 1, 3), 0, ints(1, 2))}, "outside"),
        ({"counts": ints(2)}, "no number of headers"),
        ({"counts": ints(4, -1)}, "no number of headers"),
        ({"counts": ints(2**63 - 1, 1)}, "no number of headers"),
        ({"counts": ints(2, 2)}, "lengths are missing"),
        ({"header_values": (b"abc", ints(0, 1, 2, 3), 0, ints(1, 1, 2))}, "outside"),
    ],
)
def test_columns_that_do_not_fit_are_refused(other: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measured(**other)


def test_keys_of_headers_cannot_be_null() -> None:
    data, _ = Measured(1, (None, ints(2**62), 0, ints(-1)), None, None, None, None).encode(
        ints(0), ints(0), ints(0), 0, bytearray
    )
    assert bytes(data) == write_record(Record(), 0, 0)


@pytest.mark.parametrize("firsts", [(), (1,), (0, 2), (0, 0), (0, -1), (0, 1, 1), (-1, 0)])
def test_batches_that_do_not_follow_each_other_are_refused(firsts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not ascend from 0"):
        measured().encode(ints(0, 1), ints(*firsts), ints(5, 7), 0, bytearray)


def test_missing_timestamps_are_refused() -> None:
    with pytest.raises(ValueError, match="timestamps are missing"):
        measured().encode(ints(0, 1), ints(0), ints(5), 0, bytearray)


def test_memory_that_is_too_small_is_refused() -> None:
    for short in range(2):
        memory = Memory(short=short)
        with pytest.raises(ValueError, match="bytes were requested"):
            measured().encode(ints(0, 1), ints(0, 1), ints(5, 7), 0, memory.allocate)
        memory.check()


def test_times_as_far_apart_as_can_be() -> None:
    low, high = -(2**63), 2**63 - 1
    memory = Memory()
    Measured(3, None, None, None, None, None).encode(ints(0, 1, 2), ints(0), ints(low, high, low), 0, memory.allocate)
    memory.check()


def test_sizes_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        memoryview(measured().sizes)[0] = 0


def test_columns_are_released() -> None:
    data = bytearray(b"abc")
    records = measured(keys=(data, *KEYS[1:]))
    with pytest.raises(BufferError):
        data.clear()
    del records
    data.clear()
    with pytest.raises(ValueError, match="outside"):
        measured(keys=(data, *KEYS[1:]))
    data.append(1)
