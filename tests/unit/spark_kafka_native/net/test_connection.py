import dataclasses
import importlib.metadata

import pytest

from spark_kafka_native import __version__
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.connection import MAX_THROTTLE_MS, SOFTWARE_NAME, ClientConnection
from spark_kafka_native._net.errors import UnsupportedApiVersion
from spark_kafka_native._protocol.codec import decode
from spark_kafka_native._protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from spark_kafka_native._protocol.framing import decode_request_header, response_frame
from spark_kafka_native._protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._protocol.wire import Chunk, FileRegion
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, KAFKA_4_3, Versions

ADDRESS = HostPort("broker", 9092)


def joined(chunks: list[Chunk]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileRegion))


def frame(response: Response, version: int, correlation_id: int) -> bytes:
    return joined(response_frame(response, version, correlation_id))[4:]


def offer(versions: Versions) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in versions.items()
        )
    )


def negotiating() -> ClientConnection:
    """A connection that has sent ApiVersions."""
    connection = ClientConnection(ADDRESS, "me")
    connection.api_versions_request()
    return connection


def connected(versions: Versions = KAFKA_4_3) -> ClientConnection:
    connection = negotiating()
    assert connection.api_versions_response(frame(offer(versions), ApiVersionsRequest.max_version, 0)) is None
    return connection


@pytest.fixture
def connection() -> ClientConnection:
    return connected()


def test_the_first_request_is_the_newest_api_versions_with_the_clients_name() -> None:
    header = decode_request_header(joined(ClientConnection(ADDRESS, "me").api_versions_request())[4:])
    assert (header.api_key, header.api_version, header.client_id) == (18, ApiVersionsRequest.max_version, "me")
    greeting = decode(ApiVersionsRequest, header.body, header.api_version)
    assert greeting.client_software_name == SOFTWARE_NAME == "spark-kafka-native"
    assert greeting.client_software_version == __version__ == importlib.metadata.version("spark-kafka-native")


def test_requests_before_the_api_versions_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="broker:9092"):
        ClientConnection(ADDRESS, "me").encode(MetadataRequest())


@pytest.mark.parametrize(
    ("response", "asks_again_with"),
    [
        (frame(ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, max_version=3),)), 0, 0), 3),
        (frame(ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, max_version=9),)), 0, 0), 3),
        (frame(ApiVersionsResponse(error_code=35), 0, 0), 0),
        (b"\0\0\0\0" + b"\0\x23", 0),
    ],
    ids=["range given", "range that cannot be", "no range, as before KIP-511", "error code alone"],
)
def test_api_versions_is_retried_with_a_version_that_the_broker_has(response: bytes, asks_again_with: int) -> None:
    connection = negotiating()
    again = connection.api_versions_response(response)
    assert again is not None
    header = decode_request_header(joined(again)[4:])
    assert (header.api_version, header.correlation_id) == (asks_again_with, 1)
    assert connection.api_versions_response(frame(offer(KAFKA_0_11), asks_again_with, 1)) is None
    assert connection.in_flight == 0
    assert connection.versions.choose(FetchRequest) == 5


def test_other_errors_of_api_versions_are_raised() -> None:
    connection = negotiating()
    with pytest.raises(RemoteProtocolError, match="CLUSTER_AUTHORIZATION_FAILED"):
        connection.api_versions_response(frame(ApiVersionsResponse(error_code=31), ApiVersionsRequest.max_version, 0))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_truncated_api_versions_response_is_an_error(cut: int) -> None:
    connection = negotiating()
    with pytest.raises(RemoteProtocolError):
        connection.api_versions_response(frame(offer(KAFKA_4_3), 4, 0)[:cut])


@pytest.mark.parametrize(("versions", "chosen"), [(KAFKA_0_11, 5), (KAFKA_4_3, 18), ({**KAFKA_4_3, 1: (4, 12)}, 12)])
def test_the_highest_common_version_is_chosen(versions: Versions, chosen: int) -> None:
    assert connected(versions).versions.choose(FetchRequest) == chosen


def test_max_version_is_kept() -> None:
    sent, _ = connected().encode(FetchRequest(), max_version=12)
    assert sent.version == 12


@pytest.mark.parametrize(
    ("versions", "what"),
    [
        ({0: (0, 2)}, "Produce: this client has versions 3-13, the broker has versions 0-2"),
        ({0: (14, 20)}, "Produce: this client has versions 3-13, the broker has versions 14-20"),
        ({}, "Produce: this client has versions 3-13, the broker has no such API"),
    ],
)
def test_no_common_version_names_the_api_and_both_ranges(versions: Versions, what: str) -> None:
    connection = connected(versions)
    with pytest.raises(UnsupportedApiVersion) as caught:
        connection.encode(ProduceRequest(acks=1))
    assert str(caught.value) == f"broker:9092: {what}"
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert not caught.value.retriable
    assert connection.in_flight == 0


@pytest.mark.parametrize(
    ("versions", "asked_ms", "throttle_ms"),
    [
        (KAFKA_4_3, 0, 0),
        (KAFKA_4_3, 700, 700),
        (KAFKA_2_1, 700, 700),
        (KAFKA_0_11, 700, 0),  # before KIP-219 the broker has waited itself
        (KAFKA_4_3, -1, 0),
        (KAFKA_4_3, 2**31 - 1, MAX_THROTTLE_MS),
    ],
)
def test_the_throttle_time_of_a_response_throttles_the_connection(
    versions: Versions, asked_ms: int, throttle_ms: int
) -> None:
    connection = connected(versions)
    sent, _ = connection.encode(MetadataRequest())
    response = MetadataResponse(throttle_time_ms=asked_ms)
    connection.decode(frame(response, sent.version, sent.correlation_id))
    assert connection.throttle_ms == throttle_ms
    sent, _ = connection.encode(MetadataRequest())
    connection.decode(frame(MetadataResponse(), sent.version, sent.correlation_id))
    assert connection.throttle_ms == 0


def test_the_api_versions_response_may_throttle_too() -> None:
    connection = negotiating()
    response = dataclasses.replace(offer(KAFKA_4_3), throttle_time_ms=700)
    connection.api_versions_response(frame(response, ApiVersionsRequest.max_version, 0))
    assert connection.throttle_ms == 700


def test_responses_are_paired_with_requests_in_order(connection: ClientConnection) -> None:
    first, _ = connection.encode(MetadataRequest())
    second, _ = connection.encode(InitProducerIdRequest(transactional_id=None))
    assert connection.in_flight == 2
    sent, response = connection.decode(frame(MetadataResponse(cluster_id="c"), first.version, first.correlation_id))
    assert sent == first
    assert isinstance(response, MetadataResponse)
    assert response.cluster_id == "c"
    sent, response = connection.decode(
        frame(InitProducerIdResponse(producer_id=5), second.version, second.correlation_id)
    )
    assert sent == second
    assert isinstance(response, InitProducerIdResponse)
    assert response.producer_id == 5
    assert connection.in_flight == 0


def test_a_response_out_of_order_is_refused(connection: ClientConnection) -> None:
    connection.encode(MetadataRequest())
    second, _ = connection.encode(MetadataRequest())
    with pytest.raises(RemoteProtocolError, match="response 2 came where the response to 1"):
        connection.decode(frame(MetadataResponse(), second.version, second.correlation_id))


def test_an_unexpected_response_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="no request is in flight"):
        connected().decode(frame(MetadataResponse(), 13, 9))


def test_produce_without_acks_waits_for_no_response(connection: ClientConnection) -> None:
    connection.encode(ProduceRequest(acks=0))
    assert connection.in_flight == 0
    connection.encode(ProduceRequest(acks=1))
    assert connection.in_flight == 1


def test_correlation_ids_wrap_around_to_0(connection: ClientConnection) -> None:
    connection._next_id = 2**31 - 1
    assert connection.encode(MetadataRequest())[0].correlation_id == 2**31 - 1
    assert connection.encode(MetadataRequest())[0].correlation_id == 0


def test_zeroes_after_a_response_pass_and_other_bytes_do_not(connection: ClientConnection) -> None:
    good, _ = connection.encode(MetadataRequest())
    connection.decode(frame(MetadataResponse(), good.version, good.correlation_id) + b"\0")
    bad, _ = connection.encode(MetadataRequest())
    with pytest.raises(RemoteProtocolError, match="2 bytes after the message"):
        connection.decode(frame(MetadataResponse(), bad.version, bad.correlation_id) + b"\0\1")


@pytest.mark.parametrize("cut", range(20))
def test_every_cut_of_a_response_is_refused(cut: int, connection: ClientConnection) -> None:
    sent, _ = connection.encode(MetadataRequest())
    whole = frame(MetadataResponse(cluster_id="abcdefgh"), sent.version, sent.correlation_id)
    with pytest.raises(RemoteProtocolError):
        connection.decode(whole[:cut])


def test_an_api_that_old_brokers_lack_is_named() -> None:
    with pytest.raises(UnsupportedApiVersion, match=r"CreatePartitions.*no such API"):
        connected(KAFKA_0_11).encode(CreatePartitionsRequest())


def test_levels_of_features_are_those_of_the_last_response(connection: ClientConnection) -> None:
    assert connection.versions.level_of("transaction.version") == 0
    for level in (1, 2):
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)
        connection.update_versions(dataclasses.replace(offer(KAFKA_4_3), finalized_features=(feature,)))
        assert connection.versions.level_of("transaction.version") == level
    assert connection.versions.choose(FetchRequest) == 18
    assert connection.versions.level_of("metadata.version") == 0
