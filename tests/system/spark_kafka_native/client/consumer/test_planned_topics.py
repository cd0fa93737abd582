"""Topic ids compared where Fetch requests have names; whole tasks are in spark/source/test_task_reader.py."""

import dataclasses
import uuid
from collections.abc import Iterator, Mapping

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import PartitionLeader
from spark_kafka_native.client.consumer.fetch_request import Wanted, receive_fetch, send_fetch
from spark_kafka_native.client.consumer.fetcher import Fetcher
from spark_kafka_native.client.consumer.joint_fetcher import JointFetcher, PartitionRange
from spark_kafka_native.client.consumer.planned_topics import FETCH_WITH_IDS, PlannedTopics
from spark_kafka_native.client.errors import TopicRecreated
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages import FetchRequest, MetadataRequest, MetadataResponse
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID
from tests.support.fetched_logs import LAST, fill
from tests.support.scripted_broker import KAFKA_4_3, Pass, Refuse, Respond, ScriptedCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    """With Fetch up to version 12, or up to that of the parameter."""
    versions = {**KAFKA_4_3, 1: (4, getattr(request, "param", 12))}
    with ScriptedCluster(topics={"t": 2, "u": 1}, versions=versions) as running:
        yield running


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    with Cluster(brokers.config()) as made:
        yield made


class Reader:
    """A reader of ``partitions``, as ``JointFetcher`` uses ``PlannedTopics``."""

    def __init__(
        self, cluster: Cluster, *, planned: Mapping[TopicPartition, PartitionLeader | None] | None = None
    ) -> None:
        self._cluster = cluster
        self._leaders = cluster.leaders([T0, T1, U0])
        self._planned = PlannedTopics(cluster, self._leaders if planned is None else planned)

    def first(self) -> None:
        wanted = {tp: Wanted(leader=leader, offset=0, max_bytes=1) for tp, leader in self._leaders.items()}
        with self._cluster.lent(self._leaders[T0].node, Deadline.after_ms(30_000)) as connection:
            send_fetch(
                connection,
                self._cluster.config,
                wanted,
                planned=self._planned,
                max_bytes=1,
                isolation=0,
                deadline=Deadline.after_ms(30_000),
                rack="",
            )
            receive_fetch(connection, self._cluster.config, 30_000)

    def last(self) -> None:
        self._planned.check_last()


def id_less(leader: PartitionLeader) -> PartitionLeader:
    """As a broker before 2.8 describes the leader."""
    return leader._replace(topic_id=ZERO_UUID)


def give_id(brokers: ScriptedCluster, topic: str, topic_id: uuid.UUID) -> None:
    with brokers.state.lock:
        brokers.state.topics[topic].topic_id = topic_id


def test_ids_are_compared_at_the_start_and_at_the_end(brokers: ScriptedCluster, cluster: Cluster) -> None:
    reader = Reader(cluster)
    before = len(brokers.requests(MetadataRequest))
    reader.first()
    reader.first()  # over another connection
    reader.last()
    asked = brokers.requests(MetadataRequest)[before:]
    assert [[topic.name for topic in request.topics or ()] for request in asked] == [["t", "u"], ["t", "u"]]


@pytest.mark.parametrize("brokers", [13], indirect=True)
def test_fetch_requests_with_ids_need_no_comparison(brokers: ScriptedCluster, cluster: Cluster) -> None:
    reader = Reader(cluster)
    before = len(brokers.requests(MetadataRequest))
    give_id(brokers, "u", uuid.uuid4())
    reader.first()
    reader.last()
    assert len(brokers.requests(MetadataRequest)) == before


def test_another_topic_is_found_before_and_after_the_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    early, late = Reader(cluster), Reader(cluster)
    late.first()
    give_id(brokers, "u", uuid.uuid4())
    for check in (early.first, late.last):
        with pytest.raises(TopicRecreated, match="u-0: the topic was deleted and created again"):
            check()


@pytest.mark.parametrize("brokers", [12, KAFKA_4_3[1][1]], indirect=True)
def test_a_broker_that_does_not_know_of_the_topic_yet_is_asked_again(brokers: ScriptedCluster) -> None:
    """The topic was created again shortly before the plan."""
    fill(brokers.partition("t"))
    with Cluster(brokers.config()) as planning:
        leader = planning.leader(T0)

    def lagging(request: MetadataRequest) -> MetadataResponse:
        answer = brokers.brokers[1].carry_out(request, KAFKA_4_3[3][1])
        assert isinstance(answer, MetadataResponse)
        topics = tuple(dataclasses.replace(topic, topic_id=uuid.UUID(int=7)) for topic in answer.topics)
        return dataclasses.replace(answer, topics=topics)

    brokers.script(FetchRequest, Refuse(ErrorCode.UNKNOWN_TOPIC_ID))
    brokers.script(MetadataRequest, Respond(lagging), Respond(lagging), Pass(), Respond(lagging))
    with Cluster(brokers.config()) as cluster, Fetcher(cluster, T0, 0, LAST, leader=leader) as fetcher:
        assert sum(batch.num_rows for batch in fetcher) == LAST


def test_a_topic_that_is_gone_cannot_be_confirmed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.first()
    with brokers.state.lock:
        del brokers.state.topics["t"]
    with pytest.raises(KafkaError, match="topic t") as caught:
        reader.last()
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("together", [False, True], ids=["Fetcher", "JointFetcher"])
def test_the_last_comparison_has_the_time_of_a_metadata_call(brokers: ScriptedCluster, together: bool) -> None:
    """``default.api.timeout.ms``, and not the longest wait for records, within which the topic would be there again."""
    fill(brokers.partition("t"))
    with Cluster(brokers.config()) as planning:
        leader = planning.leader(T0)
    refused = [Refuse(ErrorCode.LEADER_NOT_AVAILABLE)] * 40
    brokers.script(MetadataRequest, Pass(), *refused)
    config = brokers.config(default_api_timeout_ms=300, retry_backoff_ms=100, retry_backoff_max_ms=100)
    with Cluster(config) as cluster:
        reader = (
            JointFetcher(
                cluster,
                [PartitionRange(partition=T0, from_offset=0, until_offset=LAST, leader=leader)],
                timeout_ms=60_000,
            )
            if together
            else Fetcher(cluster, T0, 0, LAST, leader=leader, timeout_ms=60_000)
        )
        with reader, pytest.raises(KafkaError, match="topic t") as caught:
            list(reader)
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_broker_without_ids_proves_nothing(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """In a cluster that is being upgraded from a release before 2.8, any broker may answer."""
    reader = Reader(cluster)
    give_id(brokers, "u", ZERO_UUID)
    reader.first()
    reader.last()


def test_partitions_without_a_planned_id_are_not_compared(brokers: ScriptedCluster, cluster: Cluster) -> None:
    leader = cluster.leader(T0)
    reader = Reader(cluster, planned={T0: None, U0: id_less(leader)})
    before = len(brokers.requests(MetadataRequest))
    reader.first()
    reader.last()
    assert len(brokers.requests(MetadataRequest)) == before


# --- brokers with topic ids in Fetch requests, and metadata without them


def fetch_versions(brokers: ScriptedCluster) -> list[int]:
    return [version for _, request, version in brokers.received if isinstance(request, FetchRequest)]


@pytest.mark.parametrize("brokers", [KAFKA_4_3[1][1]], indirect=True)
def test_a_joint_request_by_name_is_compared_whatever_version_the_broker_offers(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """One topic without an id makes the whole Fetch of its leader one of names."""
    leaders = cluster.leaders([T0, U0])
    for topic in ("t", "u"):
        fill(brokers.partition(topic))
    wanted = [
        PartitionRange(partition=T0, from_offset=0, until_offset=LAST, leader=leaders[T0]),
        PartitionRange(partition=U0, from_offset=0, until_offset=LAST, leader=id_less(leaders[U0])),
    ]
    with JointFetcher(cluster, wanted) as joint:
        rows = iter(joint)
        next(rows)
        give_id(brokers, "t", uuid.uuid4())
        with pytest.raises(TopicRecreated, match="t-0: the topic was deleted"):
            list(rows)
    assert set(fetch_versions(brokers)) == {FETCH_WITH_IDS - 1}


@pytest.mark.parametrize("brokers", [KAFKA_4_3[1][1]], indirect=True)
def test_a_leader_that_was_found_again_without_an_id_does_not_replace_the_planned_topic(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    planned = cluster.leader(T0)
    fill(brokers.partition("t"))
    give_id(brokers, "t", ZERO_UUID)
    brokers.script(FetchRequest, Refuse(ErrorCode.UNKNOWN_TOPIC_ID), Pass(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with Cluster(brokers.config(max_partition_fetch_bytes=1)) as one_by_one:
        with Fetcher(one_by_one, T0, 0, LAST, leader=planned, target_rows=1) as fetcher:
            rows = iter(fetcher)
            next(rows)
            give_id(brokers, "t", uuid.uuid4())
            with pytest.raises(TopicRecreated, match="t-0: the topic was deleted"):
                list(rows)
        assert fetch_versions(brokers)[1] == FETCH_WITH_IDS - 1
        assert fetcher.position < LAST
