"""Logs that are truncated while they are read: an error with the offset, never other records (KIP-320)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer import leadership
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import LogTruncated, OffsetOutOfRange
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import seal
from tests.support.clients.topics import Topics
from tests.support.records.message_sets import message_set
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_2_3, KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fetched_logs import OneRange
from tests.support.scripted.fixtures import client_of_brokers
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.steps import Refuse

T0 = TopicPartition("t", 0)
BATCHES, ROWS = 10, 10
LAST = BATCHES * ROWS
RELEASES = pytest.mark.parametrize("brokers", [KAFKA_4_3, KAFKA_2_3], ids=["4.3", "2.3"], indirect=True)

pytestmark = pytest.mark.feature("client.leaderEpochs")


def fill(partition: FakePartition, text: bytes, batches: int = BATCHES) -> None:
    for _ in range(batches):
        partition.append(batch_of([text] * ROWS))


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    versions = getattr(request, "param", KAFKA_4_3)
    with ScriptedCluster(brokers=2, topics={"t": 1}, versions=versions, topic_ids=versions is KAFKA_4_3) as made:
        fill(made.partition("t"), b"old")
        yield made


cluster = client_of_brokers(max_partition_fetch_bytes=10)
"""A client whose Fetch responses have one batch."""


def elect(brokers: ScriptedCluster, *, lacking_from: int | None = None, text: bytes = b"new") -> None:
    """The other broker leads in a new epoch; it may lack the log's end, and has other records there by now."""
    partition = brokers.partition("t")
    with brokers.state.lock:
        if lacking_from is not None:
            partition.truncate(lacking_from)
    brokers.move_leader("t", 0, to=2 if partition.leader == 1 else 1)
    with brokers.state.lock:
        fill(partition, text)


def values(batch: pa.RecordBatch) -> list[tuple[int, bytes]]:
    return [(row["offset"], row["value"]) for row in batch.select(["offset", "value"]).to_pylist()]


def read_rest(rows: Iterator[pa.RecordBatch], found: list[tuple[int, bytes]]) -> None:
    for batch in rows:
        found += values(batch)


def read_some(rows: Iterator[pa.RecordBatch], until: int) -> list[tuple[int, bytes]]:
    found = values(next(rows))
    while found[-1][0] < until - 1:
        found += values(next(rows))
    return found


@RELEASES
def test_a_truncation_below_the_position_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        read_some(rows, 70)
        elect(brokers, lacking_from=50)
        found: list[tuple[int, bytes]] = []
        with pytest.raises(LogTruncated, match="t-0: the log was truncated at offset 50 by a new leader") as caught:
            read_rest(rows, found)
        assert {text for _, text in found} <= {b"old"}
        assert (caught.value.partition, caught.value.diverged_at) == (T0, 50)
        assert 70 <= caught.value.position <= 90


@RELEASES
def test_a_new_leader_with_the_whole_log_is_read_to_the_end(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST + 50, target_rows=1, known_epoch=0) as fetcher:
        rows = iter(fetcher)
        found = read_some(rows, 30)
        elect(brokers)
        brokers.partition("t").log_start = 20
        with pytest.raises(LogTruncated, match="at offset 100 "):
            read_rest(rows, found)
        assert found == [(offset, b"old") for offset in range(LAST)], "no more was promised in epoch 0"


@RELEASES
def test_what_was_written_in_several_epochs_is_read_through(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for _ in range(3):
        elect(brokers)
    with OneRange(cluster, T0, 5, 4 * LAST, target_rows=1, known_epoch=3) as fetcher:
        rows = iter(fetcher)
        found = read_some(rows, 150)
        elect(brokers)
        read_rest(rows, found)
    assert [offset for offset, _ in found] == list(range(5, 4 * LAST))
    assert len(brokers.requests(OffsetForLeaderEpochRequest)) <= 2, "once, when the leader was another"


@RELEASES
def test_a_truncation_ahead_is_an_error_where_the_epoch_ends(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1, known_epoch=0) as fetcher:
        rows = iter(fetcher)
        found = read_some(rows, 20)
        elect(brokers, lacking_from=80)
        with pytest.raises(LogTruncated, match="at offset 80 "):
            read_rest(rows, found)
        assert found == [(offset, b"old") for offset in range(80)]
        assert fetcher.position == 80


@RELEASES
def test_one_leader_epoch_is_compared_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1, known_epoch=0) as fetcher:
        rows = iter(fetcher)
        found = read_some(rows, 30)
        elect(brokers)
        read_rest(rows, found)
        assert [offset for offset, _ in found] == list(range(LAST))
        assert len(brokers.requests(OffsetForLeaderEpochRequest)) == 1


def test_an_outdated_leader_whose_successor_lacks_the_range(brokers: ScriptedCluster) -> None:
    """As between the driver's plan and the task."""
    with Cluster(brokers.config()) as driver:
        leader = driver.leader(T0)
    elect(brokers, lacking_from=40)
    with (
        Cluster(brokers.config()) as cluster,
        OneRange(cluster, T0, 60, LAST, leader=leader, known_epoch=leader.leader_epoch) as fetcher,
        pytest.raises(LogTruncated, match="at offset 40 ") as caught,
    ):
        list(fetcher)
    assert caught.value.position == 60


def test_without_a_known_epoch_only_the_records_read_are_compared(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST + 10, target_rows=1) as fetcher:
        rows = iter(fetcher)
        found = read_some(rows, 20)
        elect(brokers, lacking_from=80)
        for batch in rows:
            found += values(batch)
        assert [offset for offset, text in found if text == b"new"] == list(range(80, LAST + 10))


@RELEASES
def test_a_log_that_has_become_too_short_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        read_some(rows, 70)
        with brokers.state.lock:
            brokers.partition("t").truncate(30)
        brokers.move_leader("t", 0, to=2)
        with pytest.raises(LogTruncated, match="at offset 30 "):
            list(rows)


@pytest.mark.parametrize("brokers", [KAFKA_2_1], indirect=True)
def test_brokers_without_epochs_only_report_offset_out_of_range(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1, known_epoch=0) as fetcher:
        rows = iter(fetcher)
        read_some(rows, 70)
        with brokers.state.lock:
            brokers.partition("t").truncate(30)
        brokers.move_leader("t", 0, to=2)
        with pytest.raises(OffsetOutOfRange, match="has 0 to 30"):
            list(rows)
        assert {request.topics[0].partitions[0].last_fetched_epoch for request in brokers.requests(FetchRequest)} == {
            -1
        }


def test_fetch_requests_have_the_last_fetched_epoch(brokers: ScriptedCluster, cluster: Cluster) -> None:
    elect(brokers)
    with OneRange(cluster, T0, 80, 130) as fetcher:
        list(fetcher)
    parts = [request.topics[0].partitions[0] for request in brokers.requests(FetchRequest)]
    assert [(part.fetch_offset, part.last_fetched_epoch) for part in parts] == [
        (80, -1), (90, 0), (100, 0), (110, 1), (120, 1)
    ]  # fmt: skip


def test_old_formats_have_no_epochs(brokers: ScriptedCluster, cluster: Cluster) -> None:
    partition = brokers.partition("t")
    partition.batches[1] = bytes(message_set(*[b"old"] * ROWS, first_offset=ROWS))
    with OneRange(cluster, T0, 0, 40) as fetcher:
        list(fetcher)
    parts = [request.topics[0].partitions[0] for request in brokers.requests(FetchRequest)]
    assert [(part.fetch_offset, part.last_fetched_epoch) for part in parts] == [(0, -1), (10, 0), (20, -1), (30, 0)]


def test_a_leader_without_the_epoch_gets_a_fetch_without_it(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, *[Refuse(ErrorCode.OFFSET_OUT_OF_RANGE)])
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        read_some(rows, 20)
        brokers.script(FetchRequest, Refuse(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert sum(batch.num_rows for batch in rows) >= LAST - 40
    asked = [request.topics[0].partitions[0] for request in brokers.requests(FetchRequest)]
    assert sum(part.last_fetched_epoch == -1 for part in asked) == 3, "the first two, and the one after the refusal"


@RELEASES
def test_damage_between_epochs_is_no_divergence(brokers: ScriptedCluster) -> None:
    """In the middle of a response the last fetched epoch is not known, and -1 is sent rather than an old one."""
    elect(brokers)
    partition = brokers.partition("t")
    sound, partition.batches[12] = partition.batches[12], partition.batches[12][:-1] + b"?"
    with Cluster(brokers.config()) as cluster, OneRange(cluster, T0, 50, 2 * LAST) as fetcher:
        responses = fetcher.fetcher._take

        def repair(*arguments: Any) -> None:
            if len(brokers.requests(FetchRequest)) > 1:
                partition.batches[12] = sound
            responses(*arguments)

        fetcher.fetcher._take = repair  # type: ignore[method-assign,assignment]  # spied on, on purpose
        assert sum(batch.num_rows for batch in fetcher) == 150


def test_thinned_out_logs_have_no_divergence(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.create("t", 1)
    partition = brokers.partition("t")
    for base, offsets in ((0, 50), (100, 100), (300, 100)):
        batch = batch_of([b"x"])
        batch[23:27] = (offsets - 1).to_bytes(4, "big")
        seal(batch)
        partition.leader_epoch += 1
        partition.put(batch, base)
    with OneRange(cluster, T0, 0, 400) as fetcher:
        assert [offset for batch in fetcher for offset, _ in values(batch)] == [0, 100, 300]


# --- on the bundled broker


@pytest.mark.parametrize("name", ["2.3", "4.3"])
def test_leaders_that_come_and_go_with_the_whole_log(name: str) -> None:
    with (
        EmbeddedBroker(topics={"t": 1}, settings={"as.version": name}) as broker,
        Topics(broker.bootstrap_servers) as topics,
    ):
        for number in range(10):
            topics.write("t", [f"{number}"])
        config = ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers, "max.partition.fetch.bytes": 1})
        found = []
        with Cluster(config) as cluster, OneRange(cluster, T0, 0, 10, target_rows=1, known_epoch=0) as fetcher:
            for batch in fetcher:
                found += [offset for offset, _ in values(batch)]
                if len(found) in {3, 7}:
                    broker.faults.move_leader("t")
        assert found == list(range(10))
        assert broker.requests("OffsetForLeaderEpoch")


@pytest.mark.parametrize("name", ["2.3", "4.3"])
def test_a_log_that_lost_its_end_in_a_crash(tmp_path: Path, name: str) -> None:
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings={"as.version": name}) as broker:
        with Topics(broker.bootstrap_servers) as topics:
            for number in range(6):
                topics.write("t", [f"old {number}"])
        config = ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers, "max.partition.fetch.bytes": 1})
        with Cluster(config) as cluster, OneRange(cluster, T0, 0, 6, target_rows=1, known_epoch=0) as fetcher:
            rows = iter(fetcher)
            read_some(rows, 2)
            broker.kill()
            (segment,) = tmp_path.glob("t-0/*.log")
            stored = segment.read_bytes()
            segment.write_bytes(stored[: len(stored) * 4 // 6])
            broker.start()
            broker.faults.move_leader("t")
            with Topics(broker.bootstrap_servers) as topics:
                topics.write("t", ["new 4", "new 5", "new 6"])
            found: list[tuple[int, bytes]] = []
            with pytest.raises(LogTruncated, match="t-0: the log was truncated at offset 4 "):
                read_rest(rows, found)
            assert {text[:3] for _, text in found} <= {b"old"}


def test_a_leader_that_cannot_compare_a_log_stops_no_other_partition() -> None:
    partitions = [TopicPartition("t", number) for number in range(4)]
    with EmbeddedBroker(topics={"t": 4}) as broker, Topics(broker.bootstrap_servers) as topics:
        for partition in partitions:
            topics.write("t", ["x"], partition=partition.partition)
            broker.faults.move_leader("t", partition.partition)
        broker.faults.fail("OffsetForLeaderEpoch", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=3)
        ranges = [PartitionRange(partition=each, from_offset=0, until_offset=1, known_epoch=0) for each in partitions]
        with (
            Cluster(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers})) as cluster,
            row_fetcher(cluster, ranges, timeout_ms=3_000) as fetcher,
        ):
            rows = iter(fetcher)
            assert sorted(next(rows)[0] for _ in range(3)) == partitions[:3]
            with pytest.raises(KafkaError, match="t-3") as caught:
                next(rows)
            assert (caught.value.code, fetcher.failed) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, partitions[3])
        assert len(broker.requests("OffsetForLeaderEpoch")) > 2, "the first names all partitions, the others only t-3"


def test_the_check_of_a_range_has_the_time_that_its_partition_has_left(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed_ms: list[float] = []

    def no_response(*_: object, timeout_ms: float, **__: object) -> None:
        allowed_ms.append(timeout_ms)
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t-0")

    monkeypatch.setattr(leadership, "list_offsets", no_response)
    brokers.partition("t").log_start = ROWS
    with OneRange(cluster, T0, 0, LAST, timeout_ms=40_000) as fetcher, pytest.raises(KafkaError, match="t-0"):
        list(fetcher)
    assert all(0 < each <= 40_000 for each in allowed_ms)
    assert len(allowed_ms) == 1
