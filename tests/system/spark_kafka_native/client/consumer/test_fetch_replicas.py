"""Fetches from the replica that the leader names (KIP-392)."""

import time
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import OneRange
from tests.support.scripted.steps import Drop, Refuse, Respond, Step

T0 = TopicPartition("t", 0)
LEADER, REPLICA, GONE = 1, 2, 9
BATCHES = 5

pytestmark = pytest.mark.feature("client.rack")


class Racks:
    """A leader that sends readers of its rack to a replica, and the replica, with a log that may end earlier."""

    def __init__(self, brokers: ScriptedCluster) -> None:
        self.brokers = brokers
        self.named = REPLICA
        self.replica_end = BATCHES * 10
        brokers.script(FetchRequest, *[Respond(self.lead)] * 100, broker=LEADER)

    def lead(self, request: FetchRequest) -> Response:
        return self._response(request, sends_away=request.rack_id == "near")

    def serve(self, request: FetchRequest) -> Response:
        return self._response(request, until=self.replica_end)

    def replica_does(self, *steps: Step) -> None:
        self.brokers.script(FetchRequest, *steps, *[Respond(self.serve)] * 100, broker=REPLICA)

    def _response(self, request: FetchRequest, *, sends_away: bool = False, until: int = 10**9) -> Response:
        wanted = request.topics[0].partitions[0]
        has_some = wanted.fetch_offset < until and not sends_away
        part = PartitionData(
            partition_index=0,
            preferred_read_replica=self.named if sends_away else -1,
            records=self.brokers.partition("t").read(wanted.fetch_offset, 10) if has_some else b"",
        )
        topic = FetchableTopicResponse(
            topic=request.topics[0].topic, topic_id=request.topics[0].topic_id, partitions=(part,)
        )
        return FetchResponse(responses=(topic,))

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [
            (node, request.topics[0].partitions[0].fetch_offset)
            for node, request, _ in self.brokers.received
            if isinstance(request, FetchRequest)
        ]


@pytest.fixture
def racks() -> Iterator[Racks]:
    with ScriptedCluster(brokers=2, topics={"t": 1}) as brokers:
        for _ in range(BATCHES):
            brokers.partition("t").append(batch_of([b"v"] * 10))
        yield Racks(brokers)


def read(racks: Racks, **options: object) -> list[int]:
    config = racks.brokers.config(client_rack="near", max_partition_fetch_bytes=10, **options)
    with Cluster(config) as cluster, OneRange(cluster, T0, 0, BATCHES * 10, columns=("offset",)) as fetcher:
        return [row["offset"] for batch in fetcher for row in batch.to_pylist()]


ALL = list(range(BATCHES * 10))


def test_the_replica_is_read_to_the_end(racks: Racks) -> None:
    racks.replica_does()
    assert read(racks) == ALL
    assert racks.asked == [(LEADER, 0), *[(REPLICA, offset) for offset in range(0, 50, 10)]]


@pytest.mark.parametrize(
    "step",
    [
        Drop(),
        *[
            Refuse(code)
            for code in (
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.OFFSET_OUT_OF_RANGE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.REPLICA_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
        ],
    ],
    ids=str,
)
def test_a_failed_replica_is_replaced_by_the_leader_without_a_rack(racks: Racks, step: Step) -> None:
    racks.replica_does(step)
    assert read(racks) == ALL
    assert racks.asked == [(LEADER, 0), (REPLICA, 0), *[(LEADER, offset) for offset in range(0, 50, 10)]]


def test_a_replica_that_lags_is_replaced_by_the_leader(racks: Racks) -> None:
    racks.replica_end = 20
    racks.replica_does()
    assert read(racks) == ALL
    assert racks.asked[:5] == [(LEADER, 0), (REPLICA, 0), (REPLICA, 10), (REPLICA, 20), (LEADER, 20)]
    assert {node for node, _ in racks.asked[4:]} == {LEADER}


def test_a_replica_that_failed_is_read_again_after_metadata_max_age(
    racks: Racks, monkeypatch: pytest.MonkeyPatch
) -> None:
    racks.replica_does(Drop())
    config = racks.brokers.config(client_rack="near", max_partition_fetch_bytes=10, metadata_max_age_ms=20_000)
    monotonic = time.monotonic
    with Cluster(config) as cluster, OneRange(cluster, T0, 0, BATCHES * 10, target_rows=1) as fetcher:
        for number, _ in enumerate(fetcher):
            if number == 1:
                monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 20)  # while the caller uses the rows
    assert racks.asked[:3] == [(LEADER, 0), (REPLICA, 0), (LEADER, 0)]
    assert racks.asked[-1] == (REPLICA, 40)


def test_a_replica_that_the_cluster_does_not_know_is_not_looked_for_twice(racks: Racks) -> None:
    racks.named = GONE
    assert read(racks) == ALL
    assert racks.asked == [(LEADER, 0), *[(LEADER, offset) for offset in range(0, 50, 10)]]


def test_an_unreachable_replica_is_not_tried_twice(racks: Racks) -> None:
    racks.brokers.brokers[REPLICA].stop()
    assert read(racks) == ALL
    assert racks.asked == [(LEADER, 0), *[(LEADER, offset) for offset in range(0, 50, 10)]]


def test_the_leader_is_read_again_when_metadata_is_old(racks: Racks) -> None:
    racks.replica_does()
    assert read(racks, metadata_max_age_ms=0) == ALL
    turns = [[(LEADER, offset), (REPLICA, offset)] for offset in range(0, 50, 10)]
    assert racks.asked == [turn for both in turns for turn in both]


def test_a_leader_that_names_itself_is_read(racks: Racks) -> None:
    racks.named = LEADER
    racks.brokers.partition("t").high_watermark = 50
    with pytest.raises(Exception, match="nothing to read"):
        read(racks, default_api_timeout_ms=600)
    assert {node for node, _ in racks.asked} == {LEADER}
