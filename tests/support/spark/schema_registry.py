"""A schema registry in this process: the requests that decoding and encoding make, over HTTP on a free port."""

import base64
import json
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote


@dataclass
class _Registered:
    """One schema under its id."""

    schema_id: int
    guid: str
    body: dict[str, Any]


@dataclass
class StubRegistry:
    """Schemas by id, GUID and subject; a context manager. ``requests`` has the requested paths."""

    user_info: str = ""
    """``user:password`` that requests must bring; empty: none."""
    failing_with: int = 0
    """The HTTP status of every response; 0: it works."""
    frozen_subjects: frozenset[str] = frozenset()
    """Subjects with which no schema is compatible."""
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_id: dict[int, _Registered] = {}
        self._subjects: dict[str, list[int]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(
        self, subject: str, schema: object, *, kind: str = "AVRO", references: Sequence[tuple[str, int]] = ()
    ) -> int:
        """Register a schema; its id, which is the old one if it is there already."""
        names = [{"name": name, "subject": name, "version": version} for name, version in references]
        return self._add(subject, {"schema": json.dumps(schema), "schemaType": kind, "references": names}).schema_id

    def guid(self, schema_id: int) -> uuid.UUID:
        return uuid.UUID(self._by_id[schema_id].guid)

    def asked(self, part: str) -> int:
        """How many requests had ``part`` in their path."""
        return sum(part in path for path in self.requests)

    def _add(self, subject: str, body: dict[str, Any]) -> _Registered:
        for known in self._by_id.values():
            if known.body == body:
                found = known
                break
        else:
            schema_id = 100 + len(self._by_id)
            found = _Registered(schema_id, str(uuid.uuid5(uuid.NAMESPACE_URL, str(schema_id))), body)
            self._by_id[schema_id] = found
        versions = self._subjects.setdefault(subject, [])
        if found.schema_id not in versions:
            versions.append(found.schema_id)
        return found

    def response(self, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Status and answer to one request."""
        if self.failing_with:
            return self.failing_with, {"error_code": self.failing_with, "message": "out of order"}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                known = self._by_id.get(int(number))
                return (200, known.body) if known else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["schemas", "guids", guid]:
                found = [known for known in self._by_id.values() if known.guid == guid]
                return (200, found[0].body) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions"] if body is not None:
                if subject in self.frozen_subjects:
                    return 409, {"error_code": 409, "message": "incompatible with an earlier schema"}
                given = {"schemaType": "AVRO", "references": []} | body
                added = self._add(subject, {name: given[name] for name in ("schema", "schemaType", "references")})
                return 200, {"id": added.schema_id}
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case _:
                return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject: str, version: str) -> tuple[int, dict[str, Any]]:
        ids = self._subjects.get(subject, [])
        if not ids:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(ids) if version == "latest" else int(version)
        known = self._by_id[ids[number - 1]]
        return 200, {"subject": subject, "version": number, "id": known.schema_id, "guid": known.guid, **known.body}


def _handler_of(registry: StubRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(None)

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, body: dict[str, Any] | None) -> None:
            path = unquote(self.path.partition("?")[0])
            registry.requests.append(path)
            expected = "Basic " + base64.b64encode(registry.user_info.encode()).decode()
            if registry.user_info and self.headers.get("Authorization") != expected:
                status, response = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, response = registry.response(path, body)
            text = json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's name
            pass

    return Handler
