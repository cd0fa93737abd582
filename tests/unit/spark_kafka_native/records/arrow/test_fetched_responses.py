"""Whole Fetch responses through both kernels: the same rows, the same next offsets, the same errors."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow import kernel, selection
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.batch import UnreadableBatch, seal, set_offsets
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.control import ControlType
from tests.support.records.message_sets import message_set
from tests.support.records.record_batches import Aborted, marker
from tests.support.records.reference import CODECS, Batch, Record, numbered, write_batch

if TYPE_CHECKING:
    from tests.support.records.both_kernels import decode_both, next_offset_by_both
else:
    pytest.importorskip(
        "spark_kafka_native._records.arrow.compiled", reason="the kernel has not been built", exc_type=ImportError
    )
    from tests.support.records.both_kernels import decode_both, next_offset_by_both

END = 2**62
COLUMNS = ("value", "offset", "timestamp", "timestamp_type")


def records(first: int, count: int) -> tuple[Record, ...]:
    return numbered([Record(value=b"v%d" % index, timestamp=1_000 + index) for index in range(count)], first)


def end_marker(kind: ControlType, offset: int, producer_id: int) -> bytes:
    return bytes(marker(kind, producer_id, base_offset=offset))


@st.composite
def pieces(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    """Something that a response can hold at ``offset``, and the offset after it."""
    kind = draw(
        st.sampled_from(["plain"] * 4 + ["transactional"] * 3 + ["marker"] * 2 + ["empty", "messages", "wrapper"])
    )
    count = draw(st.integers(1, 4))
    if kind == "marker":
        control = draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
        return end_marker(control, offset, draw(st.integers(0, 2))), offset + 1
    if kind in {"messages", "wrapper"}:
        codec = CompressionType.GZIP if kind == "wrapper" else CompressionType.NONE
        values = [b"m%d" % index for index in range(count)]
        magic = draw(st.sampled_from([0, 1]))
        return bytes(message_set(*values, magic=magic, compression=codec, first_offset=offset)), offset + count
    last = count - 1 + draw(st.sampled_from([0, 0, 3]))
    batch = Batch(
        records=() if kind == "empty" else records(offset, count),
        base_offset=offset,
        codec=0 if kind == "empty" else draw(st.sampled_from(CODECS)),
        log_append_time=draw(st.sampled_from([None, None, 77])),
        transactional=kind == "transactional",
        producer_id=draw(st.integers(0, 2)) if kind == "transactional" else draw(st.integers(-1, 2)),
        last_offset_delta=last,
    )
    raw = bytearray(write_batch(batch))
    set_offsets(raw, 0, base_offset=offset, partition_leader_epoch=draw(st.integers(-1, 3)))
    return bytes(raw), offset + last + 1


@dataclass(frozen=True)
class Response:
    buffer: bytes
    starts: list[int]
    offsets: list[int]


@st.composite
def responses(draw: st.DrawFn) -> Response:
    """Batches of all kinds, some of them out of order; bytes of a few changed, with or without a new CRC; cut off."""
    buffer, starts, offset = bytearray(), [], draw(st.integers(0, 3))
    offsets = [offset]
    for _ in range(draw(st.integers(0, 7))):
        offset = max(offset + draw(st.sampled_from([0] * 10 + [2, -1, -4])), 0)
        raw, offset = draw(pieces(offset))
        starts.append(len(buffer))
        offsets.append(offset)
        buffer += raw
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])) if buffer else 0):
        start = draw(st.sampled_from(starts))
        place = min(start + draw(st.integers(0, 62)), len(buffer) - 1)
        buffer[place] = draw(st.sampled_from([0, 1, 2, 0x10, 0x20, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        if draw(st.booleans()) and buffer[start + 16] == 2:
            with_length = int.from_bytes(buffer[start + 8 : start + 12], "big", signed=True)
            if 49 <= with_length <= len(buffer) - start - 12:
                seal(buffer, start)
    end = draw(st.just(len(buffer)) | st.integers(0, len(buffer)))
    return Response(bytes(buffer[:end]), [*starts, end], offsets)


@st.composite
def options(draw: st.DrawFn, response: Response) -> dict[str, Any]:
    edges = [max(offset + shift, 0) for offset in response.offsets for shift in (-1, 0, 1)]
    low = draw(st.just(0) | st.sampled_from(edges))
    high = max(draw(st.sampled_from([END, 2**63 - 1, 2**63, 2**70]) | st.sampled_from(edges)), low)
    aborted = st.lists(st.builds(Aborted, st.integers(0, 2), st.sampled_from(edges)), max_size=3)
    return {
        "from_offset": low,
        "until_offset": high,
        "columns": draw(st.sampled_from([COLUMNS, ("offset",), ()])),
        "check_crcs": draw(st.sampled_from([True, True, False])),
        "aborted": draw(st.none() | st.just([]) | aborted),
        "max_decompressed_bytes": draw(st.sampled_from([1 << 20, 1 << 20, 40, 20])),
        "target_rows": draw(st.none() | st.integers(1, 12) | st.just(2**70)),
        "target_bytes": draw(st.just(1 << 20) | st.integers(1, 150) | st.just(2**70)),
    }


@given(responses(), st.data())
@settings(max_examples=300)
def test_generated_fetch_responses_decode_as_by_the_reference(response: Response, data: st.DataObject) -> None:
    wanted = data.draw(options(response))
    with kernel.using("required"):
        batches = Batches.of(response.buffer)
    while True:
        outcome = decode_both(batches, **wanted)
        if isinstance(outcome, UnreadableBatch) or not outcome.bytes_used:
            break
        batches = batches.skip(outcome.bytes_used)
        wanted |= {"from_offset": outcome.next_offset, "aborted": outcome.aborted}
    start, offset = data.draw(st.sampled_from(response.starts)), data.draw(st.sampled_from(response.offsets))
    next_offset_by_both(response.buffer, start, offset, 9)


@given(responses(), st.integers(60, 300), st.data())
@settings(max_examples=100)
def test_more_than_positions_can_hold(response: Response, most: int, data: st.DataObject) -> None:
    """Without gigabytes for it: the limit is lowered instead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "MAX_PAYLOAD_BYTES", most)
        decode_both(response.buffer, **data.draw(options(response)))


FIRST = Batch(records=records(0, 3))
SECOND = Batch(records=records(3, 2), base_offset=3, transactional=True, producer_id=1)
BATCHES = (
    FIRST,
    SECOND,
    end_marker(ControlType.ABORT, 5, 1),
    Batch(records=records(6, 3), base_offset=6, codec=1, last_offset_delta=5),
    bytes(message_set(b"x", b"y", first_offset=12)),
    Batch(records=records(14, 2), base_offset=14, log_append_time=5, codec=4),
)
PIECES = [batch if isinstance(batch, bytes) else write_batch(batch) for batch in BATCHES]
RESPONSE = b"".join(PIECES)
ABORTED = (Aborted(1, 3),)


@pytest.mark.parametrize("aborted", [None, (), ABORTED])
def test_every_offset_range_decodes_as_by_the_reference(aborted: Any) -> None:
    wanted: dict[str, Any] = {"columns": COLUMNS, "aborted": aborted}
    for response in (b"".join(PIECES[:count]) for count in range(1, len(PIECES) + 1)):
        for low in range(18):
            for high in range(low, 18):
                decode_both(response, from_offset=low, until_offset=high, **wanted)
            decode_both(response, from_offset=low, until_offset=2**63, **wanted)
        for low in (2**63 - 1, 2**63, 2**70):
            decode_both(response, from_offset=low, until_offset=2**71, **wanted)


@pytest.mark.parametrize("aborted", [None, (), ABORTED])
@pytest.mark.parametrize("low", [0, 5, 6, 50])
def test_every_piece_damaged(aborted: Any, low: int) -> None:
    """A byte of the last field of each, so that only a CRC notices; whether it is looked at depends on the range."""
    for number, piece in enumerate(PIECES):
        damaged = piece[:-1] + bytes([piece[-1] ^ 1])
        response = b"".join([*PIECES[:number], damaged, *PIECES[number + 1 :]])
        decode_both(response, from_offset=low, until_offset=END, columns=COLUMNS, aborted=aborted)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_that_goes_back(magic: int) -> None:
    """Nothing of it is wanted; what follows it would go back, too."""
    wrapper = bytes(message_set(b"x", magic=magic, compression=CompressionType.GZIP, first_offset=1))
    response = PIECES[0] + wrapper + write_batch(Batch(records=records(2, 3), base_offset=2))
    outcome = decode_both(response, from_offset=2, until_offset=END, columns=COLUMNS)
    assert isinstance(outcome, UnreadableBatch)
    assert (outcome.position, "offset 3 or a later one must come next" in str(outcome)) == (len(PIECES[0]), True)


def test_every_target_of_rows_and_bytes_decodes_as_by_the_reference() -> None:
    wanted: dict[str, Any] = {"from_offset": 0, "until_offset": END, "columns": COLUMNS, "aborted": ABORTED}
    for target in range(1, 120):
        decode_both(RESPONSE, target_bytes=target, **wanted)
        decode_both(RESPONSE, target_rows=target, **wanted)


def test_cut_off_everywhere() -> None:
    for end in range(len(RESPONSE)):
        decode_both(RESPONSE[:end], from_offset=0, until_offset=END, columns=COLUMNS, aborted=ABORTED)
        next_offset_by_both(RESPONSE[:end], 0, 0, -1)


@pytest.mark.parametrize("sealed", [False, True])
def test_every_byte_of_headers_changed(sealed: bool) -> None:
    """The first batch, and the one after it, whose header is damaged under a wrong CRC and under a right one."""
    first = write_batch(FIRST)
    second = bytearray(write_batch(SECOND))
    after = write_batch(Batch(records=records(40, 1), base_offset=40))
    for place in range(61):
        for byte in (0, 1, 2, 5, 0x10, 0x20, 0x7F, 0x80, 0xFF):
            damaged = second.copy()
            damaged[place] = byte
            if sealed and damaged[8:12] == second[8:12]:
                seal(damaged)
            for buffer in (bytes(damaged) + after, first + bytes(damaged) + after):
                for aborted in (None, ABORTED):
                    decode_both(buffer, from_offset=0, until_offset=END, columns=COLUMNS, aborted=aborted)
                next_offset_by_both(buffer, 0, 0, -1)
