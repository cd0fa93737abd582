from typing import Any

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.connection import ClientConnection
from spark_kafka_native._net.response_cache import MIN_BYTES, ResponseCache
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.framing import response_frame
from spark_kafka_native._protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from spark_kafka_native._protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from spark_kafka_native._protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.broker.driver import to_bytes

MANY = MIN_BYTES // 8


class Broker:
    def __init__(self) -> None:
        self._remembered = ResponseCache(MetadataResponse)

    def connection(self, *, metadata_version: int = MetadataRequest.max_version) -> ClientConnection:
        last = {MetadataRequest.api_key: metadata_version, DescribeClusterRequest.api_key: 0}
        keys = tuple(ApiVersion(api_key=key, min_version=0, max_version=version) for key, version in last.items())
        connection = ClientConnection(HostPort("broker", 9092), "me", self._remembered)
        connection.api_versions_request()
        connection.api_versions_response(framed(ApiVersionsResponse(api_keys=keys), ApiVersionsRequest.max_version, 0))
        return connection


def framed(response: Response, version: int, correlation_id: int) -> bytes:
    return to_bytes(response_frame(response, version, correlation_id))[4:]


def answered(connection: ClientConnection, request: Request[Any], response: Response) -> Response:
    sent, _ = connection.encode(request)
    return connection.decode(framed(response, sent.version, sent.correlation_id))[1]


def metadata(partitions: int = MANY, epoch: int = 0) -> MetadataResponse:
    each = tuple(MetadataResponsePartition(partition_index=n, leader_epoch=epoch) for n in range(partitions))
    return MetadataResponse(topics=(MetadataResponseTopic(name="t", partitions=each),))


def test_the_same_bytes_are_the_same_message_on_whatever_connection() -> None:
    broker = Broker()
    connection = broker.connection()
    first = answered(connection, MetadataRequest(), metadata())
    assert first == metadata()
    assert answered(connection, MetadataRequest(), metadata()) is first
    assert answered(broker.connection(), MetadataRequest(), metadata()) is first


def test_other_bytes_are_another_message_which_is_remembered_instead() -> None:
    connection = Broker().connection()
    first = answered(connection, MetadataRequest(), metadata())
    moved = answered(connection, MetadataRequest(), metadata(epoch=1))
    assert (first, moved) == (metadata(), metadata(epoch=1))
    assert answered(connection, MetadataRequest(), metadata(epoch=1)) is moved
    assert answered(connection, MetadataRequest(), metadata()) is not first


def test_another_version_is_decoded_again() -> None:
    broker = Broker()
    first = answered(broker.connection(), MetadataRequest(), metadata())
    older = answered(broker.connection(metadata_version=8), MetadataRequest(), metadata())
    assert older == first
    assert older is not first


def test_small_responses_and_those_of_other_apis_are_not_cached() -> None:
    connection = Broker().connection()
    small = answered(connection, MetadataRequest(), metadata(1))
    assert answered(connection, MetadataRequest(), metadata(1)) is not small
    large = DescribeClusterResponse(error_message="x" * MIN_BYTES)
    first = answered(connection, DescribeClusterRequest(), large)
    assert first == large
    assert answered(connection, DescribeClusterRequest(), large) is not first


def test_what_cannot_be_decoded_is_not_remembered() -> None:
    connection = Broker().connection()
    first = answered(connection, MetadataRequest(), metadata())
    sent, _ = connection.encode(MetadataRequest())
    broken = framed(metadata(), sent.version, sent.correlation_id)[:-100]
    with pytest.raises(RemoteProtocolError):
        connection.decode(broken)
    assert answered(Broker().connection(), MetadataRequest(), metadata()) == first
