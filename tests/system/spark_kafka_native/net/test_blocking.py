import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection, SocketOptions
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost, RequestTimeout, UnsupportedApiVersion
from spark_kafka_native._protocol.errors import LocalProtocolError
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.security import Guard
from tests.support.scripted.steps import Drop, HalfFrame, Pass, Raw, Silent, Slow, Step, WrongCorrelation
from tests.support.waiting import eventually

OPTIONS = SocketOptions(client_id="test", connect_timeout_ms=60_000, request_timeout_ms=60_000)


cluster = scripted_brokers(topics={"t": 1})


def address_of(cluster: ScriptedCluster) -> HostPort:
    return HostPort("127.0.0.1", cluster.brokers[1].port)


def connect(cluster: ScriptedCluster, options: SocketOptions = OPTIONS) -> Connection:
    return Connection.open(address_of(cluster), options)


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[HostPort]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.recv(1024)
                serve(connection)
                connection.recv(1024)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield HostPort("127.0.0.1", listener.getsockname()[1])
        thread.join(60)


def test_a_request_gets_its_response(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        response = connection.call(MetadataRequest(topics=None))
    assert response.cluster_id == "scripted"
    assert connection.closed
    assert connection.fileno() == -1


@pytest.mark.parametrize("kip_511", [True, False])
def test_brokers_from_0_11_on_are_understood(kip_511: bool) -> None:
    with ScriptedCluster(versions=KAFKA_0_11, kip_511=kip_511) as cluster, connect(cluster) as connection:
        assert connection.version_of(MetadataRequest) == 4
        assert connection.call(MetadataRequest(topics=None)).cluster_id == "scripted"


def test_many_requests_may_be_in_flight_and_get_responses_in_order(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        deadline = Deadline.after_ms(60_000)
        sent = [connection.send(InitProducerIdRequest(transactional_id=None), deadline=deadline) for _ in range(20)]
        assert connection.in_flight == 20
        responses = [connection.receive(deadline) for _ in range(20)]
    assert [sent for sent, _ in responses] == sent
    ids = [response.producer_id for _, response in responses]  # type: ignore[attr-defined]  # of any API
    assert ids == sorted(ids)


def test_call_needs_a_connection_without_requests_in_flight(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        connection.send(MetadataRequest(), deadline=Deadline.after_ms(60_000))
        with pytest.raises(LocalProtocolError, match="1 requests are in flight"):
            connection.call(MetadataRequest())


def test_large_records_are_sent_by_reference_and_read_as_one_frame(cluster: ScriptedCluster) -> None:
    dice = random.Random(1)
    batch = batch_of([dice.randbytes(100_000) for _ in range(80)])
    data = (PartitionProduceData(index=0, records=batch),)
    topic_id = cluster.state.topics["t"].topic_id
    produce = ProduceRequest(
        transactional_id=None, acks=1, topic_data=(TopicProduceData(topic_id=topic_id, partition_data=data),)
    )
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    fetch = FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=(part,)),))
    with connect(cluster) as connection:
        assert connection.call(produce).responses[0].partition_responses[0].error_code == 0
        records = connection.call(fetch).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert len(records) == len(batch) > 8_000_000
    assert records[61:] == bytes(batch)[61:]
    assert isinstance(records.obj, bytearray)


def test_writing_continues_while_the_broker_waits_for_the_client_to_read() -> None:
    """Both pipes full: a client that only wrote would wait for ever."""
    padding = [f"topic-{number}-{'x' * 8_000}" for number in range(30)]
    with ScriptedCluster(topics=dict.fromkeys(padding, 1)) as cluster:
        small = SocketOptions(client_id="test", receive_buffer_bytes=4096, send_buffer_bytes=4096)
        with connect(cluster, small) as connection:
            deadline = Deadline.after_ms(20_000)
            for _ in range(30):
                connection.send(MetadataRequest(topics=None), deadline=deadline)
                connection.enqueue(_large_metadata_request(padding))
            for _ in range(60):
                connection.receive(deadline)


def _large_metadata_request(names: list[str]) -> MetadataRequest:
    from spark_kafka_native._protocol.messages.metadata import MetadataRequestTopic

    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names))


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (Drop(), "the broker closed the connection; Metadata v13 has no response"),
        (HalfFrame(2), "2 bytes into a size"),
        (HalfFrame(10), "6 bytes into a frame of"),
        (WrongCorrelation(), "broke the protocol: response 8 came where the response to 1"),
        (Raw(b"\xff\xff\xff\xff"), "broke the protocol: a frame of -1 bytes"),
        (Raw(b"\0\0\0\0"), "broke the protocol: a frame of 0 bytes"),
        (Raw(b"\x7f\xff\xff\xff"), "broke the protocol: a frame of 2147483647 bytes"),
        (Raw(b"\0\0\0\2ab"), "broke the protocol: response of 2 bytes"),
        (Raw(b"\0\0\0\x08\0\0\0\1\0\xff\xff\xff"), "broke the protocol: MetadataResponse v13"),
    ],
    ids=str,
)
def test_a_broken_response_closes_the_connection_and_names_broker_and_api(
    cluster: ScriptedCluster, step: Step, complaint: str
) -> None:
    cluster.script(MetadataRequest, step)
    with connect(cluster) as connection:
        with pytest.raises(ConnectionLost) as caught:
            connection.call(MetadataRequest())
        assert connection.closed
    message = str(caught.value)
    assert message.startswith(f"127.0.0.1:{cluster.brokers[1].port}: ")
    assert complaint in message
    assert "Metadata v13" in message
    assert caught.value.retriable


def test_responses_that_came_before_the_end_are_returned(cluster: ScriptedCluster) -> None:
    cluster.script(MetadataRequest, Slow(50), HalfFrame(10))
    deadline = Deadline.after_ms(60_000)
    with connect(cluster) as connection:
        connection.send(MetadataRequest(), deadline=deadline)
        connection.send(MetadataRequest(), deadline=deadline)
        _, first = connection.receive(deadline)
        assert isinstance(first, MetadataResponse)
        with pytest.raises(ConnectionLost):
            connection.receive(deadline)


def test_a_silent_broker_is_a_request_timeout(cluster: ScriptedCluster) -> None:
    cluster.script(MetadataRequest, Silent())
    with connect(cluster) as connection, pytest.raises(RequestTimeout) as caught:
        connection.call(MetadataRequest(), timeout_ms=60)
    assert str(caught.value).endswith("no response to Metadata within 60 ms")
    assert str(cluster.brokers[1].port) in str(caught.value)
    assert caught.value.retriable
    assert connection.closed


def test_a_closed_connection_raises_connection_lost(cluster: ScriptedCluster) -> None:
    connection = connect(cluster)
    connection.close()
    connection.close()
    with pytest.raises(ConnectionLost, match="is closed"):
        connection.call(MetadataRequest())
    with pytest.raises(ConnectionLost, match="is closed"):
        connection.read_some()


def test_an_api_the_broker_lacks_leaves_the_connection_usable() -> None:
    with ScriptedCluster(versions={**KAFKA_4_3, 22: (9, 9)}) as cluster, connect(cluster) as connection:
        with pytest.raises(UnsupportedApiVersion, match=r"InitProducerId.*0-6.*9-9"):
            connection.call(InitProducerIdRequest(transactional_id=None))
        assert connection.call(MetadataRequest()).cluster_id == "scripted"


def test_no_listener() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = HostPort("127.0.0.1", unused.getsockname()[1])
        with pytest.raises(BrokerUnreachable) as caught:
            Connection.open(address, OPTIONS)
    assert str(caught.value) == f"no broker could be reached ({address}: connection refused)"
    assert caught.value.tried == {address: "connection refused"}


def test_an_unknown_host_name_is_named() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid:9092: the host name is unknown"):
        Connection.open(HostPort("no-such-host.invalid", 9092), OPTIONS)


def test_a_server_that_never_responds_to_api_versions() -> None:
    with (
        server(lambda _: None) as address,
        pytest.raises(BrokerUnreachable, match="no response to ApiVersions within 500 ms"),
    ):
        Connection.open(address, SocketOptions(connect_timeout_ms=500))


def test_a_server_that_sends_single_bytes_does_not_extend_the_deadline() -> None:
    def dribble(connection: socket.socket) -> None:
        for byte in itertools.chain(b"\0\1\0\0", itertools.repeat(0)):  # until the client has gone
            connection.sendall(bytes([byte]))
            time.sleep(0.02)  # bytes must come during the whole timeout of the client

    with server(dribble) as address, pytest.raises(BrokerUnreachable, match="no response to ApiVersions within 500 ms"):
        Connection.open(address, SocketOptions(connect_timeout_ms=500))


@contextmanager
def full_backlog() -> Iterator[HostPort]:
    """A listener that drops what would connect to it, as a firewall does: none is accepted, and its queue is full."""
    with socket.socket() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        yield HostPort(*listener.getsockname())


def name_of(monkeypatch: pytest.MonkeyPatch, *addresses: HostPort) -> HostPort:
    found = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", tuple(address)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    return HostPort("several.test", 9092)


@pytest.mark.parametrize("first", [full_backlog, lambda: server(lambda _: None)], ids=["drops packets", "is silent"])
def test_an_address_without_a_response_leaves_time_for_the_next(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, first: Callable[[], AbstractContextManager[HostPort]]
) -> None:
    with first() as silent:
        several = name_of(monkeypatch, silent, address_of(cluster))
        cluster.script(ApiVersionsRequest, Slow(50))
        with Connection.open(several, SocketOptions(connect_timeout_ms=5_000), Deadline.after_ms(60_000)) as connection:
            assert connection.call(MetadataRequest()).cluster_id == "scripted"


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "its response begins with 'HTTP'"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "like a TLS server; security.protocol is PLAINTEXT"),
        (b"\0\0\0\x05\0\0\0\0\0", "does not speak Kafka's protocol"),
        (b"\0\0\0\x08\0\0\0\x63\0\0\0\0", "does not speak Kafka's protocol (response 99 came where the response to 0"),
    ],
)
def test_a_server_that_does_not_speak_kafka(response: bytes, complaint: str) -> None:
    with server(lambda connection: connection.sendall(response)) as address:
        with pytest.raises(BrokerUnreachable) as caught:
            Connection.open(address, OPTIONS)
        assert complaint in str(caught.value)
        assert str(address) in str(caught.value)


def test_a_server_that_closes_the_connection_at_api_versions(cluster: ScriptedCluster) -> None:
    cluster.script(ApiVersionsRequest, Drop())
    with pytest.raises(BrokerUnreachable) as caught:
        connect(cluster)
    assert str(caught.value).endswith(
        "the broker closed the connection at ApiVersions: it is older than Kafka 0.10, which is not supported, or its "
        "listener needs TLS (security.protocol is PLAINTEXT))"
    )
    connect(cluster).close()


def test_a_server_that_resets_the_connection_at_api_versions() -> None:
    def reset(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionResetError  # the server closes the connection

    with (
        server(reset) as address,
        pytest.raises(BrokerUnreachable, match=r"needs TLS \(security\.protocol is PLAINTEXT\)"),
    ):
        Connection.open(address, OPTIONS)


def test_a_client_without_sasl_at_a_listener_with_sasl() -> None:
    with ScriptedCluster(guard=Guard(mechanisms=("PLAIN",), users={"a": "b"})) as cluster:
        connection = connect(cluster)
        with pytest.raises(ConnectionLost, match=r"the listener may need SASL \(security\.protocol is PLAINTEXT\)$"):
            connection.call(MetadataRequest(topics=None))


def test_a_connection_that_has_carried_requests_is_not_suspected_of_sasl(cluster: ScriptedCluster) -> None:
    cluster.script(MetadataRequest, Pass(), Drop())
    connection = connect(cluster)
    connection.call(MetadataRequest(topics=None))
    with pytest.raises(ConnectionLost) as caught:
        connection.call(MetadataRequest(topics=None))
    assert "SASL" not in str(caught.value)


def test_an_idle_connection_is_stale_once_the_broker_has_closed_it(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        assert not connection.is_stale()
        cluster.brokers[1].drop_connections()
        eventually(connection.is_stale, True)


def test_a_connection_with_a_response_outstanding_is_stale(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        connection.send(MetadataRequest(), deadline=Deadline.after_ms(60_000))
        assert connection.is_stale()


def test_a_forked_child_cannot_take_its_parents_bytes(cluster: ScriptedCluster) -> None:
    with connect(cluster) as connection:
        connection.process_id -= 1
        assert connection.is_stale()
        with pytest.raises(ConnectionLost, match="forked"):
            connection.call(MetadataRequest())


def test_written_pieces_arrive_whole_however_little_the_socket_takes(cluster: ScriptedCluster) -> None:
    names = [f"{number:03d}{'x' * 240}" for number in range(900)]
    with connect(cluster, SocketOptions(send_buffer_bytes=4096)) as connection:
        cluster.script(MetadataRequest, Slow(1_000))  # reads nothing meanwhile
        connection.send(MetadataRequest(), deadline=Deadline.after_ms(60_000))
        connection.enqueue(_large_metadata_request(names))
        assert not connection.write_some(), "the socket took all at once"
        eventually(connection.write_some, True)
        connection.receive(Deadline.after_ms(60_000))
        _, response = connection.receive(Deadline.after_ms(60_000))
    assert isinstance(response, MetadataResponse)
    assert [topic.name for topic in response.topics] == names


def test_self_connection_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting to a free port of the ephemeral range can connect a socket to itself."""
    monkeypatch.setattr(socket.socket, "connect", lambda self, target: None)
    monkeypatch.setattr(socket.socket, "getpeername", lambda self: self.getsockname())
    with pytest.raises(BrokerUnreachable, match="connection refused"):
        Connection.open(HostPort("127.0.0.1", 45678), OPTIONS)


def test_features_are_requested_again() -> None:
    with ScriptedCluster(transaction_version=1) as brokers, connect(brokers) as connection:
        assert connection.feature_level("transaction.version") == 1
        brokers.state.transactions.level = 2
        assert connection.feature_level("transaction.version") == 1
        connection.renew_versions()
        assert connection.feature_level("transaction.version") == 2
        assert connection.feature_level("kraft.version") == 0
