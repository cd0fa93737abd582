import logging
import random
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsInt

from broker_embedded._handlers.support.registry import registered_apis
from broker_embedded._server.server import _as_java_writes
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_correlation_id, decode_response
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.fetch import FetchResponse
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.schema import Request
from tests.support.broker.driver import batch, fetch_request, produce_request, run_periodic, values_in
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

SETTINGS = {"offsets.topic.num.partitions": 2, "message.max.bytes": 20_000_000}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 2}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


def assert_alive(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as other:
        assert other.ask(MetadataRequest(topics=None), 12).brokers


def test_records_of_all_sizes_come_back_by_sendfile(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("sizes", configs={"segment.bytes": "4000000"})
    rng = random.Random(1)
    values = [rng.randbytes(size) for size in (0, 1, 100, 511, 16_000, 17_000, 100_000, 3_000_000, 3_500_000, 5)]
    for value in values:
        response = client.ask(produce_request("sizes", batch(value)), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
    received: list[bytes] = []
    while len(received) < len(values):
        fetched = client.ask(fetch_request("sizes", len(received), max_partition=50_000_000), 11)
        received += values_in(fetched.responses[0].partitions[0])
    assert received == values


def test_a_slow_reader_gets_everything_and_others_do_not_wait_for_it(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("slow")
    for _ in range(5):
        client.ask(produce_request("slow", batch(b"z" * 2_000_000)), 9)
    with RawClient(broker.bootstrap_servers) as slow:
        question = fetch_request("slow", max_partition=50_000_000)
        slow.send(request_bytes(question, 11) * 3)
        select.select([slow.sock], [], [], 60)  # the first response is on its way
        assert_alive(broker)
        for _ in range(3):
            frame = slow.frame()
            assert len(frame) > 10_000_000
            _, response = decode_response(FetchResponse, 11, frame)
            assert len(values_in(response.responses[0].partitions[0])) == 5


def test_responses_have_the_order_of_their_requests(client: RawClient) -> None:
    requests: list[tuple[Request[Any], int]] = []
    for number in range(100):
        requests += [
            (fetch_request("t", 0, 1, max_wait_ms=1, min_bytes=1 << 20), 11),
            (produce_request("t", batch(b"%d" % number), 1), 9),
            (ListOffsetsRequest(replica_id=-1), 6),
            (ApiVersionsRequest(), 0),
        ]
    client.send(b"".join(request_bytes(request, version, number) for number, (request, version) in enumerate(requests)))
    assert [decode_correlation_id(client.frame()) for _ in requests] == list(range(len(requests)))


def test_a_long_poll_is_answered_by_the_append_of_another(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("poll")
    client.send(request_bytes(fetch_request("poll", max_wait_ms=600_000, min_bytes=1), 11))
    eventually(lambda: broker._server.broker.delayed.count, IsInt(gt=0))
    with RawClient(broker.bootstrap_servers) as other:
        other.ask(produce_request("poll", batch(b"now")), 9)
    _, response = decode_response(FetchResponse, 11, client.frame())
    assert values_in(response.responses[0].partitions[0]) == [b"now"]


@pytest.mark.parametrize("removed", [False, True], ids=["before file.delete.delay.ms", "after it"])
def test_a_topic_deleted_while_it_is_sent_arrives_until_its_files_are_removed(
    broker: EmbeddedBroker, client: RawClient, removed: bool
) -> None:
    name = f"doomed-{removed}"
    broker.create_topic(name, configs={"file.delete.delay.ms": "0" if removed else "60000"})
    for _ in range(5):
        client.ask(produce_request(name, batch(b"d" * 2_000_000)), 9)
    question = fetch_request(name, max_partition=50_000_000)
    client.send(request_bytes(question, 11))
    size = struct.unpack(">i", client.receive(4))[0]
    with RawClient(broker.bootstrap_servers) as other:
        assert other.ask(DeleteTopicsRequest(topic_names=(name,)), 5).responses[0].error_code == 0
    broker._call(run_periodic(broker._server.broker, "removal of deleted files"))
    assert bool(list(broker.log_directory.glob(f"{name}*"))) is not removed
    if removed:
        with pytest.raises(ConnectionError):
            client.receive(size)
    else:
        _, response = decode_response(FetchResponse, 11, client.receive(size))
        assert len(values_in(response.responses[0].partitions[0])) == 5


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">i", -5) + b"x" * 50, "request of -5 bytes"),
        (struct.pack(">i", 2**31 - 1), "request of 2147483647 bytes"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "request of 1195725856 bytes"),
        (struct.pack(">i", 3) + b"abc", "bad request: request header is cut short"),
        (struct.pack(">i", 40) + b"\xff" * 40, "unknown API key -1"),
        (struct.pack(">ihhih", 15, 3, 12, 1, 0) + b"\0" + b"\xff" * 4, "bad request: MetadataRequest v12"),
        (struct.pack(">i", 10) + struct.pack(">hhih", 0, 2, 1, -1), "Produce v2"),
    ],
)
def test_a_malformed_request_closes_its_connection_only(
    broker: EmbeddedBroker, client: RawClient, caplog: pytest.LogCaptureFixture, data: bytes, said: str
) -> None:
    with caplog.at_level(logging.INFO, logger="broker_embedded"):
        client.send(data)
        assert client.is_closed()
    ours = "{}:{}".format(*client.sock.getsockname())
    assert any(ours in line and said in line for line in caplog.messages), caplog.messages
    assert_alive(broker)


def test_a_client_that_disconnects_within_a_frame(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    whole = request_bytes(produce_request("t", batch(b"never" * 100)), 9)
    with RawClient(broker.bootstrap_servers) as client:
        before = client.ask(fetch_request("t", 0), 11).responses[0].partitions[0].high_watermark
    with caplog.at_level(logging.INFO, logger="broker_embedded"):
        for length in (1, 4, 10, len(whole) - 1):
            with RawClient(broker.bootstrap_servers) as client:
                client.send(whole[:length])
                client.sock.shutdown(socket.SHUT_WR)
                assert client.is_closed()
    assert sum("bytes into a request" in line for line in caplog.messages) == 4
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(fetch_request("t", 0), 11).responses[0].partitions[0].high_watermark == before


def test_random_bytes_never_hurt_the_broker(broker: EmbeddedBroker) -> None:
    rng = random.Random(3)
    for _ in range(100):
        with RawClient(broker.bootstrap_servers) as client:
            body = rng.randbytes(rng.randrange(60))
            if rng.random() < 0.7:  # a header that is right, with a body that is not
                key = rng.choice(sorted(registered_apis()))
                served = registered_apis()[key].served
                version = rng.randint(served.first, served.last)
                body = struct.pack(">hhih", key, version, 1, -1) + body
            client.send(struct.pack(">i", len(body)) + body)
            client.sock.shutdown(socket.SHUT_WR)
            while client.sock.recv(65536):
                pass
    assert_alive(broker)


def test_acks_0_with_an_error_closes_the_connection(broker: EmbeddedBroker, client: RawClient) -> None:
    client.send(request_bytes(produce_request("t", batch(b"quiet"), acks=0), 9))
    assert client.ask(ApiVersionsRequest(), 0).error_code == 0
    client.send(request_bytes(produce_request("missing", batch(b"x"), acks=0), 9))
    assert client.is_closed()
    assert_alive(broker)


def test_a_client_that_is_too_new_gets_the_versions(client: RawClient) -> None:
    client.send(struct.pack(">ihhih", 14, 18, 9, 5, -1) + b"\0\x02a\x02")
    correlation_id, response = decode_response(ApiVersionsResponse, 0, client.frame())
    assert (correlation_id, response.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
    (own,) = response.api_keys
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    assert client.ask(request, own.max_version).error_code == 0


def test_metadata_has_the_address_of_the_listener(tmp_path: Path) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "OUTSIDE://broker.example.org:19092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with EmbeddedBroker(tmp_path, settings=settings) as broker:
        inside, outside = broker._server.addresses
        assert broker.bootstrap_servers == inside
        found = []
        for address in (inside, outside):
            with RawClient(address) as client:
                (node,) = client.ask(MetadataRequest(topics=None), 12).brokers
                found.append(f"{node.host}:{node.port}")
        assert found == [inside, "broker.example.org:19092"]


@pytest.mark.parametrize("advertised", ["", "PLAINTEXT://broker.example.org:19092"])
def test_metadata_names_the_rack(tmp_path: Path, advertised: str) -> None:
    settings = {"broker.rack": "east", "advertised.listeners": advertised}
    with EmbeddedBroker(tmp_path, settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        (node,) = client.ask(MetadataRequest(topics=None), 12).brokers
    assert node.rack == "east"


@pytest.mark.parametrize(
    ("ip", "text"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::a:0", "/2001:db8:0:0:0:0:a:0"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1"),
        ("somewhere", "/somewhere"),
    ],
)
def test_group_members_are_described_as_java_writes_addresses(ip: str, text: str) -> None:
    assert _as_java_writes(ip) == text
