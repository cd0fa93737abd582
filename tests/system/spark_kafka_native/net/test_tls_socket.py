import contextlib
import pickle
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from dirty_equals import IsOneOf

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection, SocketOptions
from spark_kafka_native._net.channel_security import ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, ConnectionLost
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._net.tls import Tls, TlsSettings
from spark_kafka_native._net.tls_socket import TlsSocket
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.certificates import HOSTS, Authority, Identity, server_context
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.security import Guard
from tests.support.scripted.steps import Drop
from tests.support.waiting import eventually

AUTHORITY = Authority()
SERVER = AUTHORITY.issue("broker", HOSTS)
CLIENT = AUTHORITY.issue("client")


def options(**given: Any) -> SocketOptions:
    tls = Tls(TlsSettings(**{"trusted": AUTHORITY.certificate_pem, **given}))
    return SocketOptions(client_id="test", connect_timeout_ms=60_000, security=ChannelSecurity(tls=tls))


@contextmanager
def cluster(directory: Path, identity: Identity = SERVER, **server: Any) -> Iterator[ScriptedCluster]:
    guard = Guard(tls=server_context(identity, directory, **server))
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        yield running


def connect(running: ScriptedCluster, host: str = "127.0.0.1", **given: Any) -> Connection:
    return Connection.open(HostPort(host, running.brokers[1].port), options(**given))


def refusal(running: ScriptedCluster, **given: Any) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught, connect(running, **given) as connection:
        connection.call(MetadataRequest(topics=None))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert not caught.value.retriable
    return caught.value


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("host", HOSTS)
def test_requests_get_responses(tmp_path: Path, version: str, host: str) -> None:
    with cluster(tmp_path) as running, connect(running, host, enabled_protocols=(version,)) as connection:
        for _ in range(3):
            assert connection.call(MetadataRequest(topics=None)).cluster_id == "scripted"
        assert not connection.is_stale()


def test_megabytes_go_both_ways_with_many_requests_in_flight(tmp_path: Path) -> None:
    dice = random.Random(1)
    batch = batch_of([dice.randbytes(100_000) for _ in range(30)])
    with cluster(tmp_path) as running, connect(running) as connection:
        topic_id = running.state.topics["t"].topic_id
        data = (PartitionProduceData(index=0, records=batch),)
        topics = (TopicProduceData(topic_id=topic_id, partition_data=data),)
        deadline = Deadline.after_ms(60_000)
        for _ in range(4):
            connection.send(ProduceRequest(transactional_id=None, acks=1, topic_data=topics), deadline=deadline)
            connection.send(MetadataRequest(topics=None), deadline=deadline)
        for _ in range(8):
            connection.receive(deadline)
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        fetch = FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=(part,)),))
        records = connection.call(fetch).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records[61:] == bytes(batch)[61:]


def test_session_tickets_do_not_make_an_idle_connection_stale(tmp_path: Path) -> None:
    """A server of TLS 1.3 sends them when it likes; here: after the handshake, before the first read."""
    with cluster(tmp_path) as running, connect(running) as connection:
        assert not connection.is_stale()
        running.brokers[1].drop_connections()
        eventually(connection.is_stale, True)


def test_the_end_of_a_connection_is_connection_lost(tmp_path: Path) -> None:
    with cluster(tmp_path) as running, connect(running) as connection:
        running.script(MetadataRequest, Drop())
        with pytest.raises(ConnectionLost, match="closed the connection"):
            connection.call(MetadataRequest())


def test_an_authority_that_is_not_trusted(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        error = refusal(running, trusted=Authority("other").certificate_pem)
    assert error.option == "ssl.truststore.location"
    assert "not signed by an authority in the trust store: " in str(error)


def test_the_systems_authorities_do_not_know_ours(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        assert "no trust store is given" in str(refusal(running, trusted=None))


@pytest.mark.feature("security.tlsHostname")
def test_a_certificate_for_another_host(tmp_path: Path) -> None:
    with cluster(tmp_path, AUTHORITY.issue("broker", ("elsewhere.test",))) as running:
        error = refusal(running)
        assert error.option == "ssl.endpoint.identification.algorithm"
        assert "is not for 127.0.0.1" in str(error)
        with connect(running, check_host_name=False) as connection:
            assert connection.call(MetadataRequest(topics=None)).brokers


def test_a_certificate_that_has_ended(tmp_path: Path) -> None:
    with cluster(tmp_path, AUTHORITY.issue("broker", HOSTS, days=-1)) as running:
        assert "expired" in str(refusal(running))


@pytest.mark.feature("security.tlsClient")
@pytest.mark.parametrize("newest", ["TLSv1_2", "TLSv1_3"])
def test_a_broker_that_wants_certificates(tmp_path: Path, newest: str) -> None:
    with cluster(tmp_path, client_authority=AUTHORITY, newest=newest) as running:
        error = refusal(running)
        assert error.option == "ssl.keystore.location"
        stranger = Authority("other").issue("client")
        error = refusal(running, certificate_chain=stranger.chain_pem, private_key=Secret(stranger.key_pem))
        assert "does not accept this client's certificate" in str(error)
        with connect(running, certificate_chain=CLIENT.chain_pem, private_key=Secret(CLIENT.key_pem)) as connection:
            assert connection.call(MetadataRequest(topics=None)).brokers


def test_no_version_in_common(tmp_path: Path) -> None:
    with cluster(tmp_path, newest="TLSv1_2") as running:
        assert refusal(running, enabled_protocols=("TLSv1.3",)).option == "ssl.enabled.protocols"


def test_a_cipher_suite_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        error = refusal(running, cipher_suites=("TLS_CHACHA20_POLY1305_SHA256",))
        assert error.option == "ssl.cipher.suites"
        with connect(running, cipher_suites=("TLS_AES_256_GCM_SHA384",)) as connection:
            assert connection.call(MetadataRequest(topics=None)).brokers
    with cluster(tmp_path, newest="TLSv1_2") as running:
        assert refusal(running, cipher_suites=("TLS_RSA_WITH_AES_128_CBC_SHA",)).option == "ssl.cipher.suites"


@contextmanager
def listener(response: bytes | None) -> Iterator[HostPort]:
    """A server that answers once, or hangs up (empty), or says nothing (None)."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(4096)
                if response is None:
                    stop.wait(30)
                elif response:
                    connection.sendall(response)
                    connection.recv(4096)

        stop = threading.Event()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield HostPort("127.0.0.1", listening.getsockname()[1])
        stop.set()
        thread.join(60)


def test_a_listener_without_tls_hangs_up() -> None:
    with (
        listener(b"") as address,
        pytest.raises(BrokerUnreachable, match=r"listener without TLS; security\.protocol is SSL"),
    ):
        Connection.open(address, options())


def test_a_listener_that_speaks_something_else() -> None:
    response = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with listener(response) as address, pytest.raises(AuthenticationFailed, match="does not speak TLS") as caught:
        Connection.open(address, options())
    assert caught.value.option == "security.protocol"


CLOSE_NOTIFY = b"\x15\x03\x03\x00\x02\x01\x00"
USER_CANCELED = b"\x15\x03\x03\x00\x02\x01\x5a"


@pytest.mark.parametrize(
    "response", [CLOSE_NOTIFY, USER_CANCELED + CLOSE_NOTIFY], ids=["close_notify", "user_canceled"]
)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_shuts_down_in_the_handshake_may_be_tried_again(response: bytes, version: str) -> None:
    with listener(response) as address, pytest.raises(BrokerUnreachable, match="ended in the TLS handshake") as caught:
        Connection.open(address, options(enabled_protocols=(version,)))
    assert caught.value.retriable


@contextmanager
def closing_notified(directory: Path) -> Iterator[TlsSocket]:
    """The client's end of a TLS session that the server has ended with close_notify."""
    context = server_context(SERVER, directory)
    ours, theirs = socket.socketpair()
    tls = options().security.tls
    assert tls is not None

    def serve() -> None:
        with context.wrap_socket(theirs, server_side=True) as wrapped, contextlib.suppress(OSError):
            wrapped.settimeout(60)
            wrapped.recv(1)
            wrapped.unwrap()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stream = TlsSocket.shake_hands(ours, HostPort("127.0.0.1", 9), tls, Deadline.after_ms(60_000), setting="")
    try:
        stream.sendmsg([memoryview(b"x")])
        eventually(stream.is_quiet, False)
        yield stream
    finally:
        stream.close()
        thread.join(60)


def test_the_end_of_a_tls_session_is_read_as_an_end(tmp_path: Path) -> None:
    with closing_notified(tmp_path) as stream:
        assert stream.recv_into(memoryview(bytearray(8))) == 0


def test_writing_to_an_ended_tls_session_fails_as_on_a_broken_connection(tmp_path: Path) -> None:
    with closing_notified(tmp_path) as stream:

        def send() -> type[OSError] | None:
            try:
                stream.sendmsg([memoryview(b"x")])
            except OSError as error:
                return type(error)
            return None

        eventually(send, ~IsOneOf(None, BlockingIOError))


@pytest.mark.parametrize("error", [ssl.SSLZeroReturnError, ssl.SSLEOFError, ssl.SSLSyscallError])
def test_openssl_errors_at_the_end_are_no_authentication_failure(error: type[ssl.SSLError]) -> None:
    """Whichever of its calls OpenSSL reports the end with."""

    class Ended:
        def _fail(self, *_: object) -> int:
            raise error(1, "the end")

        recv = recv_into = send = _fail

    tls = options().security.tls
    assert tls is not None
    stream = TlsSocket(cast("Any", Ended()), HostPort("127.0.0.1", 9), tls)
    assert stream.recv_into(memoryview(bytearray(8))) == 0
    with pytest.raises(BrokenPipeError):
        stream.sendmsg([memoryview(b"x")])


def test_a_handshake_has_a_deadline() -> None:
    with listener(None) as address, pytest.raises(BrokerUnreachable, match="the TLS handshake did not complete"):
        Connection.open(address, options(), Deadline.after_ms(500))


def test_a_plain_connection_to_a_tls_listener_fails(tmp_path: Path) -> None:
    with cluster(tmp_path) as running, pytest.raises(BrokerUnreachable):
        Connection.open(HostPort("127.0.0.1", running.brokers[1].port), SocketOptions(connect_timeout_ms=60_000))


def test_openssl_errors_without_a_reason() -> None:
    from spark_kafka_native._net.tls_socket import explain

    tls = options().security.tls
    assert tls is not None
    assert explain(ssl.SSLError(1, "x"), HostPort("h", 1), tls) == (
        "security.protocol", "TLS failed (no reason given)",
    )  # fmt: skip
