"""Every refusal of the compiled walk: the reference refuses the same and raises the error."""

from contextlib import suppress

import pyarrow as pa
import pytest

from spark_kafka_native._records.errors import CorruptBatch
from tests.support.records import reference
from tests.support.records.both_kernels import read_both
from tests.support.records.reference import Batch, Record, write_batch


def body(*parts: bytes | int) -> bytes:
    joined = b"".join(part if isinstance(part, bytes) else reference.write_varint(part) for part in (b"\x00", *parts))
    return reference.write_varint(len(joined)) + joined


GOOD = body(0, 0, -1, -1, 0)
TOO_LONG, TOO_LARGE = b"\x80" * 5, b"\x80\x80\x80\x80\x10"
TOO_LONG_64, TOO_LARGE_64 = b"\x80" * 10, b"\x80" * 9 + b"\x02"

CUT, SHORT = "a varint is cut off", "a varint is longer than"

REFUSED = {
    "length cut off": (body(0, 0, -1, 9, bytes(9), 0) + b"\x80", CUT),
    "length too long": (GOOD + TOO_LONG + GOOD, SHORT),
    "length too large": (GOOD + TOO_LARGE + GOOD, SHORT),
    "length negative": (GOOD + b"\x0b" + GOOD, "impossible record length -6"),
    "length zero": (GOOD + b"\x00" + GOOD, "impossible record length 0"),
    "length one more than is left": (GOOD + b"\x0e" + GOOD[1:], "the batch ends 1 bytes before the record does"),
    "time cut off": (GOOD + b"\x04\x00\x80" + GOOD, "impossible record length 2"),
    "time too long": (GOOD + body(TOO_LONG_64 + b"\x01", 1, -1, -1, 0), SHORT),
    "time too large": (GOOD + body(TOO_LARGE_64, 1, -1, -1, 0), SHORT),
    "offset too long": (GOOD + body(0, TOO_LONG, -1, -1, 0), SHORT),
    "offset too large": (GOOD + body(0, TOO_LARGE, -1, -1, 0), SHORT),
    "offset twice": (GOOD + GOOD, "offset 0 is not greater than the previous record's offset 0"),
    "offset negative": (body(0, -1, -1, -1, 0) + GOOD, "impossible offset delta -1 or key length -1"),
    "offset after the last one": (GOOD + body(0, 2, -1, -1, 0), "offset 2 is greater than the batch's last offset 1"),
    "key's length too long": (GOOD + body(0, 1, TOO_LONG, -1, 0), SHORT),
    "key's length below null": (
        GOOD + body(0, 1, -2, -1, 0),
        "impossible offset delta 1 or key length -2, 2 bytes of the record are left",
    ),
    "key longer than the record": (
        GOOD + body(0, 1, 3, -1, 0),
        "impossible offset delta 1 or key length 3, 2 bytes of the record are left",
    ),
    "key as long as can be": (
        GOOD + body(0, 1, 2**31 - 1, -1, 0),
        "key length 2147483647, 2 bytes of the record are left",
    ),
    "value's length too large": (GOOD + body(0, 1, -1, TOO_LARGE, 0), SHORT),
    "value's length below null": (
        GOOD + body(0, 1, -1, -2, 0),
        "impossible value length -2, 1 bytes of the record are left",
    ),
    "value longer than the record": (
        GOOD + body(0, 1, -1, 2, 0),
        "impossible value length 2, 1 bytes of the record are left",
    ),
    "value as long as can be": (
        GOOD + body(0, 1, -1, 2**31 - 1, 0),
        "impossible value length 2147483647, 1 bytes of the record",
    ),
    "count of headers too long": (GOOD + body(0, 1, -1, -1, TOO_LONG), SHORT),
    "count of headers negative": (
        GOOD + body(0, 1, -1, -1, -1),
        "impossible header count -1, 0 bytes of the record are left",
    ),
    "more headers than there is room for": (
        GOOD + body(0, 1, -1, -1, 2, 0, 0, b"\x00"),
        "impossible header count 2, 3 bytes of the record are left",
    ),
    "as many headers as can be": (
        GOOD + body(0, 1, -1, -1, 2**31 - 1, 0, 0),
        "impossible header count 2147483647, 2 bytes",
    ),
    "no headers, and yet bytes": (
        GOOD + body(0, 1, -1, -1, 0, 0),
        "impossible header count 0, 1 bytes of the record are left",
    ),
    "a byte after the last record": (
        GOOD + body(0, 1, -1, -1, 0) + b"\x00",
        "1 bytes are left after the batch's last record",
    ),
    "header's key's length too long": (GOOD + body(0, 1, -1, -1, 1, TOO_LONG, 0), SHORT),
    "header's key null": (GOOD + body(0, 1, -1, -1, 1, -1, 0), "header 0 has no key"),
    "header's key null, and the rest adds up": (GOOD + body(0, 1, -1, -1, 2, -1, 0, 2, b"ab"), "header 0 has no key"),
    "header's key longer than what is left": (
        GOOD + body(0, 1, -1, -1, 1, 2, 0),
        "impossible length 2 of a header's key or value, 1 bytes are left",
    ),
    "header's value's length too large": (GOOD + body(0, 1, -1, -1, 1, 0, TOO_LARGE), SHORT),
    "header's value's length below null": (
        GOOD + body(0, 1, -1, -1, 1, 0, -2),
        "impossible length -2 of a header's key or value",
    ),
    "header's value longer than what is left": (
        GOOD + body(0, 1, -1, -1, 1, 0, 1),
        "impossible length 1 of a header's key or value, 0 bytes are left",
    ),
    "header's value as long as can be": (
        GOOD + body(0, 1, -1, -1, 1, 0, 2**31 - 1),
        "impossible length 2147483647 of a header's key or value",
    ),
    "bytes after the last header": (
        GOOD + body(0, 1, -1, -1, 1, 0, 0, 0),
        "1 bytes are left after the record's 1 headers",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("more", [b"", body(0, 2, -1, -1, 0)], ids=["at the end", "before another record"])
def test_malformed_records_are_refused(what: str, more: bytes) -> None:
    payload, message = REFUSED[what]
    records = tuple(Record(offset=row) for row in range(3 if more else 2))
    buffer = write_batch(Batch(records=records, last_offset_delta=len(records) - 1), payload + more)
    with suppress(CorruptBatch):  # neither reads headers that are not requested
        read_both(buffer, columns=["value"])
    with pytest.raises(CorruptBatch) as found:
        read_both(buffer)
    if not more:
        assert message in str(found.value)


def test_a_header_key_that_is_not_utf8_is_repaired() -> None:
    payload = GOOD + body(0, 1, -1, -1, 2, 1, b"\xff\x00", 3, b"\xed\xa0\x80", -1)
    found = read_both(write_batch(Batch(records=(Record(), Record(offset=1))), payload))
    assert found is not None
    assert found.column("headers").to_pylist() == [
        None,
        [{"key": "\ufffd", "value": b""}, {"key": "\ufffd", "value": None}],
    ]


@pytest.mark.parametrize("time", [-1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("base", [-1, 0, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_any_time_from_any_base(time: int, base: int) -> None:
    """A writer's difference wraps around where it is beyond an int64, and so does the sum."""
    delta = (time - base + 2**63) % 2**64 - 2**63
    payload = body(delta, 0, -1, -1, 0)
    found = read_both(write_batch(Batch(records=(Record(),), base_timestamp=base), payload))
    assert found is not None
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [time]


def test_the_largest_numbers_there_are() -> None:
    time = 2**63 - 1
    payload = body(time, 0, -1, -1, 0) + body(-time, b"\xfe\xff\xff\xff\x0f", -1, -1, 0)
    batch = Batch(records=(Record(), Record(offset=2**31 - 1)), last_offset_delta=2**31 - 1, base_timestamp=0)
    found = read_both(write_batch(batch, payload))
    assert found is not None
    assert found.column("offset").to_pylist() == [0, 2**31 - 1]
    base = 2**63 - 1
    found = read_both(write_batch(Batch(records=(Record(),), base_timestamp=base), body(time - base, 0, -1, -1, 0)))
    assert found is not None


def test_offsets_up_to_the_last_one() -> None:
    batch = Batch(records=(Record(offset=2**63 - 3), Record(offset=2**63 - 2)), base_offset=2**63 - 3)
    assert read_both(write_batch(batch), until_offset=2**63 - 1) is not None
    with pytest.raises(CorruptBatch):
        read_both(write_batch(batch, GOOD + body(0, 2**31 - 1, -1, -1, 0)), until_offset=2**63 - 1)
