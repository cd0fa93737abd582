from dataclasses import replace

import pytest
from dirty_equals import IsInt

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._records.control import ControlType
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Versions
from tests.support.scripted.fetched_logs import LAST, ROWS, append_sparse, fill, offsets_of, transaction
from tests.support.scripted.several_partitions import (
    ALL,
    PARTITIONS,
    Reading,
    asked,
    brokers_of_two_leaders,
    ranges,
    read,
    tp,
    whole,
)
from tests.support.waiting import eventually

brokers = brokers_of_two_leaders


def test_twenty_small_partitions_of_a_leader_take_one_fetch() -> None:
    with ScriptedCluster(topics={"t": 20}) as brokers, Cluster(brokers.config()) as cluster:
        for number in range(20):
            fill(brokers.partition("t", number), batches=1, rows=3)
        wanted = ranges(range(20), end=3)
        with row_fetcher(cluster, wanted) as fetcher:
            found = [(partition, offsets_of([records])) for partition, records in fetcher]
        assert found == [(tp(number), [0, 1, 2]) for number in range(20)]
        assert len(brokers.requests(FetchRequest)) == len(brokers.requests(MetadataRequest)) == 1
        assert not brokers.requests(ListOffsetsRequest)
        assert (fetcher.metrics.requests, fetcher.metrics.records) == (1, 60)
        assert fetcher.metrics.bytes_fetched == sum(len(brokers.partition("t", n).batches[0]) for n in range(20))


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize(
    ("start", "end"), [(0, LAST), (0, 1), (49, 51), (50, 100), (123, 456), (500, 501), (999, 1000)]
)
def test_ranges_are_read_exactly_and_in_order(cluster: Cluster, start: int, end: int) -> None:
    wanted = ranges(range(PARTITIONS), start, end)
    reading = read(cluster, wanted)
    assert reading.offsets == whole(wanted)
    assert not reading.errors


def test_each_leader_gets_fetches_for_its_partitions_and_none_twice(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = ranges([0, 1, 2], 10, 460) + ranges([3, 4, 5], 10, 60)
    assert read(cluster, wanted).offsets == whole(wanted)
    by_broker: dict[int, list[tuple[int, int]]] = {}
    for broker, request, _ in brokers.received:
        if isinstance(request, FetchRequest):
            parts = request.topics[0].partitions
            by_broker.setdefault(broker, []).extend((part.partition, part.fetch_offset) for part in parts)
    assert {number % 2 for number, _ in by_broker[1]} == {0}
    assert {number % 2 for number, _ in by_broker[2]} == {1}
    for offsets in by_broker.values():
        assert len(set(offsets)) == len(offsets)
        for number in {number for number, _ in offsets}:
            of_partition = [offset for each, offset in offsets if each == number]
            assert of_partition == sorted(of_partition)
    ends = {each.partition.partition: each.until_offset for each in wanted}
    assert all(offset < ends[number] for offsets in by_broker.values() for number, offset in offsets)


@pytest.mark.parametrize("offset", [0, 5, LAST])
def test_empty_ranges_send_no_fetch(brokers: ScriptedCluster, cluster: Cluster, offset: int) -> None:
    assert read(cluster, ranges([0, 1], offset, offset)) == read(cluster, []) == Reading()
    assert not brokers.received


def test_fetch_requests_have_the_configured_limits(brokers: ScriptedCluster) -> None:
    brokers.partition("t", 2).leader_epoch = 6
    config = brokers.config(
        fetch_max_wait_ms=7, fetch_min_bytes=3, fetch_max_bytes=9_000, max_partition_fetch_bytes=800, client_rack="r"
    )
    with Cluster(config) as cluster:
        read(cluster, ranges([0, 2], 0, 60), isolation=1)
    (request, *_) = brokers.requests(FetchRequest)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.rack_id) == (7, 3, 9_000, "r")
    assert request.isolation_level == 1
    parts = request.topics[0].partitions
    assert [(part.partition_max_bytes, part.current_leader_epoch) for part in parts] == [(800, 0), (800, 6)]
    assert (request.session_id, request.session_epoch) == (0, -1), "no session"


def test_a_given_leader_needs_no_metadata_request(brokers: ScriptedCluster, cluster: Cluster) -> None:
    leaders = cluster.leaders([tp(0), tp(1)])
    before = len(brokers.requests(MetadataRequest))
    with Cluster(cluster.config) as fresh:
        wanted = [replace(each, leader=leaders[each.partition]) for each in ranges([0, 1])]
        assert read(fresh, wanted).offsets == whole(wanted)
    assert len(brokers.requests(MetadataRequest)) == before


@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_1, KAFKA_4_3])
def test_topics_are_named_by_id_or_by_name(versions: Versions, topic_ids: bool) -> None:
    topics = {"a": 2, "b": 1}
    with ScriptedCluster(topics=topics, versions=versions, topic_ids=topic_ids) as brokers:
        wanted = []
        for name, count in topics.items():
            for number in range(count):
                fill(brokers.partition(name, number), batches=1)
                wanted.append(PartitionRange(partition=tp(number, name), from_offset=0, until_offset=ROWS))
        with Cluster(brokers.config()) as cluster:
            assert read(cluster, wanted).offsets == whole(wanted)
        (request,) = brokers.requests(FetchRequest)
        version = next(version for _, request, version in brokers.received if isinstance(request, FetchRequest))
        assert version == min(versions[1][1], 18 if topic_ids else 12)
        assert len(request.topics) == 2


def test_record_batches_have_about_the_target_rows(cluster: Cluster) -> None:
    with row_fetcher(cluster, ALL, target_rows=ROWS, columns=("offset",)) as fetcher:
        batches = [records for _, records in fetcher]
    assert {batch.num_rows for batch in batches} == {ROWS}
    assert batches[0].schema.names == ["offset"]


def test_the_next_fetch_is_under_way_while_rows_are_used(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with row_fetcher(cluster, ranges([0, 2]), target_rows=ROWS) as fetcher:
        next(iter(fetcher))
        eventually(lambda: len(asked(brokers)), IsInt(ge=2))
        assert len(asked(brokers)) == 2
        assert fetcher.position(tp(0)) < asked(brokers)[1][0]


def test_partitions_that_got_records_come_last_in_the_next_fetch(brokers: ScriptedCluster) -> None:
    size = len(brokers.partition("t").batches[2])
    config = brokers.config(max_partition_fetch_bytes=size, fetch_max_bytes=2 * size)
    with Cluster(config) as cluster:
        wanted = ranges([0, 2, 4], 100, 100 + 3 * ROWS)
        assert read(cluster, wanted).offsets == whole(wanted)
    assert [list(request) for request in asked(brokers)] == [[0, 2, 4], [4, 0, 2], [2, 4, 0], [0, 2, 4], [4]]


def test_a_batch_larger_than_any_limit_arrives(brokers: ScriptedCluster) -> None:
    for number in (0, 2):
        brokers.partition("t", number).append(batch_of([b"y" * 100_000]))
    config = brokers.config(max_partition_fetch_bytes=10, fetch_max_bytes=10)
    with Cluster(config) as cluster, row_fetcher(cluster, ranges([0, 2], LAST - 1, LAST + 1)) as fetcher:
        found = sorted((partition, offset) for partition, rows in fetcher for offset in offsets_of([rows]))
    assert found == [(tp(number), offset) for number in (0, 2) for offset in (LAST - 1, LAST)]


def test_two_ranges_of_one_partition_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="two ranges of t-0"):
        row_fetcher(cluster, ranges([0, 1, 0]))


# --- offsets without rows


@pytest.mark.feature("better.noWait")
@pytest.mark.usefixtures("each_kernel")
def test_ranges_that_compaction_has_thinned_out_end_without_waiting(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.create("t", 4)
    for number in range(4):
        append_sparse(brokers.partition("t", number), 0, 50)
        append_sparse(brokers.partition("t", number), 100, 200)
    wanted = ranges([0], 0, 300) + ranges([1], 1, 200) + ranges([2], 50, 60) + ranges([3], 150, 300)
    reading = read(cluster, wanted)
    assert reading.offsets == {tp(0): [0, 100], tp(1): [100]}
    assert not reading.errors
    assert len(asked(brokers)) <= 4, "two for each leader"


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("committed", [True, False])
def test_each_partition_has_its_own_aborted_transactions(
    brokers: ScriptedCluster, cluster: Cluster, committed: bool
) -> None:
    wanted, expected = [], {}
    for number in (0, 2, 4):
        partition = brokers.partition("t", number)
        kinds = [ControlType.ABORT if number == 2 else ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT]
        kept = []
        for producer_id, kind in enumerate(kinds):  # the same producers everywhere, with other outcomes
            offsets = transaction(partition, producer_id, kind)
            kept += offsets if kind is ControlType.COMMIT or not committed else []
        wanted += ranges([number], LAST, partition.log_end)
        expected[tp(number)] = kept
    reading = read(cluster, wanted, isolation=int(committed))
    assert reading.offsets == expected
    assert not reading.errors
    assert len(asked(brokers)) <= 3, "the ranges end in a marker and nothing is waited for"
