"""The routes of the status page."""

import functools
import json
from collections.abc import Callable, Container, Mapping
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from broker_embedded._broker import Broker
from broker_embedded._server.connection import Connection
from broker_embedded._server.dispatch import Peer
from broker_embedded._server.http import HttpRequest, HttpResponse
from broker_embedded._server.status.coordination import describe_group, list_groups, list_transactions
from broker_embedded._server.status.overview import describe_broker, describe_topic, list_connections, list_topics
from broker_embedded._server.status.query import Json, Query, StatusError
from broker_embedded._server.status.recent_warnings import RecentWarnings
from broker_embedded._server.status.record_reader import RecordReader
from broker_embedded._server.status.record_search import find_records
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

_CONTENT_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}
_STATIC: Final = {
    "/" if file.name == "index.html" else f"/{file.name}": (file, _CONTENT_TYPES[file.name.rpartition(".")[2]])
    for file in (files(__package__) / "static").iterdir()
}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_RECORDS: Final = "/api/records"
_STATUS_OF: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: HTTPStatus.CONFLICT,
    ErrorCode.OFFSET_OUT_OF_RANGE: HTTPStatus.CONFLICT,  # records were deleted while the request waited
}


class StatusPage:
    """Answers requests of the page. Belongs to the event loop."""

    def __init__(
        self,
        broker: Broker,
        shows: str,
        *,
        addresses: list[str],
        connections: Mapping[Connection, Peer],
        warnings: RecentWarnings,
        hosts: Container[str],
    ) -> None:
        """``shows``: none, status or records, from ``status.page``; ``hosts``: names of this machine."""
        self._broker = broker
        self._shows = shows
        self._addresses = addresses
        self._warnings = warnings
        self._hosts = hosts
        self._reader = RecordReader()
        self._routes: Mapping[str, Callable[[Query], Json]] = {
            "/api/broker": self._describe_broker,
            "/api/topics": functools.partial(list_topics, broker),
            "/api/topic": functools.partial(describe_topic, broker),
            "/api/groups": functools.partial(list_groups, broker),
            "/api/group": functools.partial(describe_group, broker),
            "/api/transactions": functools.partial(list_transactions, broker),
            "/api/connections": functools.partial(list_connections, broker, connections),
        }

    def kill(self) -> None:
        """End the process that reads records, and refuse requests for them."""
        self._reader.kill()

    async def close(self) -> None:
        """Wait for the end of all work, after ``kill``."""
        await self._broker.threads.on_disk(self._reader.join)

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """The response to a request for any path."""
        try:
            return await self._respond(request)
        except StatusError as error:
            return _json(error.status, {"problem": str(error)}, error.headers)
        except KafkaError as error:
            status = _STATUS_OF.get(ErrorCode.of(error.code), HTTPStatus.INTERNAL_SERVER_ERROR)
            return _json(status, {"problem": error.detail or str(error)})

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        if self._shows == "none":
            problem = "the status page is off on this address; the setting status.page can allow it"
            raise StatusError(HTTPStatus.FORBIDDEN, problem)
        try:
            path = request.path
        except ValueError as error:
            raise StatusError(HTTPStatus.BAD_REQUEST, str(error)) from None
        problem_of_origin = request.web_page_problem(self._hosts, links=path in _STATIC)
        if problem_of_origin is not None:
            raise StatusError(HTTPStatus.FORBIDDEN, problem_of_origin)
        if path in _STATIC:
            _check_method(request, "GET", "HEAD")
            return await self._file(*_STATIC[path])
        if path == _RECORDS:
            _check_method(request, "GET", "HEAD", "POST")
            return _response(HTTPStatus.OK, await self._records(_query(request), request.method))
        route = self._routes.get(path)
        if route is None:
            raise StatusError(HTTPStatus.NOT_FOUND, "there is no such page")
        _check_method(request, "GET", "HEAD")
        row = route(_query(request))
        return await self._broker.threads.on_disk(functools.partial(_json, HTTPStatus.OK, row))

    async def _file(self, file: Traversable, content_type: str) -> HttpResponse:
        body = await self._broker.threads.on_disk(file.read_bytes)
        return HttpResponse(content_type=content_type, body=body, headers=_HEADERS)

    async def _records(self, query: Query, method: str) -> bytes:
        if self._shows != "records":
            raise StatusError(HTTPStatus.FORBIDDEN, "records are not shown; the setting status.page can allow it")
        if query.has("avro_schema") and method != "POST":  # which pages of other sites cannot send
            raise StatusError(HTTPStatus.BAD_REQUEST, "avro_schema: send the fields as JSON in the body of a POST")
        return await find_records(self._broker, self._reader, query)

    def _describe_broker(self, query: Query) -> Json:
        query.finish()
        described = describe_broker(self._broker, self._addresses, self._warnings)
        return described | {"shows_records": self._shows == "records"}


def _check_method(request: HttpRequest, *allowed: str) -> None:
    if request.method not in allowed:
        names = ", ".join(allowed)
        problem = f"{request.method} is not one of the methods {names}"
        raise StatusError(HTTPStatus.METHOD_NOT_ALLOWED, problem, {"Allow": names})


def _query(request: HttpRequest) -> Query:
    try:
        return Query(request.fields())
    except ValueError as error:
        raise StatusError(HTTPStatus.BAD_REQUEST, str(error)) from None


def _json(status: int, body: Json, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return _response(status, json.dumps(body, ensure_ascii=False).encode(errors="replace") + b"\n", headers)


def _response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(
        status=status,
        content_type="application/json; charset=utf-8",
        body=body,
        headers={**_HEADERS, **(headers or {})},
    )
