import operator
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.partitioning import partitioners
from spark_kafka_native._client.partitioning.key_hashes import crc32_column, fnv1a, fnv1a_column, murmur2
from spark_kafka_native._client.partitioning.partitioner_names import NAMES, PartitionerError, check_partitioner
from spark_kafka_native._client.partitioning.partitioners import Unassigned, make_partitioner

Keys = list[bytes | None]


def assign(spec: str, keys: Keys | None, *, partitions: int = 7, available: list[int] | None = None) -> list[int]:
    rows = Unassigned(
        keys=None if keys is None else pa.array(keys, pa.large_binary()),
        sizes=np.full(5 if keys is None else len(keys), 10, np.int64),
        partitions=partitions,
        available=list(range(partitions)) if available is None else available,
    )
    found = make_partitioner(spec, 10**6, first=0).assign(rows)
    assert found.dtype == np.int32
    return [int(number) for number in found]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_partitioner(name: str) -> None:
    assert len(assign(check_partitioner(name), [b"a", b"b", None])) == 3


KEYS: Keys = [b"", b"a", b"order-1", b"\xff\x00\x80", b"x" * 100]

# Where librdkafka puts KEYS among 4 partitions; asked again by test_librdkafka_agrees.
LIBRDKAFKA = {"murmur2": [1, 0, 2, 2, 0], "consistent": [0, 3, 3, 3, 3], "fnv1a": [3, 0, 1, 2, 3]}


@pytest.mark.feature("sink.partitionerChoice")
@pytest.mark.parametrize("name", LIBRDKAFKA)
def test_keys_go_where_librdkafka_puts_them(name: str) -> None:
    assert assign(name, KEYS, partitions=4) == LIBRDKAFKA[name]
    assert assign(f"{name}_random", KEYS, partitions=4)[1:] == LIBRDKAFKA[name][1:]
    # Rows without a key count as rows with an empty one.
    assert assign(name, [None, *KEYS], partitions=4) == [LIBRDKAFKA[name][0], *LIBRDKAFKA[name]]
    assert assign(name, None, partitions=4) == LIBRDKAFKA[name][:1] * 5


@pytest.mark.interop
@pytest.mark.parametrize("name", LIBRDKAFKA)
def test_librdkafka_agrees(name: str) -> None:
    producing = pytest.importorskip("confluent_kafka", reason="librdkafka comes with confluent-kafka")
    keys: Keys = [*KEYS, None, *(b"%d-%s" % (number, b"k" * (number % 11)) for number in range(300))]
    found: dict[bytes | None, int] = {}

    def remember(error: object, message: Any) -> None:
        assert error is None
        found[message.key()] = message.partition()

    # A cluster inside of librdkafka, whose topics have four partitions.
    producer = producing.Producer({"test.mock.num.brokers": 1, "partitioner": name, "log_level": 0})
    for key in keys:
        producer.produce("t", b"", key, on_delivery=remember)
    assert producer.flush(30) == 0
    assert len(producer.list_topics("t", timeout=10).topics["t"].partitions) == 4
    assert assign(name, keys, partitions=4) == [found[key] for key in keys]


def positive(number: int) -> int:
    return number & 0x7FFFFFFF


def of_fnv1a(key: bytes) -> int:
    hashed = fnv1a(key)
    return abs(hashed - (1 << 32) if hashed >> 31 else hashed)


HASHES: dict[str, Callable[[bytes], int]] = {
    "murmur2": lambda key: positive(murmur2(key)),
    "consistent": zlib.crc32,
    "fnv1a": of_fnv1a,
}


@given(
    st.lists(st.none() | st.binary(max_size=20) | st.sampled_from([b"y" * 300, b"z" * 2000]), max_size=40),
    st.integers(1, 50),
    st.sampled_from(sorted(HASHES)),
)
def test_columns_hash_as_their_keys_do(keys: Keys, partitions: int, name: str) -> None:
    expected = [HASHES[name](key or b"") % partitions for key in keys]
    assert assign(name, keys, partitions=partitions) == expected
    keyed = assign(f"{name}_random", keys, partitions=partitions)
    for key, found, by_hash in zip(keys, keyed, expected, strict=True):
        assert found == by_hash or not key
        assert 0 <= found < partitions


def test_published_fnv_1a() -> None:
    # From the tables of the hash's authors.
    assert [fnv1a(text) for text in (b"", b"a", b"foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]
    keys = pa.array([b"foobar", b""] * 20, pa.large_binary())
    assert fnv1a_column(keys).tolist() == [of_fnv1a(b"foobar"), of_fnv1a(b"")] * 20


def test_a_slice_hashes_as_that_slice() -> None:
    keys = pa.array([b"a", b"bb", None, b"ccc"], pa.large_binary()).slice(1)
    assert crc32_column(keys)[[0, 2]].tolist() == [zlib.crc32(b"bb"), zlib.crc32(b"ccc")]
    assert fnv1a_column(keys)[[0, 2]].tolist() == [of_fnv1a(b"bb"), of_fnv1a(b"ccc")]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("random")])
def test_random_rows_go_everywhere_and_only_where_there_is_a_leader(name: str) -> None:
    assert set(assign(name, [None] * 500, available=[2, 3, 5])) == {2, 3, 5}
    assert len(set(assign(name, None, available=[4]))) == 1


@pytest.mark.parametrize(("name", "empty_counts"), [("murmur2_random", True), ("consistent_random", False)])
def test_whether_an_empty_key_is_a_key(name: str, empty_counts: bool) -> None:
    assert (len(set(assign(name, [b""] * 200))) == 1) is empty_counts


def test_round_robin_continues_from_call_to_call_and_skips_no_partition() -> None:
    partitioner = make_partitioner("round_robin", 1, first=0)
    rows = Unassigned(keys=None, sizes=np.zeros(4, np.int64), partitions=3, available=[0, 1, 2])
    assert [*partitioner.assign(rows), *partitioner.assign(rows)] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert assign("round_robin", [b"same"] * 4, available=[1, 6]) == [1, 6, 1, 6]


def test_sticky_ignores_keys_and_default_does_not() -> None:
    assert assign("sticky", [b"a", b"b", b"c"]) == [0, 0, 0]
    keys: Keys = [b"a", None, b"b"]
    murmur = [positive(murmur2(key)) % 7 for key in (b"a", b"b")]
    assert assign("default", keys) == [murmur[0], 0, murmur[1]]


def test_producers_begin_at_different_partitions() -> None:
    rows = Unassigned(keys=None, sizes=np.zeros(1, np.int64), partitions=1000, available=range(1000))
    assert len({int(make_partitioner("round_robin", 1).assign(rows)[0]) for _ in range(20)}) > 1


# --- the user's own


def last_partition(keys: pa.BinaryArray, partitions: int) -> "pa.Array[Any]":
    """Rows with a key to the last partition, others to the first."""
    return pa.array([0 if key is None else partitions - 1 for key in keys.to_pylist()], pa.int32())


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """This very module, by the name that it has here."""
    import sys
    from types import ModuleType

    module = ModuleType("my_partitioners")
    vars(module).update(
        last=last_partition,
        nested=ModuleType("nested"),
        short=lambda keys, _: [0] * (len(keys) - 1),
        beyond=lambda keys, partitions: np.full(len(keys), partitions),
        below=lambda keys, _: [-1] * len(keys),
        text=lambda keys, _: ["0"] * len(keys),
        fractions=lambda keys, _: [0.0] * len(keys),
        nothing=lambda keys, _: [None] * len(keys),
        what=operator,
    )
    monkeypatch.setitem(sys.modules, "my_partitioners", module)


@pytest.mark.feature("sink.partitionerChoice")
def test_a_function_of_the_users_decides() -> None:
    assert check_partitioner(" my_partitioners:last ") == "my_partitioners:last"
    assert assign("my_partitioners:last", [b"a", None, b""]) == [6, 0, 6]
    assert assign("my_partitioners:last", None) == [0] * 5


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("short", "returned 1 partition for 2 keys"),
        ("beyond", "returned partition 7; the topic has 0 to 6"),
        ("below", "returned partition -1; the topic has 0 to 6"),
        ("text", "must return an integer for each key"),
        ("fractions", "must return an integer for each key"),
        ("nothing", "must return an integer for each key"),
    ],
)
def test_what_a_function_must_not_return(function: str, complaint: str) -> None:
    with pytest.raises(PartitionerError, match=f"partitioner my_partitioners:{function} .*{complaint}"):
        assign(f"my_partitioners:{function}", [b"a", b"b"])


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("murmur3", "'murmur3' is neither module:function nor one of default, murmur2, "),
        ("", "is neither module:function"),
        ("a b:c", "is neither module:function"),
        ("no_such_module:f", "cannot be found: No module named 'no_such_module'"),
        ("my_partitioners:absent", "cannot be found: "),
        ("my_partitioners:nested", "is no function"),
    ],
)
def test_unknown_partitioners_are_refused(spec: str, complaint: str) -> None:
    with pytest.raises(PartitionerError, match=complaint):
        check_partitioner(spec)


def test_names_in_any_case() -> None:
    assert check_partitioner("Consistent_Random") == "consistent_random"
    assert set(NAMES) == set(partitioners._NAMED)
