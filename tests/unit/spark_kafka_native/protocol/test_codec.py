"""Codecs of fields that today's messages do not use."""

from struct import error

import pytest

from spark_kafka_native._protocol.codec import decoder, encoder
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.wire import Bool, Float64, Int32, String, Uuid, put_unsigned_varint


@struct
class Point(Struct):
    x: Int32 = 0
    label: String = ""


@struct
class Sample(Struct):
    """Nullable structs, arrays of each kind, tagged values of each kind."""

    weight: Float64 = 0.0
    point: Point | None = None
    flags: tuple[Bool, ...] = ()
    ids: tuple[Uuid, ...] | None = None
    names: tuple[String, ...] | None = field("1+", default=None, ignorable=True)
    tagged_number: Int32 = field("0+", default=7, tag=1)
    tagged_points: tuple[Point, ...] = field("0+", default=(), tag=0)


def _round_trip(value: Sample, version: int, flexible: bool) -> tuple[Sample, bytes]:
    write, read = encoder(Sample, version, flexible), decoder(Sample, version, flexible)
    out = bytearray()
    write(value, out, [])
    decoded, end = read(memoryview(out), 0)
    assert end == len(out)
    return decoded, bytes(out)


@pytest.mark.parametrize("flexible", [False, True])
def test_nullable_structs_and_arrays(flexible: bool) -> None:
    null, _ = _round_trip(Sample(), 1, flexible)
    assert null == Sample()
    full = Sample(weight=1.5, point=Point(x=-3, label="é"), flags=(True, False), names=("a", "b"))
    assert _round_trip(full, 1, flexible)[0] == full


@struct
class Lists(Struct):
    numbers: tuple[Int32, ...] = ()
    flags: tuple[Bool, ...] | None = None
    points: tuple[Point, ...] = ()
    names: tuple[String, ...] | None = None


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("count", [*range(10), 126, 127, 128, 300])
def test_arrays_of_every_length_have_kafkas_bytes(count: int, flexible: bool) -> None:
    value = Lists(
        numbers=tuple(range(-1, count - 1)), flags=(True,) * count, points=(Point(x=7),) * count, names=("n",) * count
    )
    stored = bytearray()
    if flexible:
        put_unsigned_varint(stored, count + 1)
    else:
        stored += count.to_bytes(4, "big")
    no_tags = b"\0" * flexible
    point = b"\0\0\0\x07" + (b"\x01\0" if flexible else b"\0\0")
    name = b"\x02n" if flexible else b"\0\x01n"
    raw = b"".join(
        (
            stored + b"".join(number.to_bytes(4, "big", signed=True) for number in value.numbers),
            stored + b"\x01" * count,
            stored + point * count,
            stored + name * count + no_tags,
        )
    )
    write, read = encoder(Lists, 0, flexible), decoder(Lists, 0, flexible)
    out = bytearray()
    write(value, out, [])
    assert out == raw
    assert read(memoryview(raw), 0) == (value, len(raw))
    for end in range(len(raw)):
        with pytest.raises((RemoteProtocolError, error)):
            read(memoryview(raw)[:end], 0)


@pytest.mark.parametrize("flexible", [False, True])
def test_arrays_may_be_null_only_where_they_are_declared_so(flexible: bool) -> None:
    null, empty, no_tags = (b"\0", b"\x01", b"\0") if flexible else (b"\xff" * 4, bytes(4), b"")
    read = decoder(Lists, 0, flexible)
    raw = empty + null + empty + null + no_tags
    assert read(memoryview(raw), 0) == (Lists(), len(raw))
    for arrays in (null + null + empty + null, empty + null + null + null):
        with pytest.raises(RemoteProtocolError, match="null array"):
            read(memoryview(arrays + no_tags), 0)


@struct
class Tagging(Struct):
    """A struct in a tagged field, which may be null though it is not by default."""

    point: Point | None = field("0+", default=Point(), tag=0)


@pytest.mark.parametrize(
    ("point", "raw"), [(Point(), "00"), (None, "01 00 01 00"), (Point(x=1), "01 00 07 01 00000001 01 00")]
)
def test_a_nullable_struct_in_a_tagged_field_has_a_number_before_it(point: Point | None, raw: str) -> None:
    write, read = encoder(Tagging, 0, True), decoder(Tagging, 0, True)
    out = bytearray()
    write(Tagging(point=point), out, [])
    assert out == bytes.fromhex(raw)
    assert read(memoryview(out), 0) == (Tagging(point=point), len(out))


def test_tagged_fields_are_written_only_when_they_are_not_the_default() -> None:
    value = Sample(tagged_number=8, tagged_points=(Point(x=1), Point(x=2)))
    decoded, raw = _round_trip(value, 1, True)
    assert decoded == value
    assert len(_round_trip(Sample(), 1, True)[1]) < len(raw)


def test_a_tagged_value_whose_size_is_wrong_is_refused() -> None:
    write, read = encoder(Sample, 0, True), decoder(Sample, 0, True)
    out = bytearray()
    write(Sample(tagged_number=8), out, [])
    assert out[-6:] == b"\x01\x04\0\0\0\x08"
    out[-5] = 5
    out += b"\0"
    with pytest.raises(RemoteProtocolError, match="tagged field 1 is out of order or has a size"):
        read(memoryview(out), 0)


def test_ignorable_fields_are_dropped_by_versions_that_lack_them() -> None:
    assert _round_trip(Sample(names=("a",)), 0, False)[0] == Sample()
