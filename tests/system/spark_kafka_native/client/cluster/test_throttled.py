"""Brokers with client quotas (KIP-219): a throttled connection gets no request before its time, and nothing fails.

Where a test has a `Clock`, only sleeping lets time pass, so that throttles of minutes take none of the test's.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_kafka_native._client import pausable_clock as pausable_clock_module
from spark_kafka_native._client.admin.committed_offsets import commit_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer import fetcher as fetcher_module
from spark_kafka_native._client.consumer import sources as sources_module
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import FetchTimeout, ProduceError
from spark_kafka_native._client.producer import broker_connections
from spark_kafka_native._net import blocking as blocking_module
from spark_kafka_native._net import deadline as deadline_module
from spark_kafka_native._net.errors import BrokerUnreachable, Throttled
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Request
from tests.support.scripted.cluster import KAFKA_0_11, ScriptedCluster
from tests.support.scripted.fetched_logs import LAST, T0, OneRange, read
from tests.support.scripted.sender_driver import SenderDriver, names
from tests.support.scripted.several_partitions import brokers_of_two_leaders, ranges, tp, whole
from tests.support.scripted.several_partitions import read as read_jointly
from tests.support.scripted.steps import Pass, Silent, Slow, Throttle

MINUTE_MS = 60_000
QUOTA = r"127\.0\.0\.1:\d+: the broker throttles this client for \d+ ms more, because of a client quota"


@dataclasses.dataclass
class Clock:
    seconds: float = 1_000.0
    slept_ms: list[float] = dataclasses.field(default_factory=list)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.slept_ms.append(round(seconds * 1000, 3))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (
        blocking_module,
        deadline_module,
        fetcher_module,
        pausable_clock_module,
        broker_connections,
        sources_module,
    ):
        monkeypatch.setattr(module, "time", made)
    return made


brokers = brokers_of_two_leaders


@pytest.fixture
def cluster(clock: Clock, brokers: ScriptedCluster) -> Iterator[Cluster]:
    with Cluster(brokers.config(max_partition_fetch_bytes=2_000)) as made:
        yield made


# --- every client call ------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[type[Request[Any]], Callable[[Cluster], object]]] = {
    "Metadata": (MetadataRequest, lambda cluster: cluster.metadata(["t"])),
    "ListOffsets": (ListOffsetsRequest, lambda cluster: list_offsets(cluster, {T0: LATEST})),
    "OffsetCommit": (OffsetCommitRequest, lambda cluster: commit_offsets(cluster, "g", {T0: 1})),
    "FindCoordinator": (FindCoordinatorRequest, lambda cluster: commit_offsets(cluster, "g", {T0: 1})),
}


@pytest.mark.parametrize("api", CALLS)
def test_the_next_request_of_a_connection_waits_for_the_end_of_the_throttle(
    clock: Clock, brokers: ScriptedCluster, api: str
) -> None:
    request, call = CALLS[api]
    brokers.brokers[2].stop()
    brokers.script(request, Throttle(45_000))
    with Cluster(brokers.config()) as cluster:
        call(cluster)
        # FindCoordinator is the first of two requests of its call.
        assert clock.slept_ms == ([45_000] if request is FindCoordinatorRequest else [])
        if not clock.slept_ms:
            call(cluster)
        assert clock.slept_ms == [45_000]


def test_metadata_requests_go_to_a_broker_that_does_not_throttle(
    clock: Clock, brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """A producer that looks for a leader would keep the batches of all brokers waiting for the throttle of one."""
    brokers.script(ListOffsetsRequest, Throttle(45_000), broker=1)
    list_offsets(cluster, {T0: LATEST})
    for _ in range(30):
        cluster.metadata(["t"])
    assert clock.slept_ms == []


def test_brokers_before_kip_219_have_throttled_before_they_respond(clock: Clock) -> None:
    with (
        ScriptedCluster(topics={"t": 1}, versions=KAFKA_0_11, topic_ids=False) as brokers,
        Cluster(brokers.config()) as cluster,
    ):
        brokers.script(MetadataRequest, Throttle(45_000))
        cluster.metadata(["t"])
        cluster.metadata(["t"])
    assert clock.slept_ms == []


def test_a_throttle_beyond_the_deadline_ends_with_an_error_that_names_it(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.script(ListOffsetsRequest, Throttle(10 * MINUTE_MS), broker=1)
    list_offsets(cluster, {T0: LATEST})
    with pytest.raises(Throttled, match=QUOTA) as caught:
        list_offsets(cluster, {T0: LATEST})
    assert caught.value.retriable
    assert "ListOffsets has to wait" in str(caught.value)


def test_metadata_that_every_broker_throttles_ends_with_an_error_that_names_it(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.brokers[2].stop()
    brokers.script(MetadataRequest, Throttle(10 * MINUTE_MS))
    cluster.metadata(["t"])
    with pytest.raises(BrokerUnreachable, match=QUOTA):
        cluster.metadata(["t"])


def test_a_throttle_time_above_the_maximum_is_limited(brokers: ScriptedCluster, cluster: Cluster, clock: Clock) -> None:
    brokers.script(ListOffsetsRequest, Throttle(2**31 - 1), broker=1)
    list_offsets(cluster, {T0: LATEST})
    node = cluster.leader(T0).node
    connection = cluster.borrow(node, deadline_module.Deadline.after_ms(MINUTE_MS))
    assert connection.throttle_ms == 10 * MINUTE_MS
    cluster.give_back(connection)


# --- Fetch ------------------------------------------------------------------------------------------------------------


def test_a_throttled_fetch_is_sent_again_over_the_same_connection(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(FetchRequest, Throttle(7_000), Pass(), Throttle(8_000), Throttle(9_000))
    with OneRange(cluster, T0, 0, LAST) as fetcher:
        assert sum(batch.num_rows for batch in fetcher) == LAST
        assert fetcher.metrics.retries == 0
    offsets = [request.topics[0].partitions[0].fetch_offset for request in brokers.requests(FetchRequest)]
    assert offsets[0] == offsets[1] == 0
    assert offsets[2] == offsets[3] == offsets[4] > 0
    assert clock.slept_ms == [7_000, 8_000, 9_000]


@pytest.mark.parametrize("times", [1, 4])
def test_time_throttled_is_not_time_without_progress(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock, times: int
) -> None:
    brokers.script(FetchRequest, *[Throttle(2 * MINUTE_MS)] * times)
    assert read(cluster, 0, LAST, timeout_ms=MINUTE_MS) == list(range(LAST))
    assert clock.slept_ms == [2 * MINUTE_MS] * times


def test_a_throttle_that_an_earlier_reader_left_does_not_count_either(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(ListOffsetsRequest, Throttle(2 * MINUTE_MS), broker=1)
    list_offsets(cluster, {T0: LATEST})
    assert read(cluster, 0, LAST, timeout_ms=MINUTE_MS) == list(range(LAST))
    assert clock.slept_ms == [2 * MINUTE_MS]


@pytest.mark.parametrize("throttle_ms", [7_000, 9 * MINUTE_MS])
def test_endless_throttling_ends_with_an_error_that_names_it(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock, throttle_ms: int
) -> None:
    brokers.script(FetchRequest, *[Throttle(throttle_ms)] * 200)
    with OneRange(cluster, T0, 0, LAST) as fetcher, pytest.raises(FetchTimeout, match=QUOTA) as caught:
        list(fetcher)
    assert caught.value.partition == T0
    # Ten minutes of throttles, and the time without progress.
    assert sum(clock.slept_ms) <= 11 * MINUTE_MS + 1_000


def test_a_broker_before_2_0_that_withholds_records_for_ever_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sits out the throttle itself: nothing sleeps here, and only the wait for its responses takes time."""
    with ScriptedCluster(topics={"t": 1}, versions=KAFKA_0_11, topic_ids=False) as brokers:
        brokers.script(FetchRequest, *[Throttle(20)] * 100_000)
        with (
            Cluster(brokers.config()) as cluster,
            OneRange(cluster, T0, 0, LAST, timeout_ms=200) as fetcher,
            pytest.raises(FetchTimeout, match=QUOTA),
        ):
            list(fetcher)


def test_several_partitions_are_read_together_in_spite_of_throttles(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(FetchRequest, Throttle(7_000), Pass(), Throttle(2 * MINUTE_MS), Throttle(9_000), broker=1)
    wanted = ranges([0, 2, 4])
    reading = read_jointly(cluster, wanted, timeout_ms=MINUTE_MS)
    assert reading.errors == {}
    assert reading.offsets == whole(wanted)
    assert clock.slept_ms == [7_000, 2 * MINUTE_MS, 9_000]


def test_one_brokers_throttle_does_not_hold_up_the_partitions_of_another(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(FetchRequest, Throttle(7_000), broker=1)
    unread = {tp(1): LAST, tp(3): LAST}
    with row_fetcher(cluster, ranges([0, 1, 3])) as fetcher:
        rows = iter(fetcher)
        while any(unread.values()):
            partition, records = next(rows)
            unread[partition] -= records.num_rows
        assert clock.slept_ms == []
        assert sum(records.num_rows for _, records in rows) == LAST
    assert clock.slept_ms == [7_000]


def test_a_throttle_continues_while_the_caller_uses_rows(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(FetchRequest, Throttle(7_000), broker=1)
    with row_fetcher(cluster, ranges([0, 1])) as fetcher:
        rows = iter(fetcher)
        read_of_1 = 0
        while read_of_1 < LAST:
            partition, records = next(rows)
            assert partition == tp(1)
            read_of_1 += records.num_rows
        clock.seconds += 7
        assert sum(records.num_rows for _, records in rows) == LAST
    assert clock.slept_ms == []


def test_endless_throttling_by_one_broker_fails_its_partitions_and_no_other(
    brokers: ScriptedCluster, cluster: Cluster, clock: Clock
) -> None:
    brokers.script(FetchRequest, *[Throttle(9 * MINUTE_MS)] * 200, broker=1)
    reading = read_jointly(cluster, ranges([0, 1]))
    assert reading.positions == {0: 0}
    assert isinstance(reading.errors[0], FetchTimeout)
    assert reading.offsets == whole(ranges([1]))


# --- Produce ----------------------------------------------------------------------------------------------------------


def test_a_throttled_broker_gets_the_next_produce_after_the_throttle() -> None:
    with ScriptedCluster(topics={"t": 4}) as brokers, SenderDriver(brokers) as driver:
        brokers.script(ProduceRequest, Throttle(300), Pass(), Throttle(200))
        begun = time.monotonic()
        for value in names(0, 3):
            driver.add(0, value).finish()
        at = [
            at
            for (_, request, _), at in zip(brokers.received, brokers.received_at, strict=True)
            if isinstance(request, ProduceRequest)
        ]
        assert driver.stored(0) == names(0, 3)
    assert len(at) == 3
    assert at[1] - begun >= 0.3
    assert driver.sender.metrics.retries == 0


def test_the_throttle_time_extends_the_timeout_of_requests_in_flight() -> None:
    """The broker takes them up when the throttle is over, so that their request timeout begins then."""
    with ScriptedCluster(topics={"t": 4}) as brokers, SenderDriver(brokers, linger_ms=0) as driver:
        driver.add(0, "first").finish()
        brokers.script(ProduceRequest, Throttle(40_000), Silent(applied=True))
        driver.add(0, "throttled")
        driver.add(0, "after it")
        while driver.sender.metrics.records < 2:
            driver.sender.pump(wait=True)
        driver.skip(50)  # more than request.timeout.ms
        for _ in range(2):
            driver.sender.pump(wait=True)
        assert driver.sender.metrics.requests == 3, "nothing is sent twice"
        assert driver.sender.buffered_records == 1


def test_a_batch_that_a_throttle_makes_late_ends_with_an_error_that_names_it() -> None:
    with ScriptedCluster(topics={"t": 4}) as brokers, SenderDriver(brokers) as driver:
        brokers.script(ProduceRequest, Throttle(500_000))
        driver.add(0, "first").finish()
        driver.add(0, "second")
        driver.sender.pump(wait=False)
        driver.skip(driver.seconds + 1)
        with pytest.raises(ProduceError, match=rf"\(90000 ms\) ended before the first attempt, last error: {QUOTA}"):
            driver.finish()
        assert len(brokers.requests(ProduceRequest)) == 1


def test_batches_do_not_wait_for_the_leader_of_another_topic_while_all_brokers_throttle(clock: Clock) -> None:
    with ScriptedCluster(topics={"t": 1, "u": 1}) as brokers, SenderDriver(brokers) as driver:
        driver.add(0, "first").finish()
        brokers.script(MetadataRequest, Throttle(20_000))
        driver.cluster.metadata(["t"])
        driver.add(0, "waits", topic="u")
        driver.add(0, "second")
        while driver.sender.metrics.records < 2:
            driver.sender.pump(wait=True)
        assert driver.stored(0) == ["first", "second"]
        assert clock.slept_ms == []
        clock.sleep(20)
        driver.finish()
        assert brokers.partition("u").log_end == 1


def test_settle_waits_for_requests_in_flight_after_a_throttled_one() -> None:
    """The broker handles a batch that waits for a throttle in the end, and the transaction must not end before."""
    with ScriptedCluster(topics={"t": 4}) as brokers, SenderDriver(brokers, request_timeout_ms=1_000) as driver:
        driver.add(0, "first").finish()
        brokers.script(ProduceRequest, Throttle(1_500), Slow(1_500))
        driver.add(0, "throttled")
        driver.add(0, "after it")
        driver.sender.pump(wait=False)
        driver.sender.settle()
        assert driver.stored(0) == ["first", "throttled", "after it"]
