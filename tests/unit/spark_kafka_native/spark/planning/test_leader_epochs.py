from uuid import uuid4

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, DataLossKind
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.leader_epochs import LeaderEpochs
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of
from spark_kafka_native._spark.planning.stream import StreamOffsets
from tests.support.spark.fake_offsets import LEADER, FakeCluster, ManualClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

pytestmark = pytest.mark.feature("client.leaderEpochs")


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster().add("t", 100, 100)
    made.epochs = {T0: 5, T1: 5}
    return made


def led(cluster: FakeCluster, *ranges: OffsetRange) -> list[OffsetRange]:
    leaders = cluster.leaders([piece.topic_partition for piece in ranges])
    return [piece._replace(leader=leaders[piece.topic_partition]) for piece in ranges]


def elect(cluster: FakeCluster, tp: TopicPartition, *, had_up_to: int) -> None:
    cluster.epoch_ends.setdefault(tp, {})[cluster.epochs[tp]] = had_up_to
    cluster.epochs[tp] += 1


def test_unchanged_leader_needs_no_request(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    for start in (0, 50):
        ranges = led(cluster, range_of(T0, start, 100))
        assert epochs.compare(ranges, {T0: start}, cluster) == (ranges, [])
    assert "ends_of_epochs" not in cluster.requests


def test_new_leader_without_truncation_is_queried_once(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    epochs.compare(led(cluster, range_of(T0, 0, 50), range_of(T1, 0, 50)), {T0: 0, T1: 0}, cluster)
    elect(cluster, T0, had_up_to=60)
    ranges = led(cluster, range_of(T0, 50, 100), range_of(T1, 50, 100))
    for _ in range(2):
        assert epochs.compare(ranges, {T0: 50, T1: 50}, cluster) == (ranges, [])
    assert cluster.requests.count("ends_of_epochs") == 1


def test_records_after_a_truncation_are_read_and_the_loss_reported(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    epochs.compare(led(cluster, range_of(T0, 0, 50)), {T0: 0}, cluster)
    elect(cluster, T0, had_up_to=30)
    ranges = led(cluster, range_of(T0, 50, 100))
    for _ in range(2):
        cut, losses = epochs.compare(ranges, {T0: 50}, cluster)
        assert [(piece.from_offset, piece.until_offset) for piece in cut] == [(30, 100)]
        assert [loss.kind for loss in losses] == [DataLossKind.OFFSET_CHANGED]
        assert "t-0 was truncated at offset 30" in losses[0].reason
    assert epochs.compare(led(cluster, range_of(T0, 100, 120)), {T0: 100}, cluster)[1] == []


def test_truncated_range_starts_at_the_first_offset(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    epochs.compare(led(cluster, range_of(T0, 0, 50)), {T0: 0}, cluster)
    elect(cluster, T0, had_up_to=30)
    aged_out = led(cluster, range_of(T0, 80, 100))
    cut, losses = epochs.compare(aged_out, {T0: 50}, cluster)
    assert cut == aged_out
    assert len(losses) == 1


def test_recreated_topic_has_other_leader_epochs(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    old, new = (LEADER._replace(leader_epoch=epoch, topic_id=uuid4()) for epoch in (1, 2))
    epochs.compare([range_of(T0, 0, 50)._replace(leader=old)], {T0: 0}, cluster)
    elect(cluster, T0, had_up_to=0)
    epochs.compare([range_of(T0, 50, 60)._replace(leader=new)], {T0: 50}, cluster)
    assert "ends_of_epochs" not in cluster.requests


def test_brokers_without_leader_epochs_get_no_request(cluster: FakeCluster) -> None:
    epochs = LeaderEpochs()
    cluster.epochs = {}
    epochs.compare(led(cluster, range_of(T0, 0, 50)), {T0: 0}, cluster)
    epochs.compare(led(cluster, range_of(T0, 50, 100)), {T0: 50}, cluster)
    assert "ends_of_epochs" not in cluster.requests


def options(**given: str) -> SourceOptions:
    asked = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t", "startingOffsets": "earliest"}
    return parse_source_options(asked | given, Query.STREAM)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_stream_reports_a_truncated_log(cluster: FakeCluster, fail: str) -> None:
    stream = StreamOffsets(options(failOnDataLoss=fail), cluster, ManualClock())
    start = stream.initial()
    end = stream.latest(start, None)
    assert [piece.leader.leader_epoch for (piece,) in stream.plan(start, end) if piece.leader] == [5, 5]
    elect(cluster, T0, had_up_to=70)
    cluster.produce("t", 0, 20)
    later = end | {T0: 120}
    if fail == "true":
        with pytest.raises(DataLossError, match=r"t-0 was truncated at offset 70 .* does not find the loss"):
            stream.plan(end, later)
    else:
        assert [str(piece) for (piece,) in stream.plan(end, later)] == ["t-0 offsets [70, 120)"]
