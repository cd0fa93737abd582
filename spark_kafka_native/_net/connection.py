"""The client's side of one connection, without the socket: bytes to send come out, frames go in.

A connection starts with ApiVersions: ``api_versions_request()`` gives the first bytes to send, and
``api_versions_response(frame)`` takes the response and may give more to send. From then on ``encode(request)`` picks
the highest version that both sides have, and ``decode(frame)`` pairs each frame with the oldest request that waits,
because brokers respond in the order of the requests.
"""

import dataclasses
from collections import deque
from typing import Any, Final

from spark_kafka_native import __version__
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import UnsupportedApiVersion
from spark_kafka_native._net.response_cache import ResponseCache
from spark_kafka_native._protocol.codec import decode_from, skip_tags
from spark_kafka_native._protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from spark_kafka_native._protocol.framing import decode_correlation_id, decode_response, request_frame
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import Buffer, Chunk

SOFTWARE_NAME: Final = "spark-kafka-native"
"""The client software name in ApiVersions requests (KIP-511)."""

OLDEST_SPOKEN: Final[dict[int, int]] = {
    ProduceRequest.api_key: 3,
    FetchRequest.api_key: 2,
    OffsetCommitRequest.api_key: 2,
    OffsetFetchRequest.api_key: 1,
    CreateTopicsRequest.api_key: 2,
    DeleteTopicsRequest.api_key: 1,
}
"""API key -> the oldest version that this client sends, where that is not version 0.

Older ones need message sets in place of record batches, keep offsets in ZooKeeper, or are of brokers before 0.10.
"""

MAX_THROTTLE_MS: Final = 600_000
"""The longest throttle time that a client honours, so that no broker can stop it for ever."""

_CORRELATION_IDS: Final = 2**31
_ANSWERS_FIRST_SINCE: Final = 2
"""The version of ApiVersions that came with KIP-219 (Kafka 2.0): a broker that has it answers at once, and reads no
request of the connection while the throttle lasts. Older brokers wait before they respond."""
_ERROR_AT: Final = slice(4, 6)
"""Where an ApiVersions response of any version has its error code: after the correlation id."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InFlightRequest:
    """A request without a response so far."""

    request: type[Request[Any]]
    version: int
    correlation_id: int

    def __str__(self) -> str:
        return f"{self.request.api_name} v{self.version}"


def api_versions() -> ApiVersionsRequest:
    """The ApiVersions request, with the client's name and version (KIP-511)."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)


class BrokerVersions:
    """The versions of each API that one broker speaks."""

    def __init__(self, address: HostPort, response: ApiVersionsResponse) -> None:
        self._address = address
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._levels = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def range_of(self, request: type[Request[Any]]) -> tuple[int, int] | None:
        """The broker's lowest and highest version of an API; None if it lacks the API."""
        return self._ranges.get(request.api_key)

    def level_of(self, feature: str) -> int:
        """The level at which the cluster has finalized a feature (KIP-584); 0 if it has not, or is too old to say."""
        return self._levels.get(feature, 0)

    @property
    def throttle_follows_response(self) -> bool:
        """Whether the client must wait for the throttle time of a response, because the broker has not (KIP-219)."""
        return self._ranges.get(ApiVersionsRequest.api_key, (0, 0))[1] >= _ANSWERS_FIRST_SINCE

    def choose(self, request: type[Request[Any]], max_version: int | None = None) -> int:
        """The highest version that both sides have, and that is not above ``max_version``.

        Raises UnsupportedApiVersion.
        """
        oldest = OLDEST_SPOKEN.get(request.api_key, request.min_version)
        newest = request.max_version if max_version is None else max_version
        of_broker = self.range_of(request)
        if of_broker is not None:
            version = min(newest, of_broker[1])
            if version >= max(oldest, of_broker[0]):
                return version
        raise UnsupportedApiVersion(
            self._address,
            request.api_name,
            f"versions {oldest}-{newest}",
            "no such API" if of_broker is None else f"versions {of_broker[0]}-{of_broker[1]}",
        )


class ClientConnection:
    """Correlation ids, pipelining in order and versions of one connection."""

    def __init__(self, address: HostPort, client_id: str | None, response_cache: ResponseCache | None = None) -> None:
        """``address`` names the broker in errors."""
        self.address = address
        self.throttle_ms = 0
        """How long no request may follow the last response, at most ``MAX_THROTTLE_MS``."""
        self._client_id = client_id
        self._response_cache = response_cache
        self._next_id = 0
        self._waiting: deque[InFlightRequest] = deque()
        self._versions: BrokerVersions | None = None

    @property
    def in_flight(self) -> int:
        """Requests that wait for their responses."""
        return len(self._waiting)

    @property
    def oldest(self) -> InFlightRequest | None:
        """The request whose response comes next."""
        return self._waiting[0] if self._waiting else None

    @property
    def versions(self) -> BrokerVersions:
        """The broker's API versions. Raises LocalProtocolError before they are known."""
        if self._versions is None:
            raise LocalProtocolError(f"{self.address}: its API versions are not known yet")
        return self._versions

    def update_versions(self, response: ApiVersionsResponse) -> None:
        """Replace the API versions and features by those of a later response."""
        self._versions = BrokerVersions(self.address, response)

    def api_versions_request(self) -> list[Chunk]:
        """The first bytes to send: the newest ApiVersions request."""
        return self._api_versions_frame(ApiVersionsRequest.max_version)

    def api_versions_response(self, frame: Buffer) -> list[Chunk] | None:
        """Take the response to the last ApiVersions request. More bytes to send, or None when the versions are known.

        A broker that does not know the request's version answers with a v0 body and its own range, or none if it is
        older than KIP-511; the next request has a version that it knows. Raises RemoteProtocolError,
        UnsupportedApiVersion.
        """
        sent = self._next_waiting(frame)
        code = ErrorCode.of(int.from_bytes(memoryview(frame)[_ERROR_AT], "big", signed=True))
        if code is ErrorCode.UNSUPPORTED_VERSION and sent.version > 0:
            self._waiting.popleft()
            return self._api_versions_frame(self._lower_version(frame, sent.version))
        _, response = decode_response(ApiVersionsResponse, sent.version, frame)
        if code is not ErrorCode.NONE:
            raise RemoteProtocolError(f"ApiVersions was answered with {code.name}: {code.message}")
        self._waiting.popleft()
        self._versions = BrokerVersions(self.address, response)
        self._note_throttle(response)
        return None

    def encode(self, request: Request[Any], max_version: int | None = None) -> tuple[InFlightRequest, list[Chunk]]:
        """The in-flight request and its bytes, in the highest version that both sides have.

        A Produce request with acks=0 gets no response and so does not count as in flight.
        Raises UnsupportedApiVersion, LocalProtocolError; then nothing must be sent.
        """
        kind = type(request)
        version = self.versions.choose(kind, max_version)
        sent = InFlightRequest(request=kind, version=version, correlation_id=self._next_id)
        chunks = request_frame(request, version, sent.correlation_id, self._client_id)
        self._next_id = (self._next_id + 1) % _CORRELATION_IDS
        if not (isinstance(request, ProduceRequest) and request.acks == 0):
            self._waiting.append(sent)
        return sent, chunks

    def decode(self, frame: Buffer) -> tuple[InFlightRequest, Response]:
        """The oldest in-flight request and its response, whose records are views into ``frame``.

        Raises RemoteProtocolError: the connection must be closed.
        """
        sent = self._next_waiting(frame)
        kind, version, view = sent.request.response, sent.version, memoryview(frame)
        if self._response_cache is None:
            response = _decode_leniently(kind, version, view)
        else:
            response = self._response_cache.decoded(kind, version, view, lambda: _decode_leniently(kind, version, view))
        self._waiting.popleft()
        self._note_throttle(response)
        return sent, response

    def _note_throttle(self, response: Response) -> None:
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)  # SASL responses, for example, have no such field
        self.throttle_ms = max(min(throttle_ms, MAX_THROTTLE_MS), 0) if self.versions.throttle_follows_response else 0

    def _api_versions_frame(self, version: int) -> list[Chunk]:
        sent = InFlightRequest(request=ApiVersionsRequest, version=version, correlation_id=self._next_id)
        self._next_id += 1
        self._waiting.append(sent)
        return request_frame(api_versions(), version, sent.correlation_id, self._client_id)

    def _lower_version(self, frame: Buffer, refused: int) -> int:
        """The next version of ApiVersions to try after ``refused`` was not understood."""
        try:
            _, response = decode_response(ApiVersionsResponse, 0, frame)
        except RemoteProtocolError:
            return 0  # some servers send the error code alone
        offered = next((api for api in response.api_keys if api.api_key == ApiVersionsRequest.api_key), None)
        return 0 if offered is None else max(min(offered.max_version, refused - 1), 0)

    def _next_waiting(self, frame: Buffer) -> InFlightRequest:
        correlation_id = decode_correlation_id(frame)
        sent = self.oldest
        if sent is None:
            raise RemoteProtocolError(
                f"unexpected response with correlation id {correlation_id}: no request is in flight"
            )
        if correlation_id != sent.correlation_id:
            raise RemoteProtocolError(
                f"response {correlation_id} came where the response to {sent.correlation_id} ({sent}) is next"
            )
        return sent


def _decode_leniently(cls: type[Response], version: int, frame: memoryview) -> Response:
    """As ``decode_response``, but zeroes after the message are ignored.

    librdkafka's mock cluster ends flexible Metadata responses with one empty tag section too many, and clients in other
    languages do not mind. Anything else after the message means that it was misread.
    """
    position = 4
    if version in cls.flexible and cls.api_key != ApiVersionsResponse.api_key:
        position = skip_tags(frame, position)
    message, end = decode_from(cls, frame, position, version)
    if any(frame[end:]):
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {len(frame) - end} bytes after the message")
    return message
