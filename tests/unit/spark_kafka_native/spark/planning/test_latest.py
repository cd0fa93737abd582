"""latestOffset is polled every 11 ms: how often the cluster is asked, and when a missing partition is confirmed."""

import itertools
from collections.abc import Callable

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.planning.latest import RefreshPacer
from tests.support.spark.fake_offsets import FakeCluster
from tests.support.spark.stream_query import StreamQuery, query

T0, T1 = (TopicPartition("t", partition) for partition in range(2))


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_never_an_empty_latest_offset(cluster: FakeCluster, fail_on_data_loss: str) -> None:
    """An empty offset in the checkpoint would make every partition new, and read again."""
    running = query(cluster, subscribePattern="t", startingOffsets="earliest", failOnDataLoss=fail_on_data_loss).start()
    running.run_to_the_end()
    cluster.remove("t")
    running.clock.ms += 1000
    assert not running.trigger()
    assert running.offsets_log == [{T0: 10, T1: 4}]


def test_deletion_of_all_topics_fails_the_query_or_waits(cluster: FakeCluster) -> None:
    careful = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    careless = query(cluster, startingOffsets="earliest", failOnDataLoss="false").start().run_to_the_end()
    cluster.remove("t")
    careful.clock.ms = careless.clock.ms = 10_000
    with pytest.raises(DataLossError, match=r"no topic of subscribe=t exists any more; read up to t-0@10, t-1@4"):
        careful.trigger()
    assert not careless.trigger()


@pytest.mark.feature("better.idle")
def test_latest_offset_polled_while_idle_asks_the_cluster_a_few_times_a_second(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    running.clock.ms += 5000
    for _ in range(100):
        running.trigger()
        running.clock.ms += 11
    cluster.requests.clear()
    polls = 0
    while polls * 11 < 10_000:
        assert not running.trigger()
        running.clock.ms += 11
        polls += 1
    assert polls > 900
    assert cluster.requests.count("topics") <= 10
    assert cluster.requests.count("list_offsets") <= 10 * 4
    assert len(cluster.requests) <= 50


@pytest.mark.parametrize(
    ("change", "within_ms"),
    [(lambda cluster: cluster.add("t", 10, 4, 1), 1260), (lambda cluster: cluster.produce("t", 0, 1), 260)],
    ids=["a partition", "a record"],
)
def test_idle_query_notices_what_is_new(
    cluster: FakeCluster, change: Callable[[FakeCluster], None], within_ms: int
) -> None:
    running = query(cluster, startingOffsets="earliest").start()
    for _ in range(1000):
        running.trigger()
        running.clock.ms += 11
    change(cluster)
    waited = 0
    while not running.trigger():
        running.clock.ms += 11
        waited += 11
    assert waited <= within_ms


@pytest.mark.feature("run.latestOffset")
def test_known_latest_is_the_last_lookup(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start()
    assert running.stream.known_latest is None
    running.trigger(3)
    cluster.requests.clear()
    assert running.stream.known_latest == {T0: 10, T1: 4}
    assert cluster.requests == []


@pytest.mark.feature("better.planning")
def test_requests_for_ten_thousand_partitions_are_not_split_by_partition() -> None:
    cluster = FakeCluster()
    for number in range(10):
        cluster.add(f"t{number}", *([100] * 1000))
    options = {"subscribePattern": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "500000"}
    options |= {"kafka.group.id": "g", "commitOffsetsToGroup": "true", "minOffsetsPerTrigger": "1"}
    running = StreamQuery(cluster, options).start().run_to_the_end()
    assert running.batches == [500_000, 500_000]
    assert cluster.requests.count("list_offsets") <= 5
    assert cluster.requests.count("commit") <= 2 * 5 + 1
    assert len(cluster.requests) <= 22
    cluster.requests.clear()
    for _ in range(10):
        assert not running.later(11).trigger()
    assert len(cluster.requests) <= 6


# --- the pacer


def looked_up_at(pacer: RefreshPacer, until_ms: float, *, moved: bool) -> list[float]:
    times, now_ms = [], 0.0
    while now_ms < until_ms:
        if pacer.due(now_ms):
            times.append(now_ms)
            pacer.looked_up(now_ms, moved=moved)
        now_ms += 1.0
    return times


def test_lookup_pauses_grow_while_offsets_do_not_move() -> None:
    times = looked_up_at(RefreshPacer(), 2000, moved=False)
    assert times[:6] == [0, 15, 45, 105, 225, 465]
    assert {later - earlier for earlier, later in itertools.pairwise(times[5:])} == {250}


def test_no_lookup_pause_while_offsets_move() -> None:
    assert len(looked_up_at(RefreshPacer(), 50, moved=True)) == 50


def test_moved_offsets_reset_the_lookup_pause() -> None:
    pacer = RefreshPacer()
    for _ in range(10):
        pacer.looked_up(0, moved=False)
    assert not pacer.due(249)
    pacer.looked_up(250, moved=True)
    assert pacer.due(250)


def test_pacer_is_idle_if_offsets_have_not_moved() -> None:
    pacer = RefreshPacer()
    assert not pacer.idle
    pacer.looked_up(0, moved=False)
    assert pacer.idle
    pacer.looked_up(15, moved=True)
    assert not pacer.idle
