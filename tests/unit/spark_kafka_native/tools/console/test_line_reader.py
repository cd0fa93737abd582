from typing import Any

import pytest

from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._tools.console.line_reader import READER_PROPERTIES, LineReader


def reader(**reading: str) -> LineReader:
    return LineReader(READER_PROPERTIES | {name.replace("_", "."): value for name, value in reading.items()})


def rows(*lines: bytes, **reading: str) -> list[tuple[Any, ...]]:
    records, problem = reader(**reading).records(lines)
    assert problem is None, problem
    return [tuple(row.values()) for row in records.to_pylist()]


def headers(line: bytes, **reading: str) -> list[tuple[str, bytes | None]]:
    (row,) = rows(line, parse_headers="true", headers_delimiter="|", **reading)
    return [(header["key"], header["value"]) for header in row[2]]


def test_a_line_is_a_value() -> None:
    assert rows(b"a\tb", b"") == [(None, b"a\tb"), (None, b"")]


def test_a_line_may_have_a_key() -> None:
    assert rows(b"a\tb\tc", parse_key="true") == [(b"a", b"b\tc")]
    assert rows(b"a:b", parse_key="TRUE", key_separator=":") == [(b"a", b"b")]
    assert rows(b"a\tb", parse_key="true", key_separator="\\t") == [(b"a", b"b")]


def test_line_without_a_key_is_a_value_if_errors_are_ignored() -> None:
    assert rows(b"ab", parse_key="true", ignore_error="true") == [(None, b"ab")]


def test_null_marker_is_null() -> None:
    assert rows(b"k\tNULL", parse_key="true", null_marker="NULL") == [(b"k", None)]
    assert rows(b"NULL\tv", parse_key="true", null_marker="NULL") == [(None, b"v")]


def test_headers_precede_key_and_value() -> None:
    records, problem = reader(parse_headers="true", parse_key="true").records([b"a:1,b:2:3\tk\tv\tw"])
    assert problem is None
    assert records.to_pylist() == [
        {"key": b"k", "value": b"v\tw", "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2:3"}]}
    ]


def test_headers_with_other_separators() -> None:
    given = {"headers_separator": ";;", "headers_key_separator": "->"}
    assert headers(b"a->1;;b->|v", **given) == [("a", b"1"), ("b", b"")]


def test_null_marker_is_a_header_value_or_no_headers() -> None:
    assert headers(b"a:NULL,b:2|v", null_marker="NULL") == [("a", None), ("b", b"2")]
    assert headers(b"NULL|v", null_marker="NULL") == []


def test_errors_of_headers_are_ignored_as_by_kafka() -> None:
    assert headers(b"v", ignore_error="true") == []
    assert headers(b"a,b:2|v", ignore_error="true") == [("a", None), ("b", b"2")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"v", "no headers.delimiter '|' in 'v'"),
        (b"a|v", "no headers.key.separator ':' in 'a|v'"),
        (b"|v", "no headers.key.separator ':' in '|v'"),
        (b"a:1,|v", "no headers.key.separator ':' in 'a:1,|v'"),
        (b"NULL:1|v", "the key of a header is the null.marker in 'NULL:1|v'"),
        (b"\xff:1|v", "the key of a header is not UTF-8 in '\ufffd:1|v'"),
    ],
)
def test_records_before_an_invalid_line_are_returned_with_its_error(line: bytes, problem: str) -> None:
    with_headers = reader(parse_headers="true", headers_delimiter="|", null_marker="NULL")
    records, found = with_headers.records([b"a:1|first", line, b"a:1|third"])
    assert (records["value"].to_pylist(), found) == ([b"first"], problem)


@pytest.mark.parametrize(
    ("reading", "problem"),
    [
        ({"parse_key": "true", "key_separator": ""}, "key.separator must not be empty"),
        ({"parse_headers": "true", "headers_separator": ""}, "headers.separator must not be empty"),
        (
            {"parse_headers": "true", "headers_delimiter": ","},
            "headers.delimiter and headers.separator must not be equal",
        ),
        (
            {"parse_headers": "true", "headers_separator": ":"},
            "headers.separator and headers.key.separator must not be equal",
        ),
        ({"parse_headers": "true", "null_marker": ":"}, "headers.key.separator and null.marker must not be equal"),
        ({"parse_key": "true", "null_marker": "\t"}, "key.separator and null.marker must not be equal"),
    ],
)
def test_separators_that_cannot_be_distinguished_are_refused(reading: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"--property: {problem}"):
        reader(**reading)


def test_the_longest_line_includes_what_its_record_does_not_have() -> None:
    assert reader().longest_line_bytes(100) == 101
    assert reader(null_marker="NULL", key_separator="::").longest_line_bytes(100) == 110
    assert reader(parse_headers="true").longest_line_bytes(100) == 202
