import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.decode import Decoded, decode
from spark_kafka_native._records.batch import CompressionType, TimestampType
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import CODECS, set_message_timestamp
from tests.support.records.both_kernels import decode_both
from tests.support.records.log_batches import NOW_MS, batch
from tests.support.records.message_sets import entry, message_set, messages_in

GZIP = CompressionType.GZIP
NONE = CompressionType.NONE


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    table = pa.table(decoded.records)
    if "timestamp" in table.schema.names:
        at = table.schema.names.index("timestamp")
        table = table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64()))
    return table.to_pylist()


def expected(raw: bytes, from_offset: int = 0, until_offset: int = 2**62) -> list[dict[str, Any]]:
    types = [
        header.timestamp_type
        for position, header in iter_any(raw)
        for _ in messages_in(raw[position : position + header.size_in_bytes])
    ]
    return [
        {
            "key": message.key,
            "value": message.value,
            "offset": message.offset,
            "timestamp": message.timestamp,
            "timestamp_type": int(kind),
            "headers": None,
        }
        for message, kind in zip(messages_in(raw), types, strict=True)
        if from_offset <= message.offset < until_offset
    ]


def whole(raw: bytes, **others: Any) -> Decoded:
    return decode(raw, **{"from_offset": 0, "until_offset": 2**62, **others})


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_both_formats(magic: int, codec: CompressionType) -> None:
    raw = bytes(
        message_set(
            *(None if index % 5 == 3 else b"v" * index for index in range(20)),
            keys=[None if index % 3 else b"k%d" % index for index in range(20)],
            timestamps=[NOW_MS + (index * 7) % 5 for index in range(20)],
            magic=magic,
            compression=codec,
            first_offset=50,
        )
    )
    assert rows(whole(raw)) == expected(raw)
    assert len(expected(raw)) == 20


def test_no_time_is_as_spark_has_it() -> None:
    (row,) = rows(whole(bytes(message_set(b"a", magic=0))))
    assert (row["timestamp"], row["timestamp_type"]) == (-1, TimestampType.NO_TIMESTAMP_TYPE)


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_the_brokers_time(codec: CompressionType) -> None:
    parts = []
    for first_offset, time in ((0, 111), (2, 222)):
        part = message_set(b"a", b"b", compression=codec, first_offset=first_offset)
        for position, header in list(iter_any(part)):
            set_message_timestamp(part, position, header, time, TimestampType.LOG_APPEND_TIME)
        parts.append(part)
    found = rows(whole(b"".join(parts)))
    assert [row["timestamp"] for row in found] == [111, 111, 222, 222]
    assert {row["timestamp_type"] for row in found} == {TimestampType.LOG_APPEND_TIME}


def mixed() -> bytes:
    """A log that its broker's upgrades went through, and a topic whose producers use many codecs."""
    kinds: list[tuple[int, CompressionType]] = [(0, NONE), (0, GZIP), (1, NONE), (1, CompressionType.LZ4), (2, NONE)]
    kinds += [(2, CompressionType.ZSTD), (1, CompressionType.SNAPPY), (0, NONE), (2, NONE)]
    offset, parts = 0, []
    for magic, codec in kinds:
        values = [b"%d" % index for index in range(offset, offset + 3)]
        if magic == 2:
            parts.append(batch(*values, compression=codec, base_offset=offset))
        else:
            parts.append(message_set(*values, magic=magic, compression=codec, first_offset=offset))
        offset += 4  # with a gap, as compaction leaves it
    return b"".join(parts)


MIXED = mixed()


def test_formats_in_any_order() -> None:
    decoded = whole(MIXED)
    assert rows(decoded) == expected(MIXED)
    assert (decoded.bytes_used, decoded.next_offset) == (len(MIXED), 35)
    assert {row["timestamp_type"] for row in rows(decoded)} == {-1, 0}


def test_every_range_of_offsets() -> None:
    for from_offset in range(0, 36, 2):
        for until_offset in range(from_offset, 37, 3):
            decoded = decode(MIXED, from_offset=from_offset, until_offset=until_offset, columns=["offset", "value"])
            wanted = expected(MIXED, from_offset, until_offset)
            assert decoded.records["offset"].to_pylist() == [row["offset"] for row in wanted]
            assert decoded.records["value"].to_pylist() == [row["value"] for row in wanted]
            assert decoded.next_offset >= min(until_offset, 35)


def test_every_cut_leaves_what_is_whole() -> None:
    for end in range(0, len(MIXED), 3):
        whole_part = [position + header.size_in_bytes for position, header in iter_any(MIXED[:end])]
        decoded = whole(MIXED[:end])
        assert decoded.bytes_used == (whole_part or [0])[-1]
        assert rows(decoded) == expected(MIXED[: decoded.bytes_used])


@pytest.mark.parametrize("limit", [{"target_rows": 1}, {"target_rows": 4}, {"target_bytes": 1}])
def test_message_sets_are_read_in_portions(limit: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []
    buffer, offset = MIXED, 0
    for _ in range(40):
        decoded = decode(buffer, from_offset=offset, until_offset=2**62, **limit)
        if not decoded.bytes_used:
            break
        found += rows(decoded)
        buffer, offset = buffer[decoded.bytes_used :], decoded.next_offset
    assert found == expected(MIXED)


def test_only_requested_columns_are_built() -> None:
    assert whole(MIXED, columns=[]).records.num_rows == 27
    assert whole(MIXED, columns=["headers", "key"]).records.schema.names == ["headers", "key"]


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(CODECS), st.integers(1, 6)), max_size=8),
    st.integers(0, 30),
    st.integers(0, 30),
)
@settings(max_examples=60)
def test_any_mixture_of_formats_v0_v1_and_v2(
    kinds: list[tuple[int, CompressionType, int]], start: int, length: int
) -> None:
    offset, parts = 0, []
    for magic, codec, count in kinds:
        values = [b"x" * (offset % 7)] * count
        if magic == 2:
            parts.append(batch(*values, compression=codec, base_offset=offset))
        else:
            parts.append(message_set(*values, magic=magic, compression=codec, first_offset=offset))
        offset += count
    raw = b"".join(parts)
    decoded = decode(raw, from_offset=start, until_offset=start + length)
    assert rows(decoded) == expected(raw, start, start + length)


def test_thousands_of_messages_are_several_runs() -> None:
    raw = bytes(message_set(*[b"v"] * 20_000))
    assert whole(raw).records["offset"].to_pylist() == list(range(20_000))
    part = whole(raw, target_rows=10)
    assert 10 <= part.records.num_rows < 10_000


# --- what is wrong ---------------------------------------------------------------------------------------------------


def refusal(raw: bytes, **others: Any) -> CorruptBatch:
    with pytest.raises(CorruptBatch) as caught:
        whole(raw, **others)
    return caught.value


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_is_noticed(magic: int, codec: CompressionType) -> None:
    raw = bytes(message_set(b"abc", b"def", magic=magic, compression=codec))
    for position, header in iter_any(raw):
        for at in range(position + 12, position + header.size_in_bytes):
            broken = bytearray(raw)
            broken[at] ^= 1
            assert refusal(bytes(broken)).position == position


def with_key_length(raw: bytes, position: int, length: int) -> bytes:
    """Raw with the key length of the v1 message at ``position`` changed; its CRC is wrong then."""
    changed = bytearray(raw)
    changed[position + 26 : position + 30] = length.to_bytes(4, "big", signed=True)
    return bytes(changed)


@pytest.mark.parametrize("length", [-2, 1, 5, 1000, 2**31 - 1, -(2**31)])
def test_lengths_that_do_not_fit_name_their_message(length: int) -> None:
    raw = bytes(message_set(b"abc", b"def"))
    size = len(raw) // 2
    error = refusal(with_key_length(raw, size, length), check_crcs=False)
    assert (error.position, error.base_offset, error.record_index) == (size, 1, 0)
    assert "bad record" in error.detail


def test_a_bad_record_inside_is_counted() -> None:
    inner = with_key_length(bytes(message_set(b"abc", b"def")), 37, 9)
    raw = entry(offset=1, attributes=1, key=None, value=compress(GZIP, inner))
    error = refusal(raw, check_crcs=False)
    assert (error.position, error.base_offset, error.record_index) == (0, 1, 1)


def wrapped(inner: bytes, offset: int) -> bytes:
    """A v1 wrapper of what a client has compressed, sound or not; its own CRC is right."""
    return entry(offset=offset, attributes=1, key=None, value=compress(GZIP, inner))


ONE = entry(offset=0)


@pytest.mark.parametrize(
    ("inner", "index", "detail"),
    [
        pytest.param(ONE + entry(offset=1)[:17], 1, "a message inside is cut off", id="cut off"),
        pytest.param(ONE + entry(offset=1)[:-1], 1, "impossible size 30 of a message inside", id="too long"),
        pytest.param(
            ONE + entry(offset=1, crc=7), 1, "CRC-32 of the message is 0x0*[0-9a-f]+, its .* 0x00000007", id="CRC"
        ),
        pytest.param(ONE + wrapped(ONE, 1), 1, "a compressed message inside a compressed message", id="nested"),
        pytest.param(
            entry(offset=0, magic=0, value=b"long enough"), 0, "a message of magic 0 inside one of format v1", id="v0"
        ),
        pytest.param(ONE + ONE, 1, "offset 5 is not greater than the previous message's offset 5", id="offsets"),
        pytest.param(b"", None, "a compressed message with no message inside", id="nothing"),
    ],
)
def test_damage_inside_a_wrapper_names_the_message(inner: bytes, index: int | None, detail: str) -> None:
    error = refusal(bytes(message_set(b"first")) + wrapped(inner, 5))
    assert (error.position, error.base_offset, error.record_index) == (39, 5, index)
    assert re.fullmatch(detail, error.detail)


def test_offsets_must_ascend() -> None:
    assert "offset 1 or a later one" in refusal(bytes(message_set(b"a") * 2)).detail
    twice = bytes(message_set(b"a", compression=GZIP) * 2)
    assert "offset 1 or a later one" in refusal(twice).detail


def test_what_is_before_the_wanted_offset_is_not_looked_into() -> None:
    raw = bytearray(message_set(b"a", b"b", b"c"))
    raw[30] ^= 1
    assert decode(raw, from_offset=1, until_offset=9).records["value"].to_pylist() == [b"b", b"c"]
    wrapped = bytearray(message_set(b"a", compression=GZIP) + message_set(b"b", first_offset=1))
    wrapped[40] ^= 1
    assert decode(wrapped, from_offset=1, until_offset=9).records["value"].to_pylist() == [b"b"]


def test_a_payload_above_the_limit_is_refused() -> None:
    raw = bytes(message_set(bytes(1_000_000), compression=GZIP))
    assert "more than 1000 bytes" in refusal(raw, max_decompressed_bytes=1000).detail


def test_no_batch_can_follow_the_last_offset_there_is() -> None:
    last = bytes(message_set(b"a", b"b", compression=GZIP, first_offset=2**63 - 2))
    found = decode_both(last + bytes(batch(b"c")), from_offset=0, until_offset=2**63 - 1)
    assert isinstance(found, CorruptBatch)
