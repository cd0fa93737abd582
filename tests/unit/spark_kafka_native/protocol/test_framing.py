import pytest

from spark_kafka_native._protocol import framing
from spark_kafka_native._protocol.codec import decode
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.wire import Chunk, FileRegion


def _flat(chunks: list[Chunk]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileRegion))


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


def test_a_request_of_an_unknown_version_gets_a_response() -> None:
    header = framing.decode_request_header(b"\0\x12\0\x63\0\0\0\x05\0\x01xrest")
    assert (header.api_key, header.api_version, header.correlation_id, bytes(header.body)) == (18, 99, 5, b"rest")


@pytest.mark.parametrize("version", range(14))
def test_response_frame_round_trip(version: int) -> None:
    frame = _flat(framing.response_frame(MetadataResponse(controller_id=-1), version, 9))
    assert framing.decode_response(MetadataResponse, version, frame[4:]) == (9, MetadataResponse())
    with pytest.raises(RemoteProtocolError, match="1 bytes after the message"):
        framing.decode_response(MetadataResponse, version, frame[4:] + b"!")


def test_api_versions_responses_always_have_the_old_header() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=3, min_version=0, max_version=13),))
    frame = _flat(framing.response_frame(response, 3, 1))
    assert frame[8:10] == b"\0\0"
    assert framing.decode_response(ApiVersionsResponse, 3, frame[4:]) == (1, response)


def test_a_response_without_a_correlation_id() -> None:
    with pytest.raises(RemoteProtocolError, match="response of 3 bytes"):
        framing.decode_response(MetadataResponse, 0, b"abc")
