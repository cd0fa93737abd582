import base64
import dataclasses
import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.security.token_server import TokenServer
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.secret import Secret

SECRET = "app-hunter2 &+"


class Server(http.server.ThreadingHTTPServer):
    responses: list[tuple[int, bytes]]
    asked: list[tuple[dict[str, str], dict[str, list[str]]]]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.asked.append((dict(self.headers), form))
        status, body = self.server.responses.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "/other")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.responses, running.asked = [], []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(60)


def source(server: Server) -> TokenServer:
    url = f"http://127.0.0.1:{server.server_address[1]}/token?tenant=x"
    return TokenServer(url=url, client_id="app", client_secret=Secret(SECRET))


def refusal(token_server: TokenServer) -> SaslError:
    pauses: list[float] = []
    with pytest.raises(SaslError) as caught:
        token_server.fetch(sleep=pauses.append)
    assert bool(pauses) == caught.value.retriable
    assert "hunter2" not in str(caught.value)
    assert "tenant" not in str(caught.value)
    assert caught.value.option == "sasl.oauthbearer.token.endpoint.url"
    assert caught.value.local, "the error names no broker"
    return caught.value


def test_client_credentials(server: Server) -> None:
    server.responses.append((200, json.dumps({"access_token": "opaque", "expires_in": 60}).encode()))
    token = dataclasses.replace(source(server), scope="kafka read").fetch()
    assert token.value == Secret("opaque")
    assert token.expires_at is not None
    assert 0 < token.expires_at - time.time() <= 60
    headers, form = server.asked[0]
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"app:{SECRET}"


def test_credentials_may_be_encoded_first(server: Server) -> None:
    server.responses.append((200, b'{"access_token": "opaque"}'))
    assert dataclasses.replace(source(server), urlencode=True).fetch().expires_at is None
    sent = base64.b64decode(server.asked[0][0]["Authorization"].removeprefix("Basic ")).decode()
    assert sent == "app:app-hunter2+%26%2B"


def test_a_request_to_a_busy_server_is_retried(server: Server) -> None:
    server.responses += [(503, b""), (429, b"busy"), (200, b'{"id_token": "t"}')]
    pauses: list[float] = []
    assert source(server).fetch(sleep=pauses.append).value == Secret("t")
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (401, b'{"error":"invalid_client","error_description":"no"}', "answers 401 (invalid_client: no)"),
        (400, json.dumps({"error": f"what is {SECRET}"}).encode(), "(what is (hidden))"),
        (404, b"<html>", "answers 404"),
        (302, b"", "answers 302"),
        (200, b"nonsense", "sends no access_token"),
        (200, b"{}", "sends no access_token"),
        (200, b"[]", "sends no access_token"),
    ],
)
def test_responses_without_a_token(server: Server, status: int, body: bytes, complaint: str) -> None:
    server.responses.append((status, body))
    error = refusal(source(server))
    assert complaint in str(error)
    assert not error.retriable
    assert len(server.asked) == 1


def test_a_server_that_stays_busy(server: Server) -> None:
    server.responses += [(503, b"")] * 100
    assert refusal(source(server)).retriable


def test_a_server_that_is_not_there(server: Server) -> None:
    gone = dataclasses.replace(source(server), url="http://127.0.0.1:1/token", read_timeout_ms=1_000)
    error = refusal(gone)
    assert error.retriable
    assert "http://127.0.0.1:1/token cannot be reached" in str(error)
