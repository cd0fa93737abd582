"""Topic ids compared where Fetch requests have names; whole tasks are in spark/source/test_task_reader.py."""

import uuid
from collections.abc import Iterator

import pytest

from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.errors import TopicRecreated
from spark_kafka_native.client.planned_topics import PlannedTopics
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages import MetadataRequest
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID
from tests.support.scripted_broker import KAFKA_4_3, ScriptedCluster

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
    """A reader of all partitions, as ``Fetcher`` uses ``PlannedTopics``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leaders = cluster.leaders([T0, T1, U0])
        self._planned = PlannedTopics(cluster, self._leaders)

    def first(self) -> None:
        with self._cluster.lent(self._leaders[T0].node, Deadline.after_ms(30_000)) as connection:
            self._planned.check_first(connection, Deadline.after_ms(30_000))

    def last(self) -> None:
        self._planned.check_last(Deadline.after_ms(30_000))


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


def test_a_topic_that_is_gone_cannot_be_confirmed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.first()
    with brokers.state.lock:
        del brokers.state.topics["t"]
    with pytest.raises(KafkaError, match="topic t") as caught:
        reader.last()
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_without_ids_proves_nothing(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """In a cluster that is being upgraded from a release before 2.8, any broker may answer."""
    reader = Reader(cluster)
    give_id(brokers, "u", ZERO_UUID)
    reader.first()
    reader.last()


def test_partitions_without_a_planned_id_are_not_compared(brokers: ScriptedCluster, cluster: Cluster) -> None:
    leader = cluster.leader(T0)
    planned = PlannedTopics(cluster, {T0: None, U0: leader._replace(topic_id=ZERO_UUID)})
    before = len(brokers.requests(MetadataRequest))
    with cluster.lent(leader.node, Deadline.after_ms(30_000)) as connection:
        planned.check_first(connection, Deadline.after_ms(30_000))
    planned.check_last(Deadline.after_ms(30_000))
    assert len(brokers.requests(MetadataRequest)) == before
