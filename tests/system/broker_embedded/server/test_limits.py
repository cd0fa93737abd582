import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import Contains, IsInt

from broker_embedded._platform.platform import ManualClock
from broker_embedded._server import server as server_module
from broker_embedded._server.server import BrokerServer
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.framing import decode_correlation_id
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalAlterConfig
from spark_kafka_native._protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.broker.quotas import alter
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

IDLE_MS = 600_000
HERE = {"ip": "127.0.0.1"}


@contextlib.contextmanager
def broker_with(directory: Path, **settings: Any) -> Iterator[EmbeddedBroker]:
    """A broker whose clock a test moves; ``max_connections=2`` is the setting ``max.connections=2``."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    with EmbeddedBroker(directory, topics={"t": 1}, settings=given, clock=ManualClock()) as running:
        yield running


def server_of(broker: EmbeddedBroker) -> BrokerServer:
    return broker._server


def is_served(client: RawClient) -> bool:
    return client.ask(ApiVersionsRequest(), 0).error_code == 0


def in_loop(broker: EmbeddedBroker, function: Callable[[], Any]) -> Any:
    """Call a function where the broker's state may be looked at."""

    async def call() -> Any:
        return function()

    return broker._call(call())


def test_connections_that_rest_are_closed_and_those_that_wait_are_not(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path) as broker,
        RawClient(broker.bootstrap_servers) as idle,
        RawClient(broker.bootstrap_servers) as waiting,
    ):
        assert is_served(idle)
        question = fetch_request("t", max_wait_ms=IDLE_MS * 3, min_bytes=1)
        waiting.send(request_bytes(question, 11))
        eventually(lambda: server_of(broker).broker.delayed.count, 1)
        broker.advance(ms=IDLE_MS - 2000)
        assert is_served(idle)
        broker.advance(ms=IDLE_MS + 2000)
        assert idle.is_closed()
        assert waiting.is_silent()
        broker.advance(ms=IDLE_MS)
        assert decode_correlation_id(waiting.frame()) == 1


def test_a_client_that_stops_half_way_through_a_request_is_closed(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.send(request_bytes(MetadataRequest(topics=None), 12)[:-1])
        eventually(lambda: len(server_of(broker)._connections), 1)
        broker.advance(ms=IDLE_MS + 2000)
        assert client.is_closed()


def test_a_connection_above_the_limit_waits_until_another_closes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, max_connections=2) as broker:
        first, second = (RawClient(broker.bootstrap_servers) for _ in range(2))
        assert is_served(first)
        assert is_served(second)
        with RawClient(broker.bootstrap_servers) as third:
            third.send(request_bytes(ApiVersionsRequest(), 0))
            eventually(lambda: caplog.text, Contains("open connections: 2 (max.connections): new connections wait"))
            assert is_served(second)
            assert third.is_silent()
            first.sock.close()
            assert decode_correlation_id(third.frame()) == 1
        second.sock.close()
        eventually(lambda: len(server_of(broker)._connections), 0)
        with RawClient(broker.bootstrap_servers) as fourth:
            assert is_served(fourth)


def test_a_waiting_connection_is_accepted_when_the_limit_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, max_connections=1) as broker, RawClient(broker.bootstrap_servers) as first:
        assert is_served(first)
        with RawClient(broker.bootstrap_servers) as second:
            second.send(request_bytes(ApiVersionsRequest(), 0))
            eventually(lambda: caplog.text, Contains("new connections wait"))
            config = IncrementalAlterConfig(name="max.connections", config_operation=0, value="2")
            resource = AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
            (response,) = first.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses
            assert response.error_code == 0, response
            broker.advance(ms=1000)
            assert decode_correlation_id(second.frame()) == 1


def test_a_full_broker_stops_all_the_same(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, max_connections=1) as broker,
        RawClient(broker.bootstrap_servers) as first,
        RawClient(broker.bootstrap_servers) as second,
    ):
        assert is_served(first)
        broker.stop()
        assert first.is_closed()
        assert second.is_closed()


def test_one_address_may_have_so_many_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with broker_with(tmp_path, max_connections_per_ip=2) as broker:
        with RawClient(broker.bootstrap_servers) as first, RawClient(broker.bootstrap_servers) as second:
            assert is_served(first)
            assert is_served(second)
            with RawClient(broker.bootstrap_servers) as third:
                assert third.is_closed()
            assert "its address has 2 connections (max.connections.per.ip)" in caplog.text
            assert server_of(broker).broker.metrics().connections.refused == {"max.connections.per.ip": 1}
        eventually(lambda: len(server_of(broker)._connections), 0)
        with RawClient(broker.bootstrap_servers) as fourth:
            assert is_served(fourth)


def test_connections_that_come_too_fast_wait(tmp_path: Path) -> None:
    with broker_with(tmp_path, max_connection_creation_rate=3, quota_window_num=2) as broker:
        clients = [RawClient(broker.bootstrap_servers) for _ in range(5)]
        for client in clients[:4]:
            assert is_served(client)
        clients[4].send(request_bytes(ApiVersionsRequest(), 0))
        assert is_served(clients[0])
        assert clients[4].is_silent()
        broker.advance(ms=1000)
        assert decode_correlation_id(clients[4].frame()) == 1
        for client in clients:
            client.sock.close()


def test_an_address_that_opens_connections_too_fast_is_refused_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        alter(client, HERE, connection_creation_rate=1.0)
        others = [RawClient(broker.bootstrap_servers) for _ in range(11)]
        eventually(
            lambda: caplog.text, Contains("its address may open no more a second (connection_creation_rate = 1)")
        )
        refused = others[-1]
        assert refused.is_silent()
        broker.advance(ms=1000)
        assert refused.is_closed()
        for other in others:
            other.sock.close()


def test_a_stop_does_not_wait_for_those_who_are_to_be_refused(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            alter(client, HERE, connection_creation_rate=1.0)
        others = [RawClient(broker.bootstrap_servers) for _ in range(12)]
        eventually(lambda: len(server_of(broker)._refused), IsInt(gt=0))
        broker.stop()
        assert all(other.is_closed() for other in others)
        for other in others:
            other.sock.close()


def test_a_client_above_its_quota_is_answered_and_then_muted(tmp_path: Path) -> None:
    with broker_with(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        alter(client, {"client-id": "raw"}, producer_byte_rate=100.0)
        wait_ms = client.ask(produce_request("t", batch(b"x" * 1400)), 9).throttle_time_ms
        assert wait_ms > 3000
        client.send(request_bytes(ApiVersionsRequest(), 0))
        with RawClient(broker.bootstrap_servers) as other:
            assert is_served(other)
        broker.advance(ms=wait_ms - 1)
        assert client.is_silent()
        broker.advance(ms=1)
        assert decode_correlation_id(client.frame()) == 1


def test_a_stop_does_not_wait_for_those_who_are_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_DRAIN_S", 600.0)  # what answers on their way are given
    with broker_with(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        alter(client, {"client-id": "raw"}, producer_byte_rate=1.0)
        assert client.ask(produce_request("t", batch(b"x" * 1400)), 9).throttle_time_ms > 0
        broker.stop()
        assert client.is_closed()


def test_a_budget_for_large_requests_is_kept(tmp_path: Path) -> None:
    settings = {"queued.max.request.bytes": 1_000_000, "message.max.bytes": 20_000_000}
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings=settings) as broker:
        clients = [RawClient(broker.bootstrap_servers) for _ in range(4)]
        large = request_bytes(produce_request("t", batch(b"x" * 1_500_000)), 9)
        for client in clients:
            client.send(large[:1000])
            client.sock.setblocking(False)
        left = dict.fromkeys(range(4), large[1000:])
        deadline = time.monotonic() + 60
        while left and time.monotonic() < deadline:
            for number, rest in list(left.items()):
                try:
                    sent = clients[number].sock.send(rest)
                except BlockingIOError:
                    continue
                left[number] = rest[sent:]
                if not left[number]:
                    del left[number]
        assert not left
        for client in clients:
            client.sock.settimeout(60)
            assert decode_correlation_id(client.frame()) == 1
            client.sock.close()


def test_a_request_that_hardly_arrives_gives_way_to_those_that_wait_for_its_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, queued_max_request_bytes=100_000) as broker:
        large = request_bytes(produce_request("t", batch(b"x" * 200_000)), 9)
        memory = server_of(broker)._shared.memory
        with RawClient(broker.bootstrap_servers) as slow, RawClient(broker.bootstrap_servers) as other:
            slow.send(large[:130_000])
            eventually(lambda: memory.used, IsInt(gt=200_000))
            for sent in range(20):
                slow.send(large[130_000 + sent : 130_001 + sent])
                broker.advance(ms=1_000)
            assert in_loop(broker, lambda: memory.used) > 200_000  # no other request waits for it
            other.sock.sendall(large[:50_000])
            eventually(lambda: memory.is_short, True)
            for sent in range(20, 40):
                with contextlib.suppress(OSError):  # closed before the last byte
                    slow.send(large[130_000 + sent : 130_001 + sent])
                broker.advance(ms=1_000)
            assert slow.is_closed()
            assert "its request arrives too slowly while other connections wait for memory" in caplog.text
            other.send(large[50_000:])
            assert decode_correlation_id(other.frame()) == 1


def test_a_request_that_waits_for_memory_itself_does_not_hold_its_own_for_longer_than_a_minute(tmp_path: Path) -> None:
    with broker_with(tmp_path, queued_max_request_bytes=100_000) as broker:
        large = request_bytes(produce_request("t", batch(b"x" * 3_000_000)), 9)
        memory = server_of(broker)._shared.memory
        with contextlib.ExitStack() as clients:
            oldest, waiting, other = (clients.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(3))
            oldest.send(large[:20_000])
            eventually(lambda: memory.used, 65536)
            waiting.send(large[:65536])
            eventually(lambda: memory.used, 131072)
            eventually(lambda: memory.is_short, True)
            other.sock.sendall(large[:16384])
            position = 20_000
            for _ in range(65):
                with contextlib.suppress(OSError):  # closed meanwhile
                    oldest.send(large[position : position + 40_000])
                position += 40_000
                broker.advance(ms=1_000)
            assert oldest.is_closed()
            assert waiting.is_closed()
            eventually(lambda: in_loop(broker, lambda: memory.used), IsInt(lt=100_000))


def test_connections_that_announce_large_requests_stop_no_other(tmp_path: Path) -> None:
    with broker_with(tmp_path, queued_max_request_bytes=1_000_000) as broker:
        large = request_bytes(produce_request("t", batch(b"x" * 200_000)), 9)
        with contextlib.ExitStack() as clients:
            for _ in range(50):
                client = clients.enter_context(RawClient(broker.bootstrap_servers))
                client.send((100_000_000).to_bytes(4, "big") + large[4:1000])
            other = clients.enter_context(RawClient(broker.bootstrap_servers))
            other.send(large)
            assert decode_correlation_id(other.frame()) == 1


def test_thousands_of_requests_ahead_are_answered_in_order_in_little_memory(tmp_path: Path) -> None:
    number = 5000
    with broker_with(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        stream = b"".join(request_bytes(ApiVersionsRequest(), 0, correlation_id) for correlation_id in range(number))
        client.sock.setblocking(False)
        position, received = 0, b""
        answered: list[int] = []
        largest = 0
        deadline = time.monotonic() + 60
        while len(answered) < number and time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                position += client.sock.send(stream[position : position + 65536]) if position < len(stream) else 0
            with contextlib.suppress(BlockingIOError):
                received += client.sock.recv(1 << 20)
            while len(received) >= 4 and len(received) - 4 >= (size := int.from_bytes(received[:4], "big")):
                answered.append(decode_correlation_id(received[4 : 4 + size]))
                received = received[4 + size :]
            for connection in list(server_of(broker)._connections):
                largest = max(largest, connection._receive_buffer.buffer_bytes)
        assert answered == list(range(number))
        assert largest <= 16 * 1024


def test_many_clients_that_never_read_hold_little_memory_and_do_not_delay_others(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings={"message.max.bytes": 5_000_000}) as broker:
        with RawClient(broker.bootstrap_servers) as writer:
            for _ in range(3):
                writer.ask(produce_request("t", batch(b"x" * 4_000_000)), 9)
        question = request_bytes(fetch_request("t", max_partition=50_000_000), 11)
        before = resident_bytes()
        silent = [RawClient(broker.bootstrap_servers) for _ in range(40)]
        for client in silent:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(question * 20)
        with RawClient(broker.bootstrap_servers) as other:
            for _ in range(10):
                assert is_served(other)
        assert resident_bytes() - before < 40 * 1_000_000  # of 40 * 20 * 12,000,000 that were requested
        for client in silent:
            client.sock.close()


def resident_bytes() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
