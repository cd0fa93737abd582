import json
import pickle
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.partitioning.bucket_table import (
    DEFAULT_BUCKETS,
    MAX_BUCKETS,
    BucketTable,
    parse_json,
    tables_by_topic,
)
from spark_kafka_native._client.partitioning.key_hashes import murmur2
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError

SIZES = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 500)).map(
    lambda drawn: (drawn[0], drawn[1], sum(drawn))
)
"""Partitions, added partitions, buckets."""


def is_even(table: BucketTable) -> bool:
    counts = table.bucket_counts()
    return len(counts) == table.partition_count and int(counts.max() - counts.min()) <= 1


@given(SIZES)
def test_buckets_move_to_new_partitions_only_and_evenly(sizes: tuple[int, int, int]) -> None:
    partitions, added, buckets = sizes
    before = BucketTable.create("t", partitions, buckets)
    after = before.reorganize(partitions + added)
    assert is_even(before)
    assert is_even(after)
    moved = before.buckets != after.buckets
    assert (after.buckets[moved] >= partitions).all()
    assert (after.version, after.partition_count) == (2, partitions + added)
    assert after.previous is before.buckets
    moves = after.moves()
    for old, count in enumerate(before.bucket_counts().tolist()):
        share = count * added / (partitions + added)
        to_new = moves.get(old, {})
        assert (old, abs(sum(to_new.values()) - share) < 1) == (old, True)
        if len(to_new) == added:
            assert max(to_new.values()) - min(to_new.values()) <= 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(40, 300))
def test_reorganizations_one_after_the_other_stay_even(steps: list[int], buckets: int) -> None:
    table = BucketTable.create("t", 1, buckets)
    for added in steps:
        before, table = table, table.reorganize(table.partition_count + added)
        assert is_even(table)
        assert (table.buckets[table.buckets != before.buckets] >= before.partition_count).all()
    assert table.version == len(steps) + 1


@pytest.mark.parametrize(
    ("partitions", "added", "buckets", "moves"),
    [
        (4, 2, 3840, {old: {4: 160, 5: 160} for old in range(4)}),
        (1, 1, 3840, {0: {1: 1920}}),
        (3, 1, 10, {0: {3: 1}, 2: {3: 1}}),
        (2, 3, 5, {0: {2: 1, 3: 1}, 1: {4: 1}}),
    ],
)
def test_which_buckets_move(partitions: int, added: int, buckets: int, moves: dict[int, dict[int, int]]) -> None:
    table = BucketTable.create("t", partitions, buckets)
    assert table.moves() == {}
    changed = table.reorganize(partitions + added)
    assert changed.moves() == moves
    assert changed.same_as(BucketTable.create("t", partitions, buckets).reorganize(partitions + added))


def test_the_same_number_of_partitions_changes_nothing() -> None:
    table = BucketTable.create("t", 4)
    assert table.reorganize(4) is table
    assert len(table.buckets) == DEFAULT_BUCKETS


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (3, "its table has 4 partitions, and cannot be reorganized to 3: Kafka does not remove partitions"),
        (6, "6 partitions for 5 buckets; each partition needs a bucket"),
    ],
)
def test_reorganizations_that_are_refused(partitions: int, message: str) -> None:
    with pytest.raises(LookupTableError, match=f"topic t: {re.escape(message)}"):
        BucketTable.create("t", 4, 5).reorganize(partitions)


@pytest.mark.parametrize("buckets", [0, MAX_BUCKETS + 1])
def test_numbers_of_buckets_that_are_refused(buckets: int) -> None:
    with pytest.raises(LookupTableError, match=f"topic t: a table has 1 to 65536 buckets, not {buckets}"):
        BucketTable.create("t", 1, buckets)


def test_a_key_has_the_bucket_of_its_hash() -> None:
    keys = [b"", b"a", b"order-1", b"\xff" * 9]
    table = BucketTable.create("t", 7, 100).reorganize(9)
    expected = [table.buckets[(murmur2(key) & 0x7FFFFFFF) % 100] for key in keys]
    assert table.partitions_of(pa.array(keys, pa.large_binary())).tolist() == expected


def test_keys_move_to_partitions_that_were_added_later() -> None:
    table = BucketTable.create("t", 2).reorganize(3).reorganize(5)
    legal = {(old, new) for old in range(5) for new in range(5) if table.may_move(old, new)}
    assert legal == {(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4)}


# --- JSON


def through_json(table: BucketTable) -> BucketTable:
    return BucketTable.from_json(parse_json(json.dumps(table.to_json()), "topic t"), "topic t")


@given(SIZES)
def test_json_has_all_of_a_table(sizes: tuple[int, int, int]) -> None:
    partitions, added, buckets = sizes
    for table in (first := BucketTable.create("t", partitions, buckets), first.reorganize(partitions + added)):
        assert through_json(table).same_as(table)
        assert pickle.loads(pickle.dumps(table)).same_as(table)


GOOD: dict[str, Any] = {
    "format": 1,
    "topic": "t",
    "version": 2,
    "partitions": [2, 3],
    "buckets": [0, 1, 0, 2],
    "previousBuckets": [0, 1, 0, 1],
}


def test_the_form_of_json() -> None:
    assert BucketTable.create("t", 2, 4).reorganize(3).to_json() == GOOD


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 2}, "is not of format 1: '2'"),
        ({"format": True}, "is not of format 1: 'True'"),
        ({"more": 1}, "has missing or unknown fields: more"),
        ({"topic": "a b"}, "has no valid topic name: 'a b'"),
        ({"topic": 5}, "has no valid topic name: '5'"),
        ({"version": 1}, "has version 1, and numbers of partitions of 2 versions"),
        ({"version": True}, "has version True"),
        ({"partitions": []}, "has numbers of partitions that do not increase"),
        ({"partitions": [3, 3]}, "has numbers of partitions that do not increase"),
        ({"partitions": [0, 3]}, "has partitions that are not a list of integers from 1 to 65536"),
        ({"partitions": 3}, "has partitions that are not a list of integers"),
        ({"buckets": [0, 1, 3, 1]}, "has buckets that are not a list of integers from 0 to 2"),
        ({"buckets": [0, 1, True, 1]}, "has buckets that are not a list of integers from 0 to 2"),
        ({"buckets": [0, 1, 1.0, 1]}, "has buckets that are not a list of integers from 0 to 2"),
        ({"buckets": []}, "has 0 buckets; a table has 1 to 65536"),
        ({"previousBuckets": [0, 1, 2, 1]}, "has previousBuckets that are not a list of integers from 0 to 1"),
        ({"previousBuckets": [0]}, "has 4 buckets, and had 1 in the version before"),
        ({"previousBuckets": None}, "has previousBuckets that are not a list"),
        ({"version": 1, "partitions": [3]}, "has previous buckets in version 1"),
    ],
)
def test_a_malformed_table_is_one_error_that_names_its_source(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(LookupTableError, match=re.escape(f"the look-up table in file:/x, topic t {problem}")):
        tables_by_topic({"t": GOOD | change}, "file:/x")


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 70_000), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*GOOD]), VALUES, max_size=3))
def test_any_json_is_a_table_or_an_error_of_tables(change: dict[str, Any]) -> None:
    try:
        table = BucketTable.from_json(GOOD | change, "topic:x")
    except LookupTableError:
        return
    assert json.dumps(table.to_json()) == json.dumps(GOOD | change)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        (b"\xff", "is not JSON"),
        ('{"format": 1, "format": 1}', "is not JSON: the name 'format' is there twice"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not of format 1: '[]'"),
        ("null", "is not of format 1: 'None'"),
        ('{"format": 1}', "has missing or unknown fields: buckets, partitions, previousBuckets, topic, version"),
    ],
)
def test_json_that_is_no_table(text: str | bytes, problem: str) -> None:
    with pytest.raises(LookupTableError, match=re.escape(f"the look-up table in topic:x {problem}")):
        BucketTable.from_json(parse_json(text, "topic:x"), "topic:x")


def test_a_table_of_another_topic_is_malformed() -> None:
    with pytest.raises(LookupTableError, match=r"file:/x, topic other is a table of topic t\. Restore it"):
        tables_by_topic({"other": GOOD}, "file:/x")


def test_a_table_that_was_made_uneven_by_hand_can_be_reorganized() -> None:
    table = BucketTable(topic="t", partitions=(3,), buckets=np.array([0, 0, 0, 0, 0, 0, 1, 2], np.int32))
    assert table.reorganize(4).moves() == {0: {3: 4}}
