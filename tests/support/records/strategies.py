"""Hypothesis strategies for records: nulls, empty and big byte strings, repeated headers, all of Unicode."""

import itertools

from hypothesis import strategies as st

from spark_kafka_native._records.record import LogRecord
from tests.support.records.reference import Header, Record, numbered

_names = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["trace-id", "a", "", "ключ", "🔑"])


def byte_strings(max_size: int = 150) -> st.SearchStrategy[bytes]:
    """Any bytes; often zeroes or a record's own first bytes, which mislead who guesses."""
    repeated = st.builds(
        lambda piece, count: (piece * count)[:max_size],
        st.sampled_from([b"\x00", b"\x0c\x00\x00\x00\x01\x01\x00", b"\xff", b"{}", b"\xc8\x01\x00"]),
        st.integers(0, max_size),
    )
    return st.binary(max_size=max_size) | repeated


def headers() -> st.SearchStrategy[tuple[Header, ...]]:
    """None, one, or several headers, names repeated and values null."""
    one = st.tuples(_names, st.none() | byte_strings(40))
    return st.just(()) | st.lists(one, max_size=4).map(tuple)


def timestamps() -> st.SearchStrategy[int]:
    """Milliseconds: mostly close to each other, now and then none at all or as far off as can be."""
    near = st.integers(1_700_000_000_000, 1_700_000_100_000)
    return near | st.sampled_from([-1, 0]) | st.integers(-(2**63), 2**63 - 1)


def records(max_size: int = 9_000) -> st.SearchStrategy[Record]:
    """One record, at offset 0; its value may be long enough for a length of three bytes."""
    big = st.integers(min(max_size, 8_180), max_size).map(lambda size: b"v" * size)
    return st.builds(
        Record,
        key=st.none() | byte_strings(40),
        value=st.none() | byte_strings() | big,
        headers=headers(),
        timestamp=timestamps(),
    )


def record_lists(*, min_size: int = 0, max_size: int = 30) -> st.SearchStrategy[tuple[Record, ...]]:
    """Records at offsets 0, 1, 2 ...; now and then one record many times, as equal lengths take a path of their own."""
    different = st.lists(records(), min_size=min_size, max_size=max_size)
    alike = st.builds(lambda record, count: [record] * count, records(150), st.integers(max(min_size, 1), 200))
    return (different | alike).map(numbered)


def log_records(
    values: st.SearchStrategy[bytes], headers: st.SearchStrategy[bytes], max_size: int
) -> st.SearchStrategy[list[LogRecord]]:
    """One record or several, whose offsets are the distances between them; see `ascending`."""
    record = st.builds(
        LogRecord,
        offset=st.integers(1, 5),
        timestamp=st.just(-1) | st.integers(0, 2**62),
        key=st.none() | byte_strings(40),
        value=st.none() | values,
        headers=headers,
    )
    return st.lists(record, min_size=1, max_size=max_size)


def ascending(found: list[LogRecord], first: int = 99) -> list[LogRecord]:
    """The records with their own offsets, after ``first``."""
    offsets = itertools.accumulate((record.offset for record in found), initial=first)
    return [
        record._replace(offset=offset) for record, offset in zip(found, itertools.islice(offsets, 1, None), strict=True)
    ]
