import inspect

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._server.dispatch import Peer
from spark_kafka_native._protocol.errors import ErrorCode, RemoteProtocolError
from spark_kafka_native._protocol.framing import decode_response, request_frame
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.broker.driver import NODE, BrokerDriver, to_bytes


def raw_response(broker: BrokerDriver, frame: bytes) -> bytes | None:
    """The response to a request frame, both without their sizes."""
    found = broker.dispatcher.serve(Peer(node=NODE), memoryview(bytearray(frame)), RequestCost())
    chunks = broker.run(found) if inspect.isawaitable(found) else found
    return None if chunks is None else to_bytes(chunks)[4:]


def frame(api_key: int, version: int, rest: bytes = b"") -> bytes:
    return api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x07" + b"\xff\xff" + rest


@pytest.mark.parametrize("version", [5, 99, -1])
def test_a_version_of_api_versions_that_is_too_new_is_answered_in_v0(broker: BrokerDriver, version: int) -> None:
    raw = raw_response(broker, frame(18, version, b"\0whatever a later version may hold"))
    assert raw is not None
    correlation_id, response = decode_response(ApiVersionsResponse, 0, raw)
    assert correlation_id == 7
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(item.api_key, item.min_version, item.max_version) for item in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(
    ("api_key", "version", "said"),
    [
        (0, 2, "Produce v2, but versions 3-13 are served"),
        (1, 3, "Fetch v3, but versions 4-18 are served"),
        (3, 14, "Metadata v14, but versions 0-13 are served"),
        (3, -1, "Metadata v-1"),
        (22, 6, "InitProducerId v6, but versions 0-5 are served"),
        (78, 0, "unknown API key 78"),
        (999, 0, "unknown API key 999"),
    ],
)
def test_an_api_that_is_not_served_closes_the_connection(
    broker: BrokerDriver, api_key: int, version: int, said: str
) -> None:
    with pytest.raises(CloseConnection, match=said):
        raw_response(broker, frame(api_key, version, b"\0" * 20))


def test_a_request_cut_anywhere_is_bad_bytes(broker: BrokerDriver) -> None:
    whole = to_bytes(request_frame(MetadataRequest(topics=None), 12, 7, "test"))[4:]
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            raw_response(broker, whole[:length])


def test_bytes_after_a_request_are_ignored_as_by_apache_kafka(broker: BrokerDriver) -> None:
    # librdkafka 2.16 sends some after Metadata v13.
    whole = to_bytes(request_frame(MetadataRequest(topics=None), 13, 7, "test"))[4:]
    raw = raw_response(broker, whole + b"\x01\0\0")
    assert raw is not None
    assert decode_response(MetadataResponse, 13, raw)[1].error_code == 0


def test_a_client_without_a_name_is_served(broker: BrokerDriver) -> None:
    for client_id in (None, ""):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        raw = raw_response(broker, to_bytes(request_frame(request, 3, 7, client_id))[4:])
        assert raw is not None
        assert decode_response(ApiVersionsResponse, 3, raw)[1].error_code == 0
