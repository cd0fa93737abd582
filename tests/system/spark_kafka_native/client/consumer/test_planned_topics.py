"""Topic ids compared where Fetch requests have names; whole tasks are in spark/source/test_reader.py."""

import dataclasses
import uuid
from collections.abc import Iterator, Sequence

import pytest

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.planned_topics import compare_topic_ids
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import TopicRecreated
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fetched_logs import LAST, OneRange, fill
from tests.support.scripted.fixtures import client_of_brokers
from tests.support.scripted.steps import Pass, Refuse, Respond, Silent

LAST_VERSION_WITH_NAMES = 12
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    """With Fetch up to version 12, or up to that of the parameter."""
    versions = {**KAFKA_4_3, 1: (4, getattr(request, "param", 12))}
    with ScriptedCluster(topics={"t": 2, "u": 1}, versions=versions) as running:
        for tp in (T0, T1, U0):
            fill(running.partition(tp.topic, tp.partition))
        yield running


cluster = client_of_brokers()


def planned_ranges(cluster: Cluster, *, without_id: Sequence[TopicPartition] = ()) -> list[PartitionRange]:
    leaders = cluster.leaders([T0, T1, U0])
    return [
        PartitionRange(
            partition=tp, from_offset=0, until_offset=LAST, leader=id_less(leader) if tp in without_id else leader
        )
        for tp, leader in leaders.items()
    ]


def read_all(brokers: ScriptedCluster, cluster: Cluster, wanted: list[PartitionRange]) -> list[MetadataRequest]:
    """Read every row of three partitions -> the Metadata requests of reading."""
    before = len(brokers.requests(MetadataRequest))
    with row_fetcher(cluster, wanted) as fetcher:
        assert sum(records.num_rows for _, records in fetcher) == 3 * LAST
    return brokers.requests(MetadataRequest)[before:]


def id_less(leader: PartitionLeader) -> PartitionLeader:
    """As a broker before 2.8 describes the leader."""
    return leader._replace(topic_id=ZERO_UUID)


def give_id(brokers: ScriptedCluster, topic: str, topic_id: uuid.UUID) -> None:
    with brokers.state.lock:
        brokers.state.topics[topic].topic_id = topic_id


def test_ids_are_compared_before_the_first_fetch_and_after_the_last(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = planned_ranges(cluster)
    asked = read_all(brokers, cluster, wanted)
    assert [[topic.name for topic in request.topics or ()] for request in asked] == [["t", "u"], ["t", "u"]]
    order = [type(request) for _, request, _ in brokers.received if isinstance(request, MetadataRequest | FetchRequest)]
    assert order[-1] is MetadataRequest
    assert order.index(FetchRequest) == order.index(MetadataRequest) + 2


@pytest.mark.parametrize("brokers", [13], indirect=True)
def test_fetch_requests_with_ids_need_no_comparison(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = planned_ranges(cluster)
    assert read_all(brokers, cluster, wanted) == []


def test_another_topic_is_found_before_its_first_fetch(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = planned_ranges(cluster)
    give_id(brokers, "u", uuid.uuid4())
    with row_fetcher(cluster, wanted) as fetcher:
        with pytest.raises(TopicRecreated, match="u-0: the topic was deleted and created again"):
            list(fetcher)
        assert (fetcher.failed, fetcher.position(U0)) == (U0, 0)
        fetcher.remove(U0)
        assert sum(records.num_rows for _, records in fetcher) == 2 * LAST
    assert not any(topic.topic == "u" for request in brokers.requests(FetchRequest) for topic in request.topics)


def test_another_topic_is_found_after_the_last_fetch(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with row_fetcher(cluster, planned_ranges(cluster)) as fetcher:
        rows = iter(fetcher)
        count = next(rows)[1].num_rows
        give_id(brokers, "u", uuid.uuid4())
        counts: list[int] = []
        with pytest.raises(TopicRecreated, match="u-0: the topic was deleted and created again"):
            counts.extend(records.num_rows for _, records in rows)
        assert count + sum(counts) == 3 * LAST
        assert (fetcher.failed, fetcher.position(U0)) == (U0, LAST)


@pytest.mark.parametrize("brokers", [12, KAFKA_4_3[1][1]], indirect=True)
def test_a_topic_that_a_broker_does_not_have_yet_is_looked_up_again(brokers: ScriptedCluster) -> None:
    """The topic was created again shortly before the plan."""
    with Cluster(brokers.config()) as planning:
        leader = planning.leader(T0)

    def lagging(request: MetadataRequest) -> MetadataResponse:
        response = brokers.brokers[1].carry_out(request, KAFKA_4_3[3][1])
        assert isinstance(response, MetadataResponse)
        topics = tuple(dataclasses.replace(topic, topic_id=uuid.UUID(int=7)) for topic in response.topics)
        return dataclasses.replace(response, topics=topics)

    brokers.script(FetchRequest, Refuse(ErrorCode.UNKNOWN_TOPIC_ID))
    brokers.script(MetadataRequest, Respond(lagging), Respond(lagging), Pass(), Respond(lagging))
    with Cluster(brokers.config()) as cluster, OneRange(cluster, T0, 0, LAST, leader=leader) as fetcher:
        assert sum(batch.num_rows for batch in fetcher) == LAST


def test_a_topic_that_is_deleted_after_the_last_fetch_cannot_be_confirmed(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    planned = {tp: leader.topic_id for tp, leader in cluster.leaders([T0, U0]).items()}
    with brokers.state.lock:
        del brokers.state.topics["t"]
    errors = compare_topic_ids(cluster, planned, Deadline.after_ms(30_000))
    assert list(errors) == [T0]
    assert errors[T0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(errors[T0]).startswith("topic t")


def test_the_last_comparison_has_the_time_of_a_metadata_call(brokers: ScriptedCluster) -> None:
    """``default.api.timeout.ms``, and not the longest wait for records, within which the topic would be there again."""
    with Cluster(brokers.config()) as planning:
        leader = planning.leader(T0)
    refused = [Refuse(ErrorCode.LEADER_NOT_AVAILABLE)] * 40
    brokers.script(MetadataRequest, Pass(), *refused)
    config = brokers.config(default_api_timeout_ms=300, retry_backoff_ms=100, retry_backoff_max_ms=100)
    with (
        Cluster(config) as cluster,
        OneRange(cluster, T0, 0, LAST, leader=leader, timeout_ms=60_000) as fetcher,
        pytest.raises(KafkaError, match="topic t") as caught,
    ):
        list(fetcher)
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_the_last_metadata_error_is_raised_if_the_next_metadata_call_times_out(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    planned = {tp: leader.topic_id for tp, leader in cluster.leaders([T0, U0]).items()}
    brokers.script(MetadataRequest, Refuse(ErrorCode.LEADER_NOT_AVAILABLE), *[Silent()] * 40)
    errors = compare_topic_ids(cluster, planned, Deadline.after_ms(1_000))
    assert {tp: error.code for tp, error in errors.items()} == dict.fromkeys([T0, U0], ErrorCode.LEADER_NOT_AVAILABLE)


def test_without_any_metadata_the_comparison_raises(brokers: ScriptedCluster, cluster: Cluster) -> None:
    planned = {T0: cluster.leader(T0).topic_id}
    brokers.script(MetadataRequest, *[Silent()] * 40)
    with pytest.raises(BrokerUnreachable, match="no response to Metadata within"):
        compare_topic_ids(cluster, planned, Deadline.after_ms(300))


def test_a_topic_whose_leader_is_being_elected_is_waited_for(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = planned_ranges(cluster)
    brokers.script(MetadataRequest, *[Refuse(ErrorCode.LEADER_NOT_AVAILABLE)] * 2 * UNKNOWN_TOPIC_TRIES)
    read_all(brokers, cluster, wanted)


def test_a_response_without_topic_ids_confirms_no_topic(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """In a cluster that is being upgraded from a release before 2.8, any broker may answer."""
    wanted = planned_ranges(cluster)
    give_id(brokers, "u", ZERO_UUID)
    read_all(brokers, cluster, wanted)


def test_partitions_without_a_planned_id_are_not_compared(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = planned_ranges(cluster, without_id=[T0, T1, U0])
    assert read_all(brokers, cluster, wanted) == []


# --- brokers with topic ids in Fetch requests, and metadata without them


def fetch_versions(brokers: ScriptedCluster) -> list[int]:
    return [version for _, request, version in brokers.received if isinstance(request, FetchRequest)]


@pytest.mark.parametrize("brokers", [KAFKA_4_3[1][1]], indirect=True)
def test_a_joint_request_by_name_is_compared_whatever_version_the_broker_offers(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    """One topic without an id makes the whole Fetch of its leader one of names."""
    leaders = cluster.leaders([T0, U0])
    wanted = [
        PartitionRange(partition=T0, from_offset=0, until_offset=LAST, leader=leaders[T0]),
        PartitionRange(partition=U0, from_offset=0, until_offset=LAST, leader=id_less(leaders[U0])),
    ]
    with row_fetcher(cluster, wanted) as fetcher:
        rows = iter(fetcher)
        next(rows)
        give_id(brokers, "t", uuid.uuid4())
        with pytest.raises(TopicRecreated, match="t-0: the topic was deleted"):
            list(rows)
    assert set(fetch_versions(brokers)) == {LAST_VERSION_WITH_NAMES}


@pytest.mark.parametrize("brokers", [KAFKA_4_3[1][1]], indirect=True)
def test_a_leader_that_was_found_again_without_an_id_does_not_replace_the_planned_topic(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    planned = cluster.leader(T0)
    give_id(brokers, "t", ZERO_UUID)
    brokers.script(FetchRequest, Refuse(ErrorCode.UNKNOWN_TOPIC_ID), Pass(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with Cluster(brokers.config(max_partition_fetch_bytes=1)) as one_by_one:
        with OneRange(one_by_one, T0, 0, LAST, leader=planned, target_rows=1) as fetcher:
            rows = iter(fetcher)
            next(rows)
            give_id(brokers, "t", uuid.uuid4())
            with pytest.raises(TopicRecreated, match="t-0: the topic was deleted"):
                list(rows)
        assert fetch_versions(brokers)[1] == LAST_VERSION_WITH_NAMES
        assert fetcher.position < LAST
