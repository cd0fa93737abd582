import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.partitioning.key_hashes import I32, murmur2, murmur2_column
from spark_kafka_native._client.partitioning.partitioners import StickySpread, Unassigned, make_partitioner

pytestmark = pytest.mark.usefixtures("each_kernel")

# From the tests of Kafka's own murmur2.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_kafkas_own_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected
    assert murmur2(memoryview(key)) == expected


@pytest.mark.parametrize("padding", [0, 30])
def test_kafkas_own_vectors_as_a_column(padding: int) -> None:
    keys = [*VECTORS] * (1 + padding)
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == [*VECTORS.values()] * (1 + padding)


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=100, max_size=130), max_size=40), st.data())
def test_a_column_hashes_as_its_values_do(keys: list[bytes], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    column = pa.array(keys, kind)
    start = data.draw(st.integers(0, len(keys)))
    end = data.draw(st.integers(start, len(keys)))
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys]
    assert murmur2_column(column[start:end]).tolist() == [murmur2(key) for key in keys[start:end]]


def test_every_tail_length_in_rounds() -> None:
    keys = [bytes(range(200, 200 + length)) for length in range(16)] * 20
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


def test_a_few_very_long_keys_among_many_short_ones() -> None:
    keys = [b"%d" % number for number in range(500)] + [b"x" * 100_000, b"y" * 99_999] + [b"z"] * 500
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


def test_strings_hash_as_their_utf8() -> None:
    assert murmur2_column(pa.array(["grün", "abc"])).tolist() == [murmur2("grün".encode()), VECTORS[b"abc"]]


def test_null_keys_have_any_hash() -> None:
    hashes = murmur2_column(pa.array([b"abc", None, b"", None] * 10, pa.binary()))
    assert hashes[0] == VECTORS[b"abc"]
    assert hashes[2] == murmur2(b"")
    assert len(murmur2_column(pa.nulls(40, pa.binary()))) == 40


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        murmur2_column(pa.array([1]))


def partition_for_keys(keys: list[bytes], partitions: int) -> I32:
    rows = Unassigned(
        keys=pa.array(keys, pa.large_binary()),
        sizes=np.ones(len(keys), np.int64),
        partitions=partitions,
        available=range(partitions),
    )
    return make_partitioner("default", 1).assign(rows)


@pytest.mark.parametrize("partitions", [1, 2, 7, 50])
def test_partitions_are_the_positive_hash_modulo_their_number(partitions: int) -> None:
    keys = [*VECTORS] * 4
    expected = [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    found = partition_for_keys(keys, partitions)
    assert found.tolist() == expected
    assert found.dtype == np.int32


def sizes(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


def test_sticky_fills_a_batch_before_it_moves_on() -> None:
    sticky = StickySpread(100, first=0)
    assert sticky.assign(sizes(*[30] * 10), [5, 6, 7]).tolist() == [5, 5, 5, 6, 6, 6, 7, 7, 7, 5]


def test_sticky_remembers_how_full_the_batch_is() -> None:
    sticky = StickySpread(100, first=1)
    assert sticky.assign(sizes(60), [5, 6, 7]).tolist() == [6]
    assert sticky.assign(sizes(40, 60, 60), [5, 6, 7]).tolist() == [6, 7, 5]
    assert sticky.assign(sizes(), [5, 6, 7]).tolist() == []
    assert sticky.assign(sizes(40, 1), [5, 6, 7]).tolist() == [5, 6]


@given(st.lists(st.integers(1, 250), min_size=1, max_size=40))
def test_sticky_never_gives_a_partition_more_than_a_batch_at_a_time(given_sizes: list[int]) -> None:
    chosen = StickySpread(100, first=0).assign(sizes(*given_sizes), range(1000)).tolist()
    for turn in range(chosen[-1] + 1):
        of_turn = [size for size, number in zip(given_sizes, chosen, strict=True) if number == turn]
        assert len(of_turn) == 1 or 0 < sum(of_turn) <= 100


@given(st.lists(st.lists(st.integers(1, 250), max_size=20), max_size=6))
def test_sticky_does_not_care_how_rows_are_cut_into_calls(calls: list[list[int]]) -> None:
    whole, cut = StickySpread(100, first=2), StickySpread(100, first=2)
    expected = whole.assign(sizes(*[size for call in calls for size in call]), range(4)).tolist()
    assert [number for call in calls for number in cut.assign(sizes(*call), range(4)).tolist()] == expected


def test_sticky_takes_only_partitions_that_are_available() -> None:
    assert set(StickySpread(1, first=0).assign(sizes(*[5] * 30), [2, 9]).tolist()) == {2, 9}


@pytest.mark.interop
def test_librdkafka_agrees() -> None:
    """Its partitioner murmur2_random is meant to be Java's."""
    pytest.importorskip("confluent_kafka", reason="librdkafka comes with confluent-kafka")
    from tests.support.servers.mock_cluster import MockCluster, mock_cluster_unavailable

    if mock_cluster_unavailable() is not None:
        pytest.skip(str(mock_cluster_unavailable()))
    from confluent_kafka import Message, Producer

    keys = [b"%d-%s" % (number, b"x" * (number % 9)) for number in range(200)]
    found: dict[bytes | None, int | None] = {}

    def remember(_error: object, message: "Message") -> None:
        found[message.key()] = message.partition()

    with MockCluster(1) as cluster:
        cluster.create_topic("t", 7)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce("t", b"", key, on_delivery=remember)
        producer.flush(20)
    ours = partition_for_keys(keys, 7).tolist()
    assert [found[key] for key in keys] == ours
