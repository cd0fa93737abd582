import asyncio
import http.client
import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.clocks import ShiftedClock
from broker_embedded._testing.control.address import ControlAddress
from broker_embedded._testing.control.command import ControlOptions, controlled_broker
from broker_embedded.testing import EmbeddedBroker
from tests.support.requests.raw_client import RawClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("data"), control=True) as made:
        yield made


@pytest.fixture
def http_client(broker: EmbeddedBroker) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(broker.control_url.removeprefix("http://"), timeout=60)
    yield connection
    connection.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes | None) else json.dumps(body)
    connection.request(method, path, raw, headers)
    response = connection.getresponse()
    assert response.getheader("content-type") == "application/json"
    return response.status, json.loads(response.read())


def raw_response(broker: EmbeddedBroker, request: bytes) -> bytes:
    """What the port sends for some bytes until it closes the connection."""
    host, _, port = broker.control_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
    return received


def test_commands_follow_each_other_on_one_connection(http_client: http.client.HTTPConnection) -> None:
    status, body = ask(http_client, "GET", "/")
    assert (status, body["running"]) == (200, True)
    assert ask(http_client, "POST", "/topics", {"name": "a b"})[0] == 400
    status, made = ask(http_client, "POST", "/topics", {"name": "t", "partitions": 2})
    assert (status, made["partitions"]) == (200, 2)
    assert ask(http_client, "GET", "/requests?api=Fetch&after=0") == (200, {"requests": [], "counts": {}})
    assert ask(http_client, "GET", "/requests?after=soon")[1]["field"] == "after"
    assert ask(http_client, "DELETE", "/topics/t?") == (200, {})
    assert ask(http_client, "DELETE", "/topics/%74")[1]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_errors_are_json_too(http_client: http.client.HTTPConnection) -> None:
    assert ask(http_client, "GET", "/nothing")[0] == 404
    assert ask(http_client, "PATCH", "/faults")[0] == 405
    problem = "the body is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    assert ask(http_client, "POST", "/faults", b"{") == (400, {"problem": problem})
    assert ask(http_client, "POST", "/faults", [1]) == (400, {"problem": "the body is JSON, but not an object"})
    assert ask(http_client, "POST", "/faults", b"\xff\xfe")[0] == 400
    assert ask(http_client, "POST", "/faults", b"[" * 100_000)[0] == 400
    assert ask(http_client, "GET", "//[")[0] == 400
    status, body = ask(http_client, "POST", "/clock/advance", {"ms": "soon"})
    assert (status, body) == (400, {"field": "ms", "problem": "'soon' is not a whole number"})


def test_web_pages_are_kept_out(http_client: http.client.HTTPConnection) -> None:
    assert ask(http_client, "POST", "/kill", Origin="http://evil.example") == (
        403,
        {"problem": "web pages of other sites may not use this port"},
    )
    status, body = ask(http_client, "GET", "/", Host="evil.example:80")
    assert (status, "'evil.example'" in body["problem"]) == (403, True)
    for host in ("localhost", "LOCALHOST:1", "[::1]:5", "[::1]", "127.0.0.1", "192.0.2.7:80"):
        assert ask(http_client, "GET", "/", Host=host)[0] == 200


def test_expect_100_continue_is_answered(broker: EmbeddedBroker) -> None:
    said = raw_response(
        broker,
        b"POST /clock/advance HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 8\r\n"
        b"Connection: close\r\n\r\n" + b'{"ms":0}',
    )
    assert b"HTTP/1.1 200 " in said


def test_a_large_body_is_refused(broker: EmbeddedBroker) -> None:
    said = raw_response(
        broker, b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n" + b" " * 1_048_577
    )
    assert said.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00\x00\x00\x10garbage", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 100_000, b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"403"),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", b"200"),
        (b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
    ],
)
def test_a_malformed_request_is_answered_and_the_connection_closed(
    broker: EmbeddedBroker, request_: bytes, status: bytes
) -> None:
    assert raw_response(broker, request_).split(b" ", 2)[1] == status


@pytest.mark.parametrize(
    "request_", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_client_that_disconnects_amid_a_request_does_not_disturb_others(
    broker: EmbeddedBroker, request_: bytes
) -> None:
    raw_response(broker, request_)
    assert broker.now_ms() > 0
    assert raw_response(broker, b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_stop_of_the_broker_leaves_no_connection_open(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, control=True) as broker:
        host, _, port = broker.control_url.removeprefix("http://").rpartition(":")
        idle = socket.create_connection((host, int(port)), timeout=60)
        raw_response(broker, b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")  # the connection before it is accepted, too
    with idle:
        assert idle.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=60)


def test_options_of_the_control_port() -> None:
    options = ControlOptions.parse("127.0.0.1:0", clock="manual:5")
    assert options.address == ControlAddress(host="127.0.0.1", port=0)
    assert options.clock.now_ms() == 5
    assert isinstance(ControlOptions.parse("127.0.0.1:0").clock, ShiftedClock)
    with pytest.raises(SettingError, match="--control-listener"):
        ControlOptions.parse("0.0.0.0:0")
    assert ControlOptions.parse("0.0.0.0:0", allow_remote=True).address.host == "0.0.0.0"


async def test_the_lines_say_where_broker_and_port_are(tmp_path: Path) -> None:

    def look(first: str, second: str, port: str) -> None:
        for line in (first, second):
            RawClient(line.removeprefix("listening on ")).sock.close()
        with urllib.request.urlopen(port.removeprefix("controlled at "), timeout=60) as response:
            assert json.loads(response.read())["bootstrap_servers"] == first.removeprefix("listening on ")

    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    }
    async with controlled_broker(settings, str(tmp_path), ControlOptions.parse("127.0.0.1:0")) as lines:
        first, second, port = lines
        await asyncio.to_thread(look, first, second, port)
