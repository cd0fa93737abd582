from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from crc32c import crc32c

from spark_kafka_native._records._kernel.batch_headers import BatchHeaders
from spark_kafka_native._records._kernel.selection import select
from spark_kafka_native._records.arrow.selected import SelectedBatch
from spark_kafka_native._records.control import ControlType
from tests.support.records.raw_kernel import Edges
from tests.support.records.record_batches import marker
from tests.support.records.reference import GZIP, LZ4, NONE, Batch, Record, numbered, write_batch

NEVER = 2**63 - 1


@dataclass
class Progress:
    log_position: int = 0
    next_offset: int = 0
    rows: int = 0
    payload_bytes: int = 0
    first_position: int = -1


class Unpacked(Exception):
    pass


def batch(first: int, count: int = 2, **fields: Any) -> bytes:
    records = numbered([Record(value=b"v")] * count, first)
    return write_batch(Batch(records=records, base_offset=first, **fields))


SIZE = len(batch(0))


def no_unpacking(*place: int) -> tuple[int, int]:
    raise Unpacked(*place)


def selected(
    buffer: Any,
    progress: Progress | None = None,
    *,
    headers: BatchHeaders | None = None,
    position: int = 0,
    from_offset: int = 0,
    until_offset: int = NEVER,
    target_rows: int = NEVER,
    target_bytes: int = NEVER,
    most_bytes: int = 2**31 - 1,
    crc: Callable[[Any], int] | None = crc32c,
    unpack: Callable[[int, int, int, int], Any] = no_unpacking,
    committed_only: bool = False,
    aborted_from: int = NEVER,
    is_one_open: bool = False,
) -> tuple[int, list[SelectedBatch]]:
    end, taken = select(
        buffer,
        BatchHeaders(buffer) if headers is None else headers,
        position,
        Progress() if progress is None else progress,
        from_offset,
        until_offset,
        target_rows,
        target_bytes,
        most_bytes,
        crc,
        unpack,
        committed_only,
        aborted_from,
        is_one_open,
    )
    numbers = array("q", taken)
    return end, [SelectedBatch._make(numbers[at : at + 9]) for at in range(0, len(numbers), 9)]


def test_selected_batches_are_listed_as_numbers() -> None:
    stamped = batch(7, log_append_time=99, last_offset_delta=5)
    buffer = batch(0, base_timestamp=-4) + stamped
    progress = Progress()
    assert selected(buffer, progress) == (
        len(buffer),
        [
            SelectedBatch(0, 61, SIZE - 61, 2, 0, 1, -4, 0, 0),
            SelectedBatch(0, SIZE + 61, len(stamped) - 61, 2, 7, 5, 99, 1, SIZE),
        ],
    )
    assert progress == Progress(13, 13, 4, len(buffer) - 2 * 61, 0)


@pytest.mark.parametrize("count", [127, 128, 129, 257, 400])
def test_more_than_are_kept_at_once(count: int) -> None:
    buffer = b"".join(batch(2 * index) for index in range(count))
    end, taken = selected(buffer)
    assert end == len(buffer)
    assert [(found.base_offset, found.position) for found in taken] == [(2 * i, i * SIZE) for i in range(count)]


def test_selection_resumes_at_the_given_position() -> None:
    buffer = b"".join(batch(2 * index) for index in range(3))
    progress = Progress(log_position=4, next_offset=4, rows=4, payload_bytes=20, first_position=0)
    assert [found.base_offset for found in selected(buffer, progress, position=2 * SIZE)[1]] == [4]
    assert (progress.rows, progress.first_position) == (6, 0)


@pytest.mark.parametrize("position", [-(2**63), -SIZE, -1, 1, 2 * SIZE, NEVER])
def test_where_no_batch_begins_nothing_is_taken(position: int) -> None:
    progress = Progress(5, 6, 7, 8, 9)
    assert selected(batch(0) + batch(2), progress, position=position) == (position, [])
    assert progress == Progress(5, 6, 7, 8, 9)


def abort_marker(offset: int = 2) -> bytes:
    return bytes(marker(ControlType.ABORT, 1, base_offset=offset))


def in_transaction(first: int) -> bytes:
    return batch(first, transactional=True, producer_id=1)


def broken(raw: bytes, at: int = -1) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("second", "options"),
    [
        (abort_marker(), {"committed_only": True}),
        (in_transaction(2), {"committed_only": True, "is_one_open": True}),
        (batch(2), {"committed_only": True, "aborted_from": 3}),
        (broken(batch(2)), {}),
        (broken(abort_marker()), {}),
        (broken(batch(2), 17), {}),
        (batch(1), {}),
        (batch(2), {"until_offset": 2}),
        (batch(2), {"target_rows": 2}),
        (batch(2), {"target_bytes": SIZE - 61}),
        (batch(2), {"most_bytes": 2 * SIZE - 1}),
        (write_batch(Batch(base_offset=2), b"\x00"), {}),
        (write_batch(Batch(records=numbered([Record()] * 2, 2), base_offset=2), bytes(13)), {}),
    ],
)
def test_batches_that_the_kernel_leaves_to_python(second: bytes, options: dict[str, Any]) -> None:
    buffer = batch(0) + second + batch(100)
    progress = Progress()
    end, taken = selected(buffer, progress, **options)
    assert (end, [found.base_offset for found in taken]) == (SIZE, [0])
    assert (progress.log_position, progress.next_offset, progress.rows) == (2, 2, 2)


@pytest.mark.parametrize(
    ("second", "options", "shown"),
    [
        (abort_marker(), {}, [0, 100]),
        (in_transaction(2), {"is_one_open": True, "aborted_from": 0}, [0, 2, 100]),
        (in_transaction(2), {"committed_only": True, "aborted_from": 102}, [0, 2, 100]),
        (batch(2), {"committed_only": True, "is_one_open": True}, [0, 2, 100]),
        (broken(batch(2)), {"crc": None}, [0, 2, 100]),
        (broken(batch(2)), {"from_offset": 4}, [100]),
        (batch(2), {"until_offset": 101}, [0, 2, 100]),
        (batch(2), {"target_rows": 5}, [0, 2, 100]),
        (batch(2), {"target_bytes": 2 * (SIZE - 61) + 1}, [0, 2, 100]),
        (write_batch(Batch(base_offset=2, last_offset_delta=7)), {}, [0, 100]),
    ],
)
def test_batches_that_the_kernel_handles(second: bytes, options: dict[str, Any], shown: list[int]) -> None:
    buffer = batch(0) + second + batch(100)
    end, taken = selected(buffer, **options)
    assert (end, [found.base_offset for found in taken]) == (len(buffer), shown)


def test_markers_that_are_not_wanted_are_checked_all_the_same() -> None:
    assert selected(abort_marker() + broken(abort_marker(3)), from_offset=50) == (len(abort_marker()), [])
    assert selected(abort_marker() + broken(abort_marker(3)), from_offset=50, crc=None) == (2 * len(abort_marker()), [])


def test_the_next_offset_is_never_beyond_what_is_wanted() -> None:
    progress = Progress()
    assert selected(batch(0, 5), progress, until_offset=3)[0] == len(batch(0, 5))
    assert (progress.log_position, progress.next_offset) == (5, 3)


def test_what_is_under_the_crc() -> None:
    seen: list[bytes] = []

    def crc(content: Any) -> int:
        view = memoryview(content)
        assert view.readonly
        seen.append(bytes(view))
        return crc32c(content)

    buffer = batch(0) + batch(2, 5)
    assert selected(buffer, crc=crc)[0] == len(buffer)
    assert seen == [buffer[21:SIZE], buffer[SIZE + 21 :]]


def test_payloads_are_unpacked_elsewhere() -> None:
    first, second, third = batch(0, codec=GZIP), batch(2, codec=NONE), batch(4, codec=LZ4)
    asked = []

    def unpack(*place: int) -> tuple[int, int]:
        asked.append(place)
        return 1000 * len(asked), 20

    buffer = first + second + third
    end, taken = selected(buffer, unpack=unpack)
    assert end == len(buffer)
    assert asked == [(0, 0, GZIP, len(first)), (len(first + second), 4, LZ4, len(buffer))]
    assert [(found.is_in_scratch, found.start, found.length) for found in taken[::2]] == [(1, 1000, 20), (1, 2000, 20)]
    assert selected(buffer, unpack=unpack, target_bytes=25)[0] == len(first + second)
    assert selected(buffer, unpack=unpack, most_bytes=len(first + second))[0] == len(first + second)
    assert selected(buffer, unpack=lambda *_: (0, 13)) == (0, [])


def test_errors_of_the_decompressor_are_raised() -> None:
    buffer = batch(0) + batch(2, codec=GZIP)
    with pytest.raises(Unpacked):
        selected(buffer)
    with pytest.raises(TypeError):
        selected(buffer, unpack=lambda *_: None)
    with pytest.raises(ZeroDivisionError):
        selected(buffer, crc=lambda _: 1 // 0)
    with pytest.raises(TypeError):
        selected(buffer, crc=lambda _: None)  # type: ignore[arg-type, return-value]  # that is the point


def test_headers_of_another_buffer_are_refused() -> None:
    headers = BatchHeaders(batch(0) + batch(2))
    with pytest.raises(ValueError, match=f"headers of {2 * SIZE} bytes, {2 * SIZE - 1} are there"):
        selected((batch(0) + batch(2))[:-1], headers=headers)
    with pytest.raises(TypeError):
        selected(b"", headers=b"")  # type: ignore[arg-type]  # that is the point


def test_no_byte_outside_the_buffer_is_read() -> None:
    edges = Edges()
    buffer = batch(0) + batch(2)
    for at in (edges.at_the_end, edges.at_the_beginning):
        end, taken = selected(at(buffer))
        assert (end, len(taken)) == (len(buffer), 2)
