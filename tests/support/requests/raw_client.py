"""A client of raw bytes over a real, blocking socket."""

import socket
import struct
from typing import Self, TypeVar

from spark_kafka_native._protocol.framing import decode_response, request_frame
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.broker.driver import to_bytes

ResponseT = TypeVar("ResponseT", bound=Response)


class RawClient:
    """One connection. A context manager."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host.strip("[]"), int(port)), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of ``data``."""
        self.sock.sendall(data)

    def receive(self, length: int) -> bytes:
        """Exactly so many bytes. Raises ConnectionError: the broker closed before."""
        received = bytearray()
        while len(received) < length:
            chunk = self.sock.recv(length - len(received))
            if not chunk:
                raise ConnectionError(f"closed after {len(received)} of {length} bytes")
            received += chunk
        return bytes(received)

    def frame(self) -> bytes:
        """The next frame, without its size."""
        return self.receive(struct.unpack(">i", self.receive(4))[0])

    def is_closed(self) -> bool:
        """Wait for the broker to close; whether it did, without another byte."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:  # it had not read all of ours
            return True

    def is_silent(self) -> bool:
        """Whether no byte has come yet; does not wait."""
        timeout_s = self.sock.gettimeout()
        self.sock.setblocking(False)
        try:
            self.sock.recv(1)
        except BlockingIOError:
            return True
        finally:
            self.sock.settimeout(timeout_s)
        return False

    def ask(self, request: Request[ResponseT], version: int, correlation_id: int = 1) -> ResponseT:
        """One request and its response."""
        self.send(request_bytes(request, version, correlation_id))
        answered, response = decode_response(type(request).response, version, self.frame())
        assert answered == correlation_id
        return response  # type: ignore[return-value]  # a request names its response's class


def request_bytes(request: Request[ResponseT], version: int, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """A request frame with its size."""
    return to_bytes(request_frame(request, version, correlation_id, client_id))
