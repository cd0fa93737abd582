import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_native._protocol.codec import decode, encode
from spark_kafka_native._protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchTopic
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.schema import Struct
from spark_kafka_native._protocol.wire import Chunk, FileRegion, HasFileno, length_of
from tests.support.records.message_strategies import messages

CLASSES = [cls for request in all_requests().values() for cls in (request, request.response)]
VERSIONED = [(cls, version) for cls in CLASSES for version in range(cls.min_version, cls.max_version + 1)]
IDS = [f"{cls.__name__}-v{version}" for cls, version in VERSIONED]


def _encoded(value: Any, version: int) -> bytes:
    return b"".join(bytes(chunk) for chunk in encode(value, version) if not isinstance(chunk, FileRegion))


@pytest.mark.parametrize(("cls", "version"), VERSIONED, ids=IDS)
def test_round_trip_and_every_truncation(cls: Any, version: int) -> None:
    @settings(max_examples=5, suppress_health_check=list(HealthCheck))
    @given(messages(cls, version))
    def check(value: Struct) -> None:
        raw = _encoded(value, version)
        assert decode(cls, raw, version) == value
        for end in range(len(raw)):
            with pytest.raises(RemoteProtocolError):
                decode(cls, raw[:end], version)
        with pytest.raises(RemoteProtocolError, match="1 bytes after the message"):
            decode(cls, raw + b"\0", version)

    check()


@pytest.mark.parametrize(("cls", "version"), VERSIONED, ids=IDS)
def test_garbage_is_a_remote_protocol_error_or_a_message(cls: Any, version: int) -> None:
    @settings(max_examples=8)
    @given(st.binary(max_size=120))
    def check(raw: bytes) -> None:
        try:
            value = decode(cls, raw, version)
        except RemoteProtocolError:
            return
        assert decode(cls, _encoded(value, version), version) == value

    check()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_encode_in_every_version(cls: Any) -> None:
    for version in range(cls.min_version, cls.max_version + 1):
        assert decode(cls, _encoded(cls(), version), version) == cls()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_versions_outside_the_range_are_refused(cls: Any) -> None:
    for version in (cls.min_version - 1, cls.max_version + 1):
        with pytest.raises(LocalProtocolError, match="has versions"):
            encode(cls(), version)
        with pytest.raises(LocalProtocolError, match="has versions"):
            decode(cls, b"", version)


def test_a_value_that_the_version_lacks_is_refused() -> None:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with pytest.raises(LocalProtocolError, match="allow_auto_topic_creation = False cannot be sent in version 1"):
        encode(request, 1)


def test_null_is_refused_where_the_version_has_no_null() -> None:
    with pytest.raises(LocalProtocolError, match=r"topics = None cannot be sent in version 0"):
        encode(MetadataRequest(topics=None), 0)


def test_a_value_out_of_range_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="FetchRequest v4"):
        encode(FetchRequest(max_wait_ms=2**31), 4)
    with pytest.raises(LocalProtocolError, match="FetchRequest v4"):
        encode(FetchRequest(topics=(FetchTopic(topic="x" * 40_000),)), 4)


class NeverOpened:
    """A file that is not opened while a message is encoded."""

    def file(self) -> HasFileno:
        raise AssertionError("a region was opened before it is sent")


@pytest.mark.parametrize("version", range(3, 14))
def test_large_records_travel_by_reference(version: int) -> None:
    big = bytearray(b"x" * 5_000)
    region = FileRegion(NeverOpened(), 7, 900)
    pieces: tuple[Chunk, ...] = (big, region, b"small")
    data = tuple(PartitionProduceData(index=i, records=piece) for i, piece in enumerate(pieces))
    request = ProduceRequest(acks=-1, topic_data=(TopicProduceData(partition_data=data),))
    chunks = encode(request, version)
    assert any(chunk is big for chunk in chunks)
    assert any(chunk is region for chunk in chunks)
    flat = b"".join(b"f" * len(chunk) if isinstance(chunk, FileRegion) else chunk for chunk in chunks)
    (topic,) = decode(ProduceRequest, flat, version).topic_data
    assert [p.records for p in topic.partition_data] == [big, b"f" * 900, b"small"]


def test_records_are_decoded_as_views() -> None:
    request = ProduceRequest(topic_data=(TopicProduceData(partition_data=(PartitionProduceData(records=b"abc"),)),))
    raw = memoryview(_encoded(request, 9))
    records = decode(ProduceRequest, raw, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is raw.obj
    assert length_of((b"ab", records)) == 5


def test_an_array_longer_than_the_limit_is_refused_before_anything_is_allocated() -> None:
    raw = (1_000_001).to_bytes(4, "big") + bytes(1_000_100)
    with pytest.raises(RemoteProtocolError, match="the limit is 1000000"):
        decode(MetadataRequest, raw, 1)
    with pytest.raises(RemoteProtocolError, match="array of 900000 elements needs"):
        decode(MetadataRequest, (900_000).to_bytes(4, "big"), 1)


def test_unknown_tagged_fields_are_skipped_and_disorder_is_refused() -> None:
    body = _encoded(MetadataRequest(topics=()), 9)[:-1]
    tagged = bytes([2, 5, 1, 0xAA, 9, 0])
    assert decode(MetadataRequest, body + tagged, 9) == MetadataRequest(topics=())
    with pytest.raises(RemoteProtocolError, match="tagged field 5 is out of order"):
        decode(MetadataRequest, body + bytes([2, 9, 0, 5, 1, 0xAA]), 9)
    with pytest.raises(RemoteProtocolError, match="10001 tagged fields"):
        decode(MetadataRequest, body + bytes([0x91, 0x4E]), 9)


def test_unknown_error_codes_become_unknown_server_error() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9_999) is ErrorCode.UNKNOWN_SERVER_ERROR


HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\x00\x0f\x42\x40",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x89\x7a",
    b"\x00\x0f\x42\x40\x00\x00",
    b"\x7f",
)
"""Counts and lengths as large as they can be, or just allowed, in every encoding, over and over."""


def test_a_small_frame_cannot_make_the_decoder_set_much_memory_aside() -> None:
    size = 1000
    bodies = [(piece * size)[:size] for piece in HOSTILE]
    for cls, version in VERSIONED:  # compile the codecs first
        with contextlib.suppress(RemoteProtocolError):
            decode(cls, b"", version)
    tracemalloc.start()
    try:
        for cls, version in VERSIONED:
            for body in bodies:
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                with contextlib.suppress(RemoteProtocolError):
                    decode(cls, body, version)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 500 * size, (cls, version, body[:6])
    finally:
        tracemalloc.stop()
