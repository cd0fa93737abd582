import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._server.listener import ListenError
from broker_embedded._server.metrics_port import MetricsPort
from broker_embedded.testing import EmbeddedBroker
from tests.support.waiting import eventually

SETTINGS = {"metrics.listener": "127.0.0.1:0"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def url(broker: EmbeddedBroker) -> str:
    found = broker._server.metrics_url
    assert found is not None
    return found


def ask(url: str, request: bytes) -> bytes:
    """The whole response to some bytes."""
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(request)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
        return received


def test_metrics_can_be_read_repeatedly(url: str) -> None:
    for _ in range(3):
        with urllib.request.urlopen(url, timeout=60) as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = response.read().decode()
        assert "kafka_server_replicamanager_partitioncount 1\n" in text


def test_the_head_alone(url: str) -> None:
    head, _, body = ask(url, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: " in head
    assert body == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400 Bad Request"),  # HTTP/1.1 requires Host
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403 Forbidden"),
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics SMTP\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, b"431 Request Header Fields Too Large"),
    ],
)
def test_other_http_requests_are_refused(url: str, request_: bytes, status: bytes) -> None:
    assert ask(url, request_).startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert ask(url, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_request_may_come_byte_by_byte(url: str) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        for byte in b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n":
            sock.sendall(bytes([byte]))
        assert sock.recv(12) == b"HTTP/1.1 200"


def test_a_17th_connection_is_refused_until_another_closes(broker: EmbeddedBroker, url: str) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=60) for _ in range(16)]
    metrics = broker._server._metrics_port
    assert metrics is not None
    eventually(lambda: len(metrics._tasks), 16)
    with socket.create_connection((host, int(port)), timeout=60) as one_more:
        assert one_more.recv(1) == b""
    silent.pop().close()
    eventually(lambda: len(metrics._tasks), 15)
    assert ask(url, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    for sock in silent:
        sock.close()


def test_a_stop_does_not_wait_for_readers(broker: EmbeddedBroker, url: str) -> None:
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as silent:
        broker.restart()
        assert silent.recv(1) == b""
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=60)


def test_there_is_no_metrics_port_by_default(tmp_path: Path) -> None:
    assert MetricsPort.from_config(BrokerConfig.parse({})) is None
    with EmbeddedBroker(tmp_path) as broker:
        assert broker._server.metrics_url is None


def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}"):
            EmbeddedBroker(tmp_path, settings={"metrics.listener": f"127.0.0.1:{port}"}).start()


def test_a_broker_that_has_stopped_receives_no_warnings(tmp_path: Path) -> None:
    logger = logging.getLogger("broker_embedded")
    before = list(logger.handlers)
    with EmbeddedBroker(tmp_path, settings=SETTINGS):
        assert len(logger.handlers) == len(before) + 1
    assert logger.handlers == before
