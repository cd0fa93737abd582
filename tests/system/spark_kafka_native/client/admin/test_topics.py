from collections.abc import Iterator

import pytest

from spark_kafka_native._client.admin.topics import (
    NewTopic,
    TopicsError,
    create_partitions,
    create_topics,
    delete_topics,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.errors import BrokerUnreachable, UnsupportedApiVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, ScriptedCluster
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Refuse, Respond, Silent, Step


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=3, topics={"t": 1}) as running:
        running.state.controller = 2
        yield running


def test_topics_are_created_at_the_controller(brokers: ScriptedCluster, cluster: Cluster) -> None:
    create_topics(cluster, [NewTopic(name="a", partitions=3), NewTopic(name="b", configs={"retention.ms": "5"})])
    assert set(brokers.nodes(CreateTopicsRequest)) == {2}
    assert len(cluster.metadata(["a"]).topics["a"].partitions) == 3
    (request,) = brokers.requests(CreateTopicsRequest)
    a, b = request.topics
    assert (a.name, a.num_partitions, a.replication_factor) == ("a", 3, -1)
    assert [(config.name, config.value) for config in b.configs] == [("retention.ms", "5")]


def test_replica_assignments_replace_the_two_numbers(brokers: ScriptedCluster, cluster: Cluster) -> None:
    create_topics(cluster, [NewTopic(name="a", partitions=9, assignments={0: (2, 1), 1: (3, 2)})])
    (topic,) = brokers.requests(CreateTopicsRequest)[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(part.partition_index, part.broker_ids) for part in topic.assignments] == [(0, (2, 1)), (1, (3, 2))]


def test_validate_only_creates_no_topic(brokers: ScriptedCluster, cluster: Cluster) -> None:
    create_topics(cluster, [NewTopic(name="a", partitions=3)], validate_only=True)
    assert "a" not in brokers.state.topics


def test_refused_topics_are_named_and_the_others_are_created(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with pytest.raises(TopicsError) as caught:
        create_topics(cluster, [NewTopic(name="t"), NewTopic(name="a")])
    assert list(caught.value.errors) == ["t"]
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert "topic t" in str(caught.value)
    assert caught.value.reasons == [ErrorCode.TOPIC_ALREADY_EXISTS.message]
    assert "a" in brokers.state.topics


def test_topics_error_has_the_brokers_messages(brokers: ScriptedCluster, cluster: Cluster) -> None:
    result = CreatableTopicResult(
        name="a", error_code=ErrorCode.INVALID_CONFIG, error_message="retention.ms: not a number"
    )
    brokers.script(CreateTopicsRequest, Respond(lambda _: CreateTopicsResponse(topics=(result,))))
    with pytest.raises(TopicsError, match=r"topic a: retention.ms: not a number") as caught:
        create_topics(cluster, [NewTopic(name="a")])
    assert caught.value.reasons == ["retention.ms: not a number"]


def test_a_topic_missing_from_the_response_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(CreateTopicsRequest, Respond(lambda _: CreateTopicsResponse()))
    with pytest.raises(TopicsError, match="topic a: the response does not name it"):
        create_topics(cluster, [NewTopic(name="a")])


def test_a_controller_that_moves_is_followed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(CreateTopicsRequest, Refuse(ErrorCode.NOT_CONTROLLER), Refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    create_topics(cluster, [NewTopic(name="a")])
    brokers.state.controller = 3
    create_topics(cluster, [NewTopic(name="b")])
    assert {"a", "b"} <= set(brokers.state.topics)


def test_without_a_controller_any_broker_gets_the_request(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.controller = -1
    result = CreatableTopicResult(name="a")
    brokers.script(CreateTopicsRequest, Respond(lambda _: CreateTopicsResponse(topics=(result,))))
    create_topics(cluster, [NewTopic(name="a")])
    assert len(brokers.requests(CreateTopicsRequest)) == 1


@pytest.mark.parametrize("step", BROKEN_CONNECTIONS, ids=str)
def test_topics_are_created_although_responses_are_lost(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    brokers.script(CreateTopicsRequest, step)
    create_topics(cluster, [NewTopic(name="a"), NewTopic(name="b")])
    assert {"a", "b"} <= set(brokers.state.topics)


@pytest.mark.parametrize("step", BROKEN_CONNECTIONS, ids=str)
def test_topics_are_deleted_although_responses_are_lost(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    brokers.state.create("u", 1)
    brokers.script(DeleteTopicsRequest, step)
    delete_topics(cluster, ["t", "u"])
    assert not brokers.state.topics


@pytest.mark.parametrize("step", BROKEN_CONNECTIONS, ids=str)
def test_partitions_are_added_although_responses_are_lost(
    brokers: ScriptedCluster, cluster: Cluster, step: Step
) -> None:
    brokers.script(CreatePartitionsRequest, step)
    create_partitions(cluster, {"t": 5})
    assert len(cluster.topic("t").partitions) == 5


def test_cached_metadata_of_changed_topics_is_dropped(cluster: Cluster) -> None:
    assert len(cluster.topic("t").partitions) == 1
    create_partitions(cluster, {"t": 2})
    assert len(cluster.topic("t").partitions) == 2
    delete_topics(cluster, iter(["t"]))
    with pytest.raises(KafkaError, match="topic t"):
        cluster.topic("t")


def test_deleting_an_unknown_topic_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(TopicsError) as caught:
        delete_topics(cluster, ["missing"])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fewer_partitions_are_refused(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with pytest.raises(TopicsError) as caught:
        create_partitions(cluster, {"t": 1})
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS


def test_a_retriable_error_is_raised_after_the_deadline(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(CreateTopicsRequest, *[Refuse(ErrorCode.NOT_CONTROLLER)] * 5_000)
    with pytest.raises(TopicsError) as caught:
        create_topics(cluster, [NewTopic(name="a")], timeout_ms=2_000)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_a_controller_that_does_not_respond_is_named(brokers: ScriptedCluster) -> None:
    brokers.script(CreateTopicsRequest, *[Silent()] * 20)
    named = f"127.0.0.1:{brokers.brokers[2].port}: no response to CreateTopics"
    with Cluster(brokers.config(request_timeout_ms=150)) as cluster, pytest.raises(TopicsError, match=named):
        create_topics(cluster, [NewTopic(name="a")], timeout_ms=500)


def test_broker_unreachable_names_every_broker(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata()
    brokers.close()
    with pytest.raises(TopicsError) as caught:
        create_topics(cluster, [NewTopic(name="a")], timeout_ms=600)
    (error,) = caught.value.errors.values()
    assert isinstance(error, BrokerUnreachable)
    assert len(error.tried) == 3


@pytest.mark.parametrize(("versions", "spoken"), [(KAFKA_0_11, (2, 1)), (KAFKA_2_1, (3, 3))])
def test_old_brokers_get_the_versions_that_they_have(
    versions: dict[int, tuple[int, int]], spoken: tuple[int, int]
) -> None:
    with ScriptedCluster(versions=versions, topic_ids=False) as brokers, Cluster(brokers.config()) as cluster:
        create_topics(cluster, [NewTopic(name="a", partitions=2, replication_factor=1)])
        delete_topics(cluster, ["a"])
        found = {type(request): version for _, request, version in brokers.received}
        assert (found[CreateTopicsRequest], found[DeleteTopicsRequest]) == spoken


def test_an_api_that_old_brokers_lack_is_named() -> None:
    with (
        ScriptedCluster(topics={"t": 1}, versions=KAFKA_0_11) as brokers,
        Cluster(brokers.config()) as cluster,
        pytest.raises(UnsupportedApiVersion, match="CreatePartitions"),
    ):
        create_partitions(cluster, {"t": 2})
