"""Frames: a 4-byte size, a header whose version depends on the API and its version, and a message.

    request  frame  =  int32 size | int16 api_key | int16 api_version | int32 correlation_id | nullable string client_id
                       | tagged fields (flexible versions only) | message
    response frame  =  int32 size | int32 correlation_id | tagged fields (flexible versions only) | message

Two exceptions: the client id keeps its old form in flexible headers, and ApiVersions responses always have the old
header, so that a client can read them before it knows what the broker speaks (KIP-511).
"""

import struct
from typing import Any, Final, NamedTuple, TypeVar

from spark_kafka_native._protocol import wire
from spark_kafka_native._protocol.codec import decode_from, encode_into, skip_tags
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.schema import REQUESTS, Request, Response
from spark_kafka_native._protocol.wire import Buffer, Chunk, Splices

_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhi")
_API_VERSIONS: Final = 18
_CONTROLLED_SHUTDOWN: Final = 7

ResponseT = TypeVar("ResponseT", bound=Response)


class RequestHeader(NamedTuple):
    """What stands before every request; ``body`` is a view of the message that follows."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: memoryview


def request_frame(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Chunk]:
    """A request ready to be sent. Raises LocalProtocolError."""
    out, splices = bytearray(4), Splices()
    out += _REQUEST_HEAD.pack(request.api_key, version, correlation_id)
    wire.put_string(out, client_id)
    if version in request.flexible:
        out.append(0)
    encode_into(out, splices, request, version)
    return _sized(out, splices)


def response_frame(response: Response, version: int, correlation_id: int) -> list[Chunk]:
    """A response ready to be sent. Raises LocalProtocolError."""
    out, splices = bytearray(4), Splices()
    out += _SIZE.pack(correlation_id)
    if version in response.flexible and response.api_key != _API_VERSIONS:
        out.append(0)
    encode_into(out, splices, response, version)
    return _sized(out, splices)


def _sized(out: bytearray, splices: Splices) -> list[Chunk]:
    _SIZE.pack_into(out, 0, len(out) - 4 + sum(len(piece) for _, piece in splices))
    return wire.chunks_of(out, splices)


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request frame (without its size).

    An API key or version that we do not know is no error here: its header is read as the oldest layout, which is all
    that a response needs. Raises RemoteProtocolError: short or malformed bytes.
    """
    view = memoryview(frame)
    try:
        api_key, version, correlation_id = _REQUEST_HEAD.unpack_from(view, 0)
        position = _REQUEST_HEAD.size
        client_id = None
        if (api_key, version) != (_CONTROLLED_SHUTDOWN, 0):
            client_id, position = wire.read_nullable_string(view, position)
        request = REQUESTS.get(api_key)
        if request is not None and version in request.versions and version in request.flexible:
            position = skip_tags(view, position)
    except struct.error as error:
        raise RemoteProtocolError(f"request header is cut short: {error}") from None
    return RequestHeader(
        api_key=api_key, api_version=version, correlation_id=correlation_id, client_id=client_id, body=view[position:]
    )


def decode_response(cls: type[ResponseT], version: int, frame: Buffer) -> tuple[int, ResponseT]:
    """A response frame's (without its size) correlation id and message. Raises RemoteProtocolError."""
    view = memoryview(frame)
    correlation_id, position = decode_correlation_id(view), 4
    if version in cls.flexible and cls.api_key != _API_VERSIONS:
        position = skip_tags(view, position)
    message, end = decode_from(cls, view, position, version)
    if end != len(view):
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {len(view) - end} bytes after the message")
    return correlation_id, message


def decode_correlation_id(frame: Buffer) -> int:
    """The correlation id that a response frame (without its size) starts with. Raises RemoteProtocolError."""
    if len(frame) < 4:
        raise RemoteProtocolError(f"response of {len(frame)} bytes has no correlation id")
    return int(_SIZE.unpack_from(frame, 0)[0])
