import pytest

from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._jobs.batch_reload.bounds import resolve_wanted
from spark_kafka_native._jobs.points import cluster_state, parse_offsets, parse_point
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.spark.fake_offsets import FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.add("t", 10, 20)
    made.add("u", 8, first=4)
    made.times = {T0: [1000 * n for n in range(10)], T1: [5000] * 20}
    return made


def points(cluster: FakeCluster, text: str) -> dict[TopicPartition, int]:
    state = cluster_state(cluster, [T0, T1, U0])
    return dict(
        resolve_wanted(cluster, state, parse_point(text), None, accept_loss=False, now_ms=lambda: 3_605_000.0).points
    )


@pytest.mark.feature("reload.ranges")
@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("earliest", {T0: 0, T1: 0, U0: 4}),
        ("latest", {T0: 10, T1: 20, U0: 8}),
        ("latest-15", {T0: 0, T1: 5, U0: 4}),
        ('{"t":{"0":3,"1":-1},"u":"earliest"}', {T0: 3, T1: 20, U0: 4}),
        ('{"t":{"0":-2}}', {T0: 0}),
        ("4500", {T0: 5, T1: 0, U0: 8}),  # u has no record of any time: nothing is as late
        ("1970-01-01T00:00:05.5Z", {T0: 6, T1: 20, U0: 8}),
        ("-1h", {T0: 5, T1: 0, U0: 8}),
    ],
)
def test_points_of_the_command_line_are_resolved_to_offsets(
    cluster: FakeCluster, text: str, offsets: dict[TopicPartition, int]
) -> None:
    assert points(cluster, text) == offsets


def test_record_after_the_last_stable_offset_is_the_end(cluster: FakeCluster) -> None:
    """It belongs to a transaction that is open: the end for readers of committed records is before it."""
    cluster.end[T0] = 4
    assert points(cluster, "7000")[T0] == 4


@pytest.mark.parametrize("text", ["soon", "2026-11-20T10:00:00", "{", '{"t":5}', "latest+5"])
def test_invalid_points_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_point(text)


def test_points_with_unknown_partitions_are_refused(cluster: FakeCluster) -> None:
    with pytest.raises(InvalidOption, match="--from: names topics that were not chosen: w"):
        points(cluster, '{"w":"earliest"}')
    with pytest.raises(InvalidOption, match="--from: names partitions that do not exist: t-2"):
        points(cluster, '{"t":{"2":0}}')


@pytest.mark.feature("reload.from")
@pytest.mark.parametrize(
    ("start", "until"),
    [("5000", "4999"), ("-1h", "-2h"), ("2026-11-20T10:00:00Z", "-1h"), ("-1m", "1970-01-01T01:00Z")],
)
def test_an_earlier_until_is_refused_whether_or_not_there_are_records_between(
    cluster: FakeCluster, start: str, until: str
) -> None:
    state = cluster_state(cluster, [U0])
    wanted = parse_point(start), parse_point(until)
    with pytest.raises(InvalidOption, match=r"--until: \d+ ms since 1970 is before --from, \d+"):
        resolve_wanted(cluster, state, *wanted, accept_loss=False, now_ms=lambda: 3_605_000.0 + 60_000)
    resolve_wanted(cluster, state, wanted[0], wanted[0], accept_loss=False)


def test_until_without_a_start(cluster: FakeCluster) -> None:
    state = cluster_state(cluster, [T0])
    wanted = resolve_wanted(cluster, state, None, parse_offsets('{"t":{"0":7}}'), accept_loss=True)
    assert (wanted.points, wanted.ends, wanted.accept_loss) == ({}, {T0: 7}, True)
    assert (state.first, state.end, state.topic_ids) == ({T0: 0}, {T0: 10}, {"t": str(cluster.ids["t"])})
