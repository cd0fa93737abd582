"""Fields of requests, and rows of responses within bounds."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias

_DEFAULT_ROWS: Final = 100
MAX_ROWS: Final = 500
_MAX_PARTITIONS: Final = 10_000
"""Partitions after which a response ends before its limit of rows. Each takes some microseconds of the event loop."""

Json: TypeAlias = dict[str, Any]
"""An object of JSON: a response."""
Row: TypeAlias = dict[str, Any]
"""A row of a response."""


class StatusError(Exception):
    """A request that cannot be answered: the status of the response, the problem in it, and further headers."""

    def __init__(self, status: HTTPStatus, problem: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem)
        self.status = status
        self.headers = headers or {}


class Query:
    """The fields of one request, as text or as values of JSON. Methods raise StatusError naming the field."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        """A field's text. Without a default the field is required."""
        value = self._value(name)
        if value is None:
            value = default
        if value is None:
            raise _bad(f"{name}: the field is required")
        if not isinstance(value, str):
            raise _bad(f"{name}: {_short(value)} is not text")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _bad(f"{name}: {_short(value)} has a surrogate, which is no character")
        return value

    def number(self, name: str, default: int | None, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int | None:
        """A field's number."""
        value = self._value(name)
        if value is None or value == "":
            return default
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not at_least <= number <= at_most:
            raise _bad(f"{name}: {_short(value)} is not a number from {at_least} to {at_most}")
        return number

    def number_or(self, name: str, default: int, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
        """A field's number, which has a default."""
        number = self.number(name, default, at_least=at_least, at_most=at_most)
        assert number is not None
        return number

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """A field's value, which is one of ``choices``; the first is the default."""
        value = self.text(name, choices[0])
        if value not in choices:
            raise _bad(f"{name}: {_short(value)} is not one of {', '.join(choices)}")
        return value

    def has(self, name: str) -> bool:
        """Whether a field is set."""
        return self._value(name) is not None

    def limit(self, default: int = _DEFAULT_ROWS, at_most: int = MAX_ROWS) -> int:
        """The field ``limit``: the most rows of the response."""
        return self.number_or("limit", default, at_least=1, at_most=at_most)

    def finish(self) -> None:
        """Refuse fields that were not read."""
        unknown = sorted(set(self._fields) - self._read)
        if unknown:
            known = ", ".join(sorted(self._read)) or "none"
            raise _bad(f"{_short(unknown[0])}: there is no such field; the fields are {known}")

    def _value(self, name: str) -> Any:
        self._read.add(name)
        return self._fields.get(name)


def page_of(names: Iterable[str], query: Query, row_of: Callable[[str], tuple[Row, int]]) -> Json:
    """A page of rows by name: names greater than ``after`` that contain ``contains``.

    ``next`` is the value of ``after`` for the next page, None after the last one. ``row_of`` returns a row and the
    partitions that it read.
    """
    after, contains = query.text("after", ""), query.text("contains", "").lower()
    limit = query.limit()
    query.finish()
    chosen = heapq.nsmallest(limit + 1, (name for name in names if name > after and contains in name.lower()))
    rows: list[Row] = []
    partitions = 0
    for name in chosen[:limit]:
        if partitions >= _MAX_PARTITIONS:
            break
        row, read = row_of(name)
        rows.append(row)
        partitions += read
    return {"rows": rows, "next": chosen[len(rows) - 1] if rows and len(rows) < len(chosen) else None}


def not_found(problem: str) -> StatusError:
    """The error for a topic, partition or group that does not exist."""
    return StatusError(HTTPStatus.NOT_FOUND, problem)


def _bad(problem: str) -> StatusError:
    return StatusError(HTTPStatus.BAD_REQUEST, problem)


def _short(value: object) -> str:
    text = type(value).__name__ if isinstance(value, list | dict) else repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
