import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.packing import Task, from_plain, pack, to_plain
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of, split_ranges

pytestmark = pytest.mark.feature("more.maxPartitions")


def tp(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def ranges(sizes: Sequence[int], nodes: Sequence[int] = ()) -> list[OffsetRange]:
    leaders = [PartitionLeader(node=Node(node_id=node, host="b", port=1)) for node in nodes]
    return [
        range_of(tp(number), 7, 7 + size)._replace(leader=leader)
        for number, (size, leader) in enumerate(zip_longest(sizes, leaders[: len(sizes)]))
    ]


def packed(
    sizes: Sequence[int], most: int | None, nodes: Sequence[int] = (), cap: int | None = None
) -> list[list[int]]:
    tasks = pack(ranges(sizes, nodes), {}, max_partitions=most, max_records_per_partition=cap)
    return [[piece.size for piece in task] for task in tasks]


@pytest.mark.parametrize(
    ("sizes", "most", "tasks"),
    [
        pytest.param([3, 1, 2], None, [[3], [1], [2]], id="one each unless something else is wanted"),
        pytest.param([3, 1, 2], 3, [[3], [1], [2]], id="no more than are wanted"),
        pytest.param([], 3, [], id="nothing"),
        pytest.param([1] * 10, 4, [[1, 1, 1], [1, 1, 1], [1, 1], [1, 1]], id="even"),
        pytest.param([5, 5, 5], 1, [[5, 5, 5]], id="all in one"),
        pytest.param([1000, *[1] * 6], 4, [[1000], [1, 1], [1, 1], [1, 1]], id="a large one first"),
        pytest.param([*[1] * 6, 1000], 4, [[1, 1, 1, 1], [1], [1], [1000]], id="a large one last"),
        pytest.param([0, 0, 0, 0], 2, [[0, 0], [0, 0]], id="empty ones are shared out, too"),
    ],
)
def test_ranges_are_packed_into_even_tasks(sizes: list[int], most: int | None, tasks: list[list[int]]) -> None:
    assert packed(sizes, most) == tasks


def test_filled_tasks_are_used_if_even_ones_need_more_tasks() -> None:
    assert packed([0, 0, 1, 1], 1, cap=1) == [[0, 0, 1], [1]]
    assert packed([0, 0, 1, 1], 1, cap=2) == [[0, 0, 1, 1]]


def test_ranges_of_one_leader_are_in_one_task() -> None:
    assert packed([1, 2, 3, 4, 5, 6], 2, [1, 2, 1, 2, 1, 2]) == [[1, 3, 5, 2], [4, 6]]
    assert packed([2, 20, 2, 20], 2, [1, 2, 1, 2]) == [[2, 2, 20], [20]]
    assert packed([5, 6, 5, 6, 5, 6, 5, 6], 4, [1, 2] * 4) == [[5, 5, 5], [5, 6], [6, 6], [6]]


@pytest.mark.parametrize(
    ("sizes", "most", "cap", "tasks"),
    [
        ([6, 6, 6, 6], 2, 12, [[6, 6], [6, 6]]),
        ([6, 6, 6, 6], 2, 11, [[6], [6], [6], [6]]),
        ([6, 5, 5, 4], 2, 10, [[6], [5, 5], [4]]),
        ([20, 1, 1], 2, 10, [[20], [1, 1]]),
        ([0, 0, 0, 9], 2, 9, [[0, 0, 0], [9]]),
    ],
)
def test_max_records_per_partition_overrides_max_partitions(
    sizes: list[int], most: int, cap: int, tasks: list[list[int]]
) -> None:
    assert packed(sizes, most, cap=cap) == tasks


def test_earliest_and_latest_are_sized_by_present_offsets_and_kept() -> None:
    whole = [range_of(tp(number), -2, -1) for number in range(4)]
    bounds = {tp(0): (0, 90), tp(1): (50, 80), tp(2): (5, 35), tp(3): (7, 7)}
    assert pack(whole, bounds, max_partitions=2) == [tuple(whole[:1]), tuple(whole[1:])]


def test_adjacent_ranges_of_a_partition_are_joined() -> None:
    pieces = split_ranges(ranges([90, 10]), min_partitions=10)
    assert len(pieces) == 10
    tasks = pack(pieces, {}, max_partitions=3)
    assert [[str(piece) for piece in task] for task in tasks] == [
        ["t-0 offsets [7, 47)"],
        ["t-0 offsets [47, 77)"],
        ["t-0 offsets [77, 97)", "t-1 offsets [7, 17)"],
    ]


def in_order(tasks: Sequence[Task]) -> Mapping[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for task in tasks:
        for piece in task:
            found.setdefault(piece.topic_partition, []).append((piece.from_offset, piece.until_offset))
    return found


def filled(sizes: Sequence[int], cap: int) -> int:
    """Number of tasks if each is filled, one after the other."""
    tasks = used = 0
    for size in sizes:
        if not tasks or used + size > cap:
            tasks, used = tasks + 1, 0
        used += size
    return tasks


@given(
    sizes=st.lists(st.integers(0, 300), max_size=30),
    nodes=st.lists(st.integers(1, 4), min_size=30, max_size=30),
    most=st.integers(1, 40),
    cap=st.none() | st.integers(1, 400),
    least=st.none() | st.integers(1, 40),
)
def test_every_offset_is_in_one_task_and_the_limits_hold(
    sizes: list[int], nodes: list[int], most: int, cap: int | None, least: int | None
) -> None:
    least = None if least is None else min(least, most)
    pieces = split_ranges(ranges(sizes, nodes), min_partitions=least, max_records_per_partition=cap)
    tasks = pack(pieces, {}, max_partitions=most, max_records_per_partition=cap)
    for partition, spans in in_order(tasks).items():
        assert spans[0][0] == 7
        assert spans[-1][1] == 7 + sizes[partition.partition]
        assert [until for _, until in spans[:-1]] == [start for start, _ in spans[1:]], "nothing twice, all in order"
    assert in_order(tasks).keys() == {tp(number) for number, size in enumerate(sizes) if size}
    by_leader = sorted(pieces, key=lambda piece: nodes[piece.partition])
    assert len(tasks) <= max(most, filled([piece.size for piece in by_leader], cap) if cap else 0)
    loads = [sum(piece.size for piece in task) for task in tasks]
    if cap is not None:
        assert all(load <= cap for load in loads)
    elif len(pieces) > most:
        assert len(tasks) == most
        assert max(loads) < -(-sum(loads) // most) + max(piece.size for piece in pieces)
    assert all(len({piece.topic_partition for piece in task}) == len(task) for task in tasks)


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=30), nodes=st.lists(st.integers(1, 3), max_size=30))
def test_tasks_read_the_same_offsets_whatever_the_leaders(sizes: list[int], nodes: list[int]) -> None:
    one, other = (pack(ranges(sizes, leaders), {}, max_partitions=4) for leaders in (nodes, ()))
    assert in_order(one).keys() == in_order(other).keys()
    assert all(in_order(one)[partition] == spans for partition, spans in in_order(other).items())


def test_ten_thousand_ranges_are_packed_quickly() -> None:
    many = ranges([number % 97 for number in range(10_000)], [number % 9 for number in range(10_000)])
    started = time.process_time()
    tasks = pack(many, {}, max_partitions=2_000, max_records_per_partition=5_000)
    assert time.process_time() - started < 1
    assert len(tasks) == 2_000


# --- what Spark pickles

NODES = st.builds(Node, st.integers(0, 2**31 - 1), st.text(), st.integers(0, 65535), st.none() | st.text())
LEADERS = st.builds(PartitionLeader, NODES, st.integers(-1, 2**31 - 1), st.uuids())
OFFSETS = st.integers(-2, 2**63 - 1)
RANGES = st.builds(OffsetRange, st.text(), st.integers(0), OFFSETS, OFFSETS, st.booleans(), st.none() | LEADERS)


@given(st.lists(RANGES).map(tuple))
def test_a_plain_task_has_pythons_own_types_alone_and_is_the_same_task(task: Task) -> None:
    plain = to_plain(task)
    assert set(types_in(plain)) <= {tuple, str, int, bool, bytes, type(None)}
    again = from_plain(plain)
    assert again == task
    assert set(types_in(again)) == set(types_in(task))


def types_in(value: object) -> Iterator[type]:
    yield type(value)
    for each in value if isinstance(value, tuple) else ():
        yield from types_in(each)
