"""Records from lines of text, as Kafka's LineMessageReader: ``[headers delimiter] [key separator] value``."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._command_line.output import InvalidOption

READER_PROPERTIES: Final = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": "",
}
"""Properties of ``--property``, with their defaults. An empty null.marker stands for none."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_LEAST_HEADER_BYTES: Final = 2
"""Of a header in a record: the lengths of its key and its value."""

Header = tuple[str, bytes | None]
_Row = tuple[bytes | None, bytes | None, list[Header]]


class LineReader:
    """The records of lines, by the properties of READER_PROPERTIES."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises InvalidOption: two separators are equal, or one is empty."""
        given = {name: text.replace("\\t", "\t") for name, text in properties.items()}
        self._parses_key, self._parses_headers, self._ignores_errors = (
            given[name].lower() == "true" for name in ("parse.key", "parse.headers", "ignore.error")
        )
        _check_separators(given, parses_key=self._parses_key, parses_headers=self._parses_headers)
        self._key_separator, self._delimiter, self._separator, self._header_separator = (
            given[name].encode()
            for name in ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
        )
        self._null = given["null.marker"].encode() or None

    def longest_line_bytes(self, record_bytes: int) -> int:
        """The bytes of the longest line whose record takes ``record_bytes``, or more."""
        marker = len(self._null or b"")
        longest = record_bytes + len(self._key_separator) + 2 * marker
        if self._parses_headers:
            of_header = len(self._separator) + len(self._header_separator) + marker
            longest += len(self._delimiter) + record_bytes // _LEAST_HEADER_BYTES * of_header
        return longest

    def records(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch, str | None]:
        """Columns key, value and, if parsed, headers of the lines before the first invalid one; its error."""
        rows: list[_Row] = []
        problem = None
        for line in lines:
            try:
                rows.append(self._row(line))
            except ValueError as error:
                problem = f"{error} in {line.decode(errors='replace')!r:.200}"
                break
        columns: dict[str, pa.Array[Any]] = {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
        }
        if self._parses_headers:
            pairs = [[{"key": key, "value": value} for key, value in row[2]] for row in rows]
            columns["headers"] = pa.array(pairs, _HEADERS)
        return pa.RecordBatch.from_pydict(columns), problem

    def _row(self, line: bytes) -> _Row:
        """Raises ValueError."""
        headers, rest = self._parted(line, self._delimiter, "headers.delimiter", self._parses_headers)
        key, value = self._parted(rest, self._key_separator, "key.separator", self._parses_key)
        found = [] if headers in {None, self._null} else self._headers(headers or b"")
        return self._or_null(key), self._or_null(value), found

    def _parted(self, text: bytes, separator: bytes, name: str, is_parsed: bool) -> tuple[bytes | None, bytes]:
        """The bytes before and after a separator. Raises ValueError: it is missing."""
        if not is_parsed:
            return None, text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignores_errors:
            return None, text
        raise ValueError(f"no {name} {separator.decode()!r}")

    def _headers(self, text: bytes) -> list[Header]:
        """Raises ValueError."""
        headers: list[Header] = []
        for pair in text.split(self._separator):
            key, found, value = pair.partition(self._header_separator)
            if not found and not self._ignores_errors:
                raise ValueError(f"no headers.key.separator {self._header_separator.decode()!r}")
            if key == self._null:
                raise ValueError("the key of a header is the null.marker")
            try:
                headers.append((key.decode(), self._or_null(value) if found else None))
            except UnicodeDecodeError:
                raise ValueError("the key of a header is not UTF-8") from None
        return headers

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text == self._null else text


def _check_separators(given: Mapping[str, str], *, parses_key: bool, parses_headers: bool) -> None:
    of_headers = ("headers.delimiter", "headers.separator", "headers.key.separator")
    used = [*(("key.separator",) if parses_key else ()), *(of_headers if parses_headers else ())]
    for name in used:
        if not given[name]:
            raise InvalidOption(f"--property: {name} must not be empty")
    # The delimiter may be the separator of keys: it comes first.
    for name, other in [
        *combinations(of_headers if parses_headers else (), 2),
        *((each, "null.marker") for each in used),
    ]:
        if given[name] == given[other]:
            raise InvalidOption(f"--property: {name} and {other} must not be equal")
