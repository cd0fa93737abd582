import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import EmbeddedBroker, ManualClock
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker.quotas import entry
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

DELAY_MS = 150
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2";'
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "add.scram": "SCRAM-SHA-256=[name=alice,password=hunter2]",
    "connection.failed.authentication.delay.ms": DELAY_MS,
    "sasl.server.max.receive.size": 1000,
}
RIGHT, WRONG = b"\0alice\0hunter2", b"\0alice\0wrong"
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
METADATA = MetadataRequest(topics=())


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(running: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(running._server.addresses[1]) as connected:
        yield connected


def shake(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> ErrorCode:
    return ErrorCode.of(client.ask(SaslHandshakeRequest(mechanism=mechanism), version).error_code)


def authenticate(client: RawClient, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = client.ask(SaslAuthenticateRequest(auth_bytes=token), version)
    return response


def is_refusing(broker: EmbeddedBroker) -> None:
    """Wait until a refused login waits for its response."""
    eventually(lambda: broker._server.broker.delayed.count, IsInt(gt=0))


def bare(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain(client: RawClient, version: int) -> None:
    assert client.ask(VERSIONS, 3).error_code == ErrorCode.NONE
    assert shake(client) is ErrorCode.NONE
    response = authenticate(client, RIGHT, version)
    assert (response.error_code, bytes(response.auth_bytes)) == (ErrorCode.NONE, b"")
    assert client.ask(METADATA, 9).brokers


def test_scram_with_bare_tokens(client: RawClient) -> None:
    scram = Scram("SCRAM-SHA-256", "alice", Secret("hunter2"))
    assert shake(client, "SCRAM-SHA-256", version=0) is ErrorCode.NONE
    token: bytes | None = scram.first()
    while token is not None:
        client.send(bare(token))
        token = scram.reply(client.frame())
    assert scram.complete
    assert client.ask(METADATA, 9).brokers


def test_plain_with_bare_tokens_is_answered_by_nothing(client: RawClient) -> None:
    shake(client, version=0)
    client.send(bare(RIGHT))
    assert client.frame() == b""
    assert client.ask(METADATA, 9).brokers


def test_everything_at_once(client: RawClient) -> None:
    handshake, token = SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=RIGHT)
    requests: list[tuple[Any, int]] = [(VERSIONS, 3), (handshake, 1), (token, 2), (METADATA, 9)]
    client.send(b"".join(request_bytes(request, version, number) for number, (request, version) in enumerate(requests)))
    assert [struct.unpack_from(">i", client.frame())[0] for _ in requests] == [0, 1, 2, 3]


def test_a_wrong_password_is_answered_late_and_then_the_connection_ends() -> None:
    with (
        EmbeddedBroker(settings=SETTINGS, clock=ManualClock()) as broker,
        RawClient(broker._server.addresses[1]) as client,
    ):
        shake(client)
        client.send(request_bytes(SaslAuthenticateRequest(auth_bytes=WRONG), 2))
        is_refusing(broker)
        broker.advance(DELAY_MS - 1)
        is_refusing(broker)
        broker.advance(1)
        _, response = decode_response(SaslAuthenticateResponse, 2, client.frame())
        assert client.is_closed()
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"


def test_a_wrong_bare_token_is_not_answered(client: RawClient) -> None:
    shake(client, version=0)
    client.send(bare(WRONG))
    assert client.is_closed()


def test_a_mechanism_that_there_is_not(client: RawClient) -> None:
    response = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert client.is_closed()


def test_api_versions_may_be_sent_again_after_an_unknown_version(client: RawClient) -> None:
    raw = bytearray(request_bytes(VERSIONS, 3))
    raw[6:8] = struct.pack(">h", 99)
    client.send(bytes(raw))
    assert struct.unpack_from(">h", client.frame(), 4)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert client.ask(VERSIONS, 3).error_code == ErrorCode.NONE
    assert shake(client) is ErrorCode.NONE


@pytest.mark.parametrize(
    "data",
    [
        request_bytes(METADATA, 9),
        request_bytes(SaslAuthenticateRequest(auth_bytes=RIGHT), 2),
        request_bytes(VERSIONS, 3) * 2,
        bare(b"\x60\x82\x02\x3a"),
        bare(b"\xff" * 40),
        bare(b"\x00\x11\x00\x01\x00\x00\x00\x01\x00\x04test\x7f\xff"),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 1001) + b"x" * 100,
        struct.pack(">i", -1),
    ],
)
def test_other_requests_before_the_login_close_the_connection(client: RawClient, data: bytes) -> None:
    client.send(data)
    while not client.is_closed():
        pass  # the response to the first ApiVersions


@pytest.mark.parametrize("version", [0, 1])
def test_half_a_frame(running: EmbeddedBroker, client: RawClient, version: int) -> None:
    shake(client, version=version)
    client.send(bare(RIGHT)[:9])
    client.sock.shutdown(socket.SHUT_WR)
    assert client.is_closed()
    assert running.topics() == {}


def test_a_large_token_ends_the_connection_and_a_large_request_later_does_not(running: EmbeddedBroker) -> None:
    address = running._server.addresses[1]
    with RawClient(address) as client:
        shake(client)
        client.send(request_bytes(SaslAuthenticateRequest(auth_bytes=RIGHT + b"x" * 1000), 2))
        assert client.is_closed()
    with RawClient(address) as client:
        shake(client)
        authenticate(client, RIGHT)
        client.send(request_bytes(METADATA, 9, client_id="x" * 5000))
        assert client.frame()


def test_a_login_fails_where_a_fault_raises(running: EmbeddedBroker, client: RawClient) -> None:
    running.faults.fail("SaslAuthenticate", ErrorCode.UNKNOWN_SERVER_ERROR, times=1)
    shake(client)
    assert authenticate(client, RIGHT).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    client.send(request_bytes(METADATA, 9))
    assert client.is_closed()


def test_a_delayed_response_to_a_wrong_password_closes_the_connection(
    running: EmbeddedBroker, client: RawClient
) -> None:
    running.faults.delay("SaslAuthenticate", ms=20, times=1)
    shake(client)
    assert authenticate(client, WRONG).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed()


def test_a_broker_that_stops_does_not_wait_for_those_it_refuses() -> None:
    settings = {**SETTINGS, "connection.failed.authentication.delay.ms": 3_600_000}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker._server.addresses[1]) as client:
        shake(client)
        client.send(request_bytes(SaslAuthenticateRequest(auth_bytes=WRONG), 2))
        is_refusing(broker)
    # It has stopped, and not after an hour.


def test_sessions_end_by_the_brokers_clock() -> None:
    settings = {**SETTINGS, "connections.max.reauth.ms": 60_000}
    with EmbeddedBroker(settings=settings, clock=ManualClock()) as broker:
        with RawClient(broker._server.addresses[1]) as client:
            shake(client)
            assert authenticate(client, RIGHT).session_lifetime_ms == 60_000
            broker.advance(50_000)
            assert shake(client) is ErrorCode.NONE
            assert authenticate(client, RIGHT).session_lifetime_ms == 60_000
            broker.advance(59_000)
            assert client.ask(METADATA, 9).brokers
            broker.advance(2_000)
            client.send(request_bytes(METADATA, 9))
            assert client.is_closed()
        with RawClient(broker._server.addresses[1]) as client:
            shake(client)
            authenticate(client, RIGHT)
            broker.advance(1_000)
            shake(client)
            client.send(request_bytes(METADATA, 9))
            is_refusing(broker)
            broker.advance(1_000)
            assert client.is_closed()


def test_quotas_know_users(running: EmbeddedBroker, client: RawClient) -> None:
    shake(client)
    authenticate(client, RIGHT)
    with RawClient(running.bootstrap_servers) as anybody:
        wanted = entry({"user": "alice"}, request_percentage=1e-9)
        assert anybody.ask(AlterClientQuotasRequest(entries=(wanted,)), 1).entries[0].error_code == ErrorCode.NONE
        assert client.ask(METADATA, 9).throttle_time_ms > 0
        assert anybody.ask(METADATA, 9).throttle_time_ms == 0
