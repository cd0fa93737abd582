import itertools
import threading
import time
from types import SimpleNamespace

import pytest

from spark_kafka_native._client import pausable_clock
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer import fetcher as fetcher_module
from spark_kafka_native._client.consumer import sources as sources_module
from spark_kafka_native._client.errors import FetchTimeout, OffsetOutOfRange, TopicRecreated
from spark_kafka_native._net import deadline as deadline_module
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._records.compression import CompressionType
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import (
    BATCHES,
    BROKEN_FETCHES,
    LAST,
    T0,
    OneRange,
    fill,
    offsets_of,
    read,
    read_until_error,
)
from tests.support.scripted.steps import Drop, Pass, Refuse, Respond, Silent, Slow, Step


def test_a_large_response_is_cut_into_record_batches_of_about_the_target(brokers: ScriptedCluster) -> None:
    brokers.partition("t").append(batch_of([b"x"] * 10_000, compression=CompressionType.GZIP))
    with Cluster(brokers.config()) as cluster, OneRange(cluster, T0, 0, LAST + 10_000, target_rows=1_000) as fetcher:
        sizes = [batch.num_rows for batch in fetcher]
    assert sum(sizes) == LAST + 10_000
    assert all(660 <= size <= 1_500 for size in sizes[:-1])


def cut_off(brokers: ScriptedCluster) -> Respond:
    """A broker older than KIP-74: it cuts off even the first batch."""

    def respond(request: FetchRequest) -> Response:
        wanted = request.topics[0].partitions[0]
        records = brokers.partition("t").read(wanted.fetch_offset, 10**9)[: wanted.partition_max_bytes]
        part = PartitionData(partition_index=0, records=records, high_watermark=LAST)
        return FetchResponse(
            responses=(FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=(part,)),)
        )

    return Respond(respond)


def test_a_first_batch_that_is_cut_off_is_fetched_with_its_size(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, *[cut_off(brokers)] * 100)
    with Cluster(brokers.config(max_partition_fetch_bytes=100)) as cluster:
        assert read(cluster, 0, 150) == list(range(150))
    assert brokers.requests(FetchRequest)[0].topics[0].partitions[0].partition_max_bytes == 100
    assert len(brokers.requests(FetchRequest)) == 6, "each of the three batches is a little larger than the one before"


@pytest.mark.parametrize(
    "step",
    [
        *BROKEN_FETCHES,
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.FENCED_LEADER_EPOCH),
        Refuse(ErrorCode.UNKNOWN_LEADER_EPOCH),
        Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=str,
)
def test_an_error_at_any_fetch_neither_loses_nor_repeats_a_row(
    brokers: ScriptedCluster, cluster: Cluster, step: Step
) -> None:
    brokers.script(FetchRequest, *itertools.islice(itertools.cycle([step, Pass(), Pass(), step, step]), 25))
    assert read(cluster, 7, LAST - 7, target_rows=100) == list(range(7, LAST - 7))


def test_a_leader_that_moves_at_every_fetch_is_followed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found: list[int] = []
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        for number, batch in enumerate(fetcher):
            found += offsets_of([batch])
            if number % 3 == 0:
                brokers.move_leader("t", 0, to=2 if brokers.partition("t").leader == 1 else 1)
    assert found == list(range(LAST))
    assert fetcher.metrics.retries


def test_a_broker_killed_and_restarted_in_the_middle(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found: list[int] = []
    timers = [threading.Timer(0.03, brokers.brokers[1].start) for _ in range(2)]
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        for number, batch in enumerate(fetcher):
            found += offsets_of([batch])
            if number in {2, 12}:
                brokers.brokers[1].stop()
                timers[number == 12].start()
    for timer in timers:
        timer.join()
    assert found == list(range(LAST))
    assert fetcher.metrics.retries


def test_records_that_are_appended_later_are_waited_for(brokers: ScriptedCluster, cluster: Cluster) -> None:
    def write() -> None:
        with brokers.state.lock:
            fill(brokers.partition("t"), 1)
            brokers.state.lock.notify_all()

    timer = threading.Timer(0.1, write)
    timer.start()
    assert read(cluster, LAST - 10, LAST + 20) == list(range(LAST - 10, LAST + 20))
    timer.join()


def test_a_fetch_timeout_has_the_partition_offset_and_high_watermark(cluster: Cluster) -> None:
    found: list[int] = []
    with OneRange(cluster, T0, LAST - 5, LAST + 5, timeout_ms=1_000) as fetcher:
        with pytest.raises(FetchTimeout) as caught:
            read_until_error(fetcher, found)
        assert fetcher.position == LAST
    assert found == list(range(LAST - 5, LAST)), "what was read before comes first"
    assert (caught.value.partition, caught.value.offset) == (T0, LAST)
    assert str(caught.value) == (
        f"t-0: nothing to read at offset {LAST} within 1000 ms; the high watermark is {LAST}, "
        f"the last stable offset {LAST}"
    )


@pytest.mark.feature("loss.unreadable")
def test_the_fetch_timeout_of_a_silent_broker_has_its_address(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, Silent())
    with (
        Cluster(brokers.config()) as cluster,
        OneRange(cluster, T0, 0, 5, timeout_ms=1_000) as fetcher,
        pytest.raises(FetchTimeout, match=rf"t-0.*offset 0.*127\.0\.0\.1:{brokers.brokers[1].port}"),
    ):
        list(fetcher)


def test_time_between_two_record_batches_does_not_count(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.script(FetchRequest, Pass(), Slow(300))
    an_hour_later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3_600, sleep=time.sleep)
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        next(rows)  # the second Fetch is in flight
        for module in (deadline_module, fetcher_module, pausable_clock, sources_module):
            monkeypatch.setattr(module, "time", an_hour_later)
        assert sum(1 for _ in rows) == BATCHES - 1
        assert (fetcher.position, fetcher.metrics.retries) == (LAST, 0)


def test_an_offset_before_the_log_is_out_of_range(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t").log_start = 100
    with OneRange(cluster, T0, 40, 200) as fetcher, pytest.raises(OffsetOutOfRange) as caught:
        list(fetcher)
    assert (caught.value.partition, caught.value.offset) == (T0, 40)
    assert (caught.value.earliest, caught.value.latest) == (100, LAST)
    assert fetcher.position == 40


def test_an_offset_after_the_log_end_is_out_of_range(cluster: Cluster) -> None:
    with (
        OneRange(cluster, T0, LAST + 1, LAST + 9) as fetcher,
        pytest.raises(OffsetOutOfRange, match=f"has 0 to {LAST}"),
    ):
        list(fetcher)


def test_offsets_deleted_by_retention_are_out_of_range_after_the_rows_before(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        found = offsets_of([next(rows)])
        with brokers.state.lock:
            brokers.partition("t").log_start = 900
        with pytest.raises(OffsetOutOfRange):
            read_until_error(rows, found)
        assert found == list(range(fetcher.position))
        assert fetcher.position < 900


def test_a_passing_offset_out_of_range_is_retried(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, Refuse(ErrorCode.OFFSET_OUT_OF_RANGE), Pass(), Refuse(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert read(cluster, 0, 200) == list(range(200))
    assert brokers.requests(ListOffsetsRequest)


def test_a_topic_created_again_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        next(rows)
        brokers.state.create("t", 1)
        fill(brokers.partition("t"))
        with pytest.raises(TopicRecreated):
            list(rows)


def test_read_committed_stops_at_the_last_stable_offset(brokers: ScriptedCluster) -> None:
    brokers.partition("t").last_stable_offset = LAST - 100
    config = brokers.config(isolation_level="read_committed", max_partition_fetch_bytes=2_000)
    with (
        Cluster(config) as cluster,
        OneRange(cluster, T0, LAST - 100, LAST, timeout_ms=1_000) as fetcher,
        pytest.raises(FetchTimeout, match=f"the last stable offset {LAST - 100}"),
    ):
        list(fetcher)


def test_two_reads_at_the_same_time_over_one_cluster(cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, 500, target_rows=1) as one, OneRange(cluster, T0, 250, 750, target_rows=1) as other:
        found = [(offsets_of([left]), offsets_of([right])) for left, right in zip(one, other, strict=False)]
    assert [offset for left, _ in found for offset in left] == list(range(500))
    assert [offset for _, right in found for offset in right] == list(range(250, 750))


def test_fetch_metrics(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, Drop())
    with OneRange(cluster, T0, 0, LAST) as fetcher:
        list(fetcher)
    metrics = fetcher.metrics
    assert metrics.records == LAST
    assert metrics.retries == 1
    assert metrics.requests == len(brokers.requests(FetchRequest))
    assert metrics.bytes_fetched >= sum(map(len, brokers.partition("t").batches))
