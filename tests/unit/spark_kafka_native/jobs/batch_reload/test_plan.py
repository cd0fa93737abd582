from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.manifest import Entry, Manifest, What
from spark_kafka_native._jobs.batch_reload.plan import PartitionPlan, Wanted, make_plan
from spark_kafka_native._jobs.points import ClusterState
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.spark.reload_driver import JSON

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def version(*edges: int, position: int | None = None, what: What = What.FILE, topic_id: str = "") -> Manifest:
    """A version in which t-0 has files that end at these offsets; the first number is where the first begins."""
    entries = [
        Entry(topic="t", partition=0, from_offset=first, until_offset=end, load_id="l", what=what, path=f"{first}")
        for first, end in pairwise(edges)
    ]
    ends = edges[-1] if position is None else position
    return Manifest(
        version=1,
        load_id="l",
        kind="load",
        created_ms=0,
        format=JSON,
        positions={T0: ends},
        entries=tuple(entries),
        topic_ids={"t": topic_id} if topic_id else {},
    )


def plan_of(
    base: Manifest | None,
    first: int,
    end: int,
    *,
    point: int | None = None,
    until: int | None = None,
    accept_loss: bool = False,
    topic_id: str = "",
) -> PartitionPlan:
    state = ClusterState(first={T0: first}, end={T0: end}, topic_ids={"t": topic_id} if topic_id else {})
    wanted = Wanted(
        points={} if point is None else {T0: point}, ends={} if until is None else {T0: until}, accept_loss=accept_loss
    )
    (part,) = make_plan(base, state, wanted).partitions
    return part


def bounds(part: PartitionPlan) -> tuple[int, int, list[str]]:
    return part.read_from, part.until_offset, [entry.path for entry in part.replaced]


@pytest.mark.feature("reload.ranges")
def test_first_run_loads_all_offsets_or_from_a_point() -> None:
    assert bounds(plan_of(None, 3, 9)) == (3, 9, [])
    assert bounds(plan_of(None, 3, 9, point=5)) == (5, 9, [])
    assert bounds(plan_of(None, 3, 9, until=6)) == (3, 6, [])
    assert bounds(plan_of(None, 3, 9, until=99)) == (3, 9, [])
    with pytest.raises(UsageError, match=r"--from: t-0 ends at offset 9, before offset 10"):
        plan_of(None, 3, 9, point=10)
    with pytest.raises(UsageError, match=r"--from: t-0 ends at offset 9, before offset 10"):
        plan_of(version(0, 9), 3, 9, point=10)


@pytest.mark.feature("reload.ranges")
def test_next_run_continues_at_the_position() -> None:
    assert bounds(plan_of(version(0, 10), 0, 30)) == (10, 30, [])
    assert bounds(plan_of(version(0, 10), 0, 10)) == (10, 10, [])
    assert bounds(plan_of(version(position=10), 0, 12)) == (10, 12, [])
    assert bounds(plan_of(version(0, 10), 0, 30, until=20)) == (10, 20, [])
    assert bounds(plan_of(version(0, 10), 0, 30, until=5)) == (10, 10, []), "nothing is unloaded"


@pytest.mark.feature("reload.from")
def test_run_from_a_point_begins_at_the_boundary_before() -> None:
    base = version(0, 10, 20, 30)
    assert bounds(plan_of(base, 0, 40, point=20)) == (20, 40, ["20"])
    assert bounds(plan_of(base, 0, 40, point=25)) == (20, 40, ["20"])
    assert bounds(plan_of(base, 0, 40, point=0)) == (0, 40, ["0", "10", "20"])
    assert bounds(plan_of(base, 0, 40, point=35)) == (30, 40, []), "a point after the end would leave a gap"


@pytest.mark.feature("reload.from")
def test_run_between_two_points_keeps_later_files() -> None:
    base = version(0, 10, 20, 30)
    assert bounds(plan_of(base, 0, 40, point=12, until=15)) == (10, 20, ["10"])
    assert bounds(plan_of(base, 0, 40, point=12, until=20)) == (10, 20, ["10"])
    assert bounds(plan_of(base, 0, 40, point=12, until=35)) == (10, 35, ["10", "20"])
    for until in (15, 24):  # in the file before, and in the same file
        with pytest.raises(UsageError, match=f"--until: .* begins in t-0: offset {until} is before 25"):
            plan_of(base, 0, 40, point=25, until=until)


@pytest.mark.feature("reload.from")
def test_run_between_two_points_of_a_log_that_has_lost_records() -> None:
    with pytest.raises(UsageError, match="offset 35 is before 40"):
        plan_of(version(0, 10, 20, 30), 0, 40, point=40, until=35)
    truncated = version(0, 50, 100)
    assert bounds(plan_of(truncated, 0, 80, point=90, until=200)) == (50, 80, ["50"]), "all that the topic still has"
    with pytest.raises(UsageError, match="offset 70 is before 80"):
        plan_of(truncated, 0, 80, point=90, until=70)
    expired = version(0, 40, 60, 100)
    for until in (50, 55):
        assert bounds(plan_of(expired, 50, 120, point=0, until=until)) == (60, 60, []), "in a file that is kept"
    with pytest.raises(UsageError, match="offset 45 is before 50"):
        plan_of(expired, 50, 120, point=30, until=45)
    for base, point in ((None, 5), (version(0, 10), 10), (version(0, 10), 7)):
        with pytest.raises(ReloadError, match="deleted before they were loaded"):
            plan_of(base, 14, 40, point=point, until=12)
        lost = plan_of(base, 14, 40, point=point, until=12, accept_loss=True).lost
        assert lost == (10 if base else point, 12)


@pytest.mark.feature("reload.from")
def test_run_before_the_first_file_ends_at_it() -> None:
    base = version(50, 60, 70)
    assert bounds(plan_of(base, 0, 80, point=20)) == (20, 80, ["50", "60"])
    assert bounds(plan_of(base, 0, 80, point=20, until=30)) == (20, 50, [])


@pytest.mark.feature("reload.from")
def test_file_with_deleted_first_records_is_kept() -> None:
    base = version(0, 10, 20, 30)
    assert bounds(plan_of(base, 14, 40, point=14)) == (20, 40, ["20"]), "all that the topic still has"
    assert bounds(plan_of(base, 14, 40, point=3)) == (20, 40, ["20"])
    assert bounds(plan_of(base, 10, 40, point=10)) == (10, 40, ["10", "20"])
    with pytest.raises(UsageError, match=r"offset 15 of t-0 is within the file of t-0 offsets \[10, 20\)"):
        plan_of(base, 14, 40, point=15)


def test_deleted_records_stop_a_run_or_are_named() -> None:
    with pytest.raises(ReloadError, match=r"offsets \[10, 14\) of t-0 were deleted .* --accept-data-loss"):
        plan_of(version(0, 10), 14, 40)
    part = plan_of(version(0, 10), 14, 40, accept_loss=True)
    assert (part.lost, part.from_offset, part.read_from, part.records) == ((10, 14), 10, 14, 26)
    part = plan_of(version(0, 10), 14, 40, accept_loss=True, until=12)
    assert (part.lost, part.records) == ((10, 12), 0)
    assert plan_of(None, 14, 40, point=5, accept_loss=True).lost == (5, 14)


def test_decreased_end_offset_is_an_error_without_from() -> None:
    base = version(0, 10, 20)
    with pytest.raises(ReloadError, match="t-0 ends at offset 15, before the position 20"):
        plan_of(base, 0, 15)
    assert bounds(plan_of(base, 0, 15, point=12)) == (10, 15, ["10"])
    assert bounds(plan_of(base, 0, 15, point=18)) == (10, 15, ["10"]), "the file is of records that are gone"
    assert bounds(plan_of(base, 0, 5, point=0)) == (0, 5, ["0", "10"])


def test_recreated_topic_is_an_error_without_from() -> None:
    base = version(0, 10, 20, topic_id="one")
    assert plan_of(base, 0, 30, topic_id="one").from_offset == 20
    assert plan_of(base, 0, 30).from_offset == 20, "a broker without ids"
    with pytest.raises(ReloadError, match="topic t was deleted and created again"):
        plan_of(base, 0, 30, topic_id="two")
    part = plan_of(base, 0, 30, topic_id="two", point=4)
    assert (part.starts_over, part.from_offset, part.until_offset) == (True, 4, 30)


@pytest.mark.feature("reload.tasks")
def test_one_task_for_each_partition_or_finer() -> None:
    state = ClusterState(first={T0: 0, T1: 5}, end={T0: 100, T1: 5}, topic_ids={})
    wanted = Wanted(points={}, ends={})
    assert len(make_plan(None, state, wanted).pieces) == 1, "none for an empty partition"
    assert [piece.size for piece in make_plan(None, state, wanted, max_records_per_task=40).pieces] == [33, 33, 34]
    assert len(make_plan(None, state, wanted, min_tasks=5).pieces) == 5


def test_plans_that_change_a_target() -> None:
    state = ClusterState(first={T0: 0}, end={T0: 0}, topic_ids={})
    empty = make_plan(None, state, Wanted(points={}, ends={}))
    assert empty.changes(None), "where a partition begins is worth noting"
    assert not empty.changes(version(position=0))


@given(
    edges=st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True).map(sorted),
    grown=st.integers(-20, 20),
    first=st.integers(0, 70),
    point=st.none() | st.integers(0, 80),
    until=st.none() | st.integers(0, 80),
)
def test_kept_and_new_ranges_are_adjacent(
    edges: list[int], grown: int, first: int, point: int | None, until: int | None
) -> None:
    base = version(*edges)
    end = max(edges[-1] + grown, 0)
    try:
        part = plan_of(base, min(first, end), end, point=point, until=until, accept_loss=True)
    except ReloadError:
        return
    kept = [(entry.from_offset, entry.until_offset) for entry in base.entries if entry not in part.replaced]
    spans = sorted([*kept, *([(part.from_offset, part.until_offset)] if part.until_offset > part.from_offset else [])])
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    if grown >= 0:
        assert spans[0][0] <= edges[0]
        assert spans[-1][1] >= edges[-1]
    if part.lost:
        assert part.from_offset == part.lost[0] < part.lost[1] <= part.until_offset
