"""What a Fetch says on the wire, and whose part of an answer is whose."""

import uuid
from collections.abc import Iterator

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import NO_EPOCH, Node, PartitionLeader
from spark_kafka_native.client.consumer.fetch_request import Wanted, parts_of, receive_fetch, replica_named, send_fetch
from spark_kafka_native.client.consumer.planned_topics import PlannedTopics
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import RequestTimeout
from spark_kafka_native.protocol.messages import FetchRequest, FetchResponse
from spark_kafka_native.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.scripted_broker import KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Silent, Versions

LEADER = PartitionLeader(node=Node(node_id=1, host="b", port=1), leader_epoch=4)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(topics={"a": 2, "b": 1}) as running:
        yield running


def ask(
    brokers: ScriptedCluster,
    wanted: list[TopicPartition],
    *,
    forget_id_of: str = "",
    other_id_of: TopicPartition | None = None,
    timeout_ms: float = 5.0,
) -> tuple[FetchRequest, FetchResponse]:
    with Cluster(brokers.config(fetch_max_wait_ms=7)) as cluster:
        leaders = cluster.leaders(wanted)
        if forget_id_of:
            forgotten = {
                tp: leaders[tp]._replace(topic_id=uuid.UUID(int=0)) for tp in wanted if tp.topic == forget_id_of
            }
            leaders |= forgotten
        if other_id_of is not None:
            leaders[other_id_of] = leaders[other_id_of]._replace(topic_id=uuid.uuid4())
        asked = {
            tp: Wanted(leader=leaders[tp], offset=0, epoch=-1 if tp == B0 else 0, max_bytes=100 + tp.partition)
            for tp in wanted
        }
        with cluster.lent(leaders[wanted[0]].node, Deadline.after_ms(5_000)) as connection:
            send_fetch(
                connection,
                cluster.config,
                asked,
                planned=PlannedTopics(cluster, {}),
                max_bytes=900,
                isolation=1,
                deadline=Deadline.after_ms(timeout_ms),
                rack="r",
            )
            answer = receive_fetch(connection, cluster.config, timeout_ms)
        assert parts_of(answer, leaders).keys() == set(wanted)
    (request,) = brokers.requests(FetchRequest)
    return request, answer


def test_partitions_come_in_their_order_and_topics_once(brokers: ScriptedCluster) -> None:
    request, _ = ask(brokers, [B0, A1, A0])
    assert [[part.partition for part in topic.partitions] for topic in request.topics] == [[0], [1, 0]]
    assert [part.partition_max_bytes for topic in request.topics for part in topic.partitions] == [100, 101, 100]
    assert [part.last_fetched_epoch for topic in request.topics for part in topic.partitions] == [NO_EPOCH, 0, 0]
    assert (request.max_bytes, request.isolation_level, request.rack_id, request.max_wait_ms) == (900, 1, "r", 5)


def test_ids_of_a_topic_that_was_made_again_are_not_mixed_up(brokers: ScriptedCluster) -> None:
    request, answer = ask(brokers, [A0, A1], other_id_of=A1)
    assert len({topic.topic_id for topic in request.topics}) == len(request.topics) == 2
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == [0, 100]


def test_one_topic_without_an_id_has_all_named(brokers: ScriptedCluster) -> None:
    request, _ = ask(brokers, [A0, B0], forget_id_of="b")
    assert [topic.topic for topic in request.topics] == ["a", "b"]
    assert brokers.received[-1][2] == 12


@pytest.mark.parametrize(("versions", "names"), [(KAFKA_4_3, ["", ""]), (KAFKA_2_1, ["a", "b"])])
def test_old_brokers_get_names_and_no_epochs_of_records(versions: Versions, names: list[str]) -> None:
    with ScriptedCluster(topics={"a": 2, "b": 1}, versions=versions) as brokers:
        request, _ = ask(brokers, [A0, B0])
    assert [topic.topic for topic in request.topics] == names
    assert request.topics[0].partitions[0].last_fetched_epoch == (0 if versions is KAFKA_4_3 else NO_EPOCH)


def test_an_answer_is_waited_for_a_moment_longer_than_the_broker_waits(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, Silent())
    with pytest.raises(RequestTimeout, match="within 1005 ms"):
        ask(brokers, [A0])


def test_parts_are_found_by_id_and_by_name() -> None:
    topic_id = uuid.uuid4()
    one, other = PartitionData(partition_index=0), PartitionData(partition_index=1)
    answer = FetchResponse(
        responses=(
            FetchableTopicResponse(topic_id=topic_id, partitions=(other,)),
            FetchableTopicResponse(topic="b", partitions=(one,)),
        )
    )
    assert parts_of(answer, {A1: LEADER._replace(topic_id=topic_id), B0: LEADER}) == {A1: other, B0: one}


@pytest.mark.parametrize(("named", "records", "found"), [(2, b"", 2), (2, None, 2), (2, b"r", None), (1, b"", None)])
def test_a_replica_counts_where_it_is_another_and_nothing_came(
    named: int, records: bytes | None, found: int | None
) -> None:
    assert replica_named(PartitionData(preferred_read_replica=named, records=records), LEADER) == found
    assert replica_named(PartitionData(records=records), LEADER) is None
