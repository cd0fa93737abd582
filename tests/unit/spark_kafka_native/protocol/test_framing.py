import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native.protocol import framing
from spark_kafka_native.protocol.codec import decode
from spark_kafka_native.protocol.errors import RemoteProtocolError
from spark_kafka_native.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from spark_kafka_native.protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native.protocol.wire import Chunk, FileRegion


def _flat(chunks: list[Chunk]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileRegion))


@given(st.lists(st.binary(max_size=30), max_size=6), st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = framing.FrameReader(100)
    frames = [bytes(f) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) for f in reader.feed(stream[a:b])]
    assert frames == bodies


def test_frames_byte_by_byte() -> None:
    reader = framing.FrameReader(10)
    frames = [bytes(f) for byte in b"\0\0\0\x02ab\0\0\0\0\0\0\0\x01c\0\0" for f in reader.feed(bytes([byte]))]
    assert frames == [b"ab", b"", b"c"]
    assert reader.feed(b"\0\x01d") == [b"d"]


@pytest.mark.parametrize(
    ("size", "shown"), [(b"\xff\xff\xff\xff", "-1"), (b"\0\0\0\x0b", "11"), (b"GET ", "1195725856")]
)
def test_a_bad_size_is_refused(size: bytes, shown: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"frame of {shown} bytes; the limit is 10"):
        framing.FrameReader(10).feed(size)


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("client_id", [None, "", "spark"])
def test_request_header_round_trip(version: int, client_id: str | None) -> None:
    frame = _flat(framing.request_frame(MetadataRequest(topics=()), version, 77, client_id))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = framing.decode_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, version, 77, client_id)
    assert decode(MetadataRequest, header.body, version) == MetadataRequest(topics=())
    for end in range(4, len(frame) - len(header.body)):
        with pytest.raises(RemoteProtocolError):
            framing.decode_request_header(frame[4:end])


def test_the_header_of_an_unknown_version_can_still_be_answered() -> None:
    header = framing.decode_request_header(b"\0\x12\0\x63\0\0\0\x05\0\x01xrest")
    assert (header.api_key, header.api_version, header.correlation_id, bytes(header.body)) == (18, 99, 5, b"rest")


@pytest.mark.parametrize("version", range(14))
def test_response_frame_round_trip(version: int) -> None:
    frame = _flat(framing.response_frame(MetadataResponse(controller_id=-1), version, 9))
    assert framing.decode_response(MetadataResponse, version, frame[4:]) == (9, MetadataResponse())
    with pytest.raises(RemoteProtocolError, match="1 bytes after the message"):
        framing.decode_response(MetadataResponse, version, frame[4:] + b"!")


def test_api_versions_answers_always_have_the_old_header() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=3, min_version=0, max_version=13),))
    frame = _flat(framing.response_frame(response, 3, 1))
    assert frame[8:10] == b"\0\0"
    assert framing.decode_response(ApiVersionsResponse, 3, frame[4:]) == (1, response)


def test_a_response_without_a_correlation_id() -> None:
    with pytest.raises(RemoteProtocolError, match="response of 3 bytes"):
        framing.decode_response(MetadataResponse, 0, b"abc")
