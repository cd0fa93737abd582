from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafka_native._client.admin.committed_offsets import (
    OffsetAndMetadata,
    UnknownPartition,
    commit_each,
    commit_offsets,
    fetch_offsets,
    find_coordinator,
)
from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest
from spark_kafka_native._protocol.schema import Request
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Versions
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Pass, Refuse, Respond, Silent, Step

T = [TopicPartition("t", number) for number in range(3)]
U = TopicPartition("u", 0)
APIS: list[type[Request[Any]]] = [FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest]
CODES = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=3, topics={"t": 3, "u": 1}) as running:
        running.state.coordinator = 3
        yield running


def test_the_coordinator_is_found(brokers: ScriptedCluster, cluster: Cluster) -> None:
    node = find_coordinator(cluster, "g")
    assert (node.node_id, node.port) == (3, brokers.brokers[3].port)
    (request,) = brokers.requests(FindCoordinatorRequest)
    assert (request.key, request.key_type) == ("g", 0)


def test_offsets_come_back_as_they_were_committed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    detailed = OffsetAndMetadata(offset=7, leader_epoch=2, metadata="here")
    commit_offsets(cluster, "g", {T[0]: 5, T[1]: detailed, U: 0})
    assert fetch_offsets(cluster, "g", [T[0], T[1], T[2], U]) == {
        T[0]: OffsetAndMetadata(offset=5),
        T[1]: detailed,
        U: OffsetAndMetadata(offset=0),
    }
    assert fetch_offsets(cluster, "g", [T[1]]) == {T[1]: detailed}
    assert set(fetch_offsets(cluster, "g")) == {T[0], T[1], U}
    assert set(brokers.nodes(OffsetCommitRequest)) == {3}
    (request,) = brokers.requests(OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


def test_the_coordinator_is_looked_up_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for offset in range(3):
        commit_offsets(cluster, "g", {T[0]: offset})
        assert fetch_offsets(cluster, "g", T) == {T[0]: OffsetAndMetadata(offset=offset)}
    assert len(brokers.requests(FindCoordinatorRequest)) == 1


def test_a_group_without_commits_has_no_offsets(cluster: Cluster) -> None:
    assert fetch_offsets(cluster, "new", T) == {}
    assert fetch_offsets(cluster, "new") == {}


@pytest.mark.parametrize(("versions", "asked"), [(KAFKA_2_1, False), (KAFKA_4_3, True)], ids=["2.1", "4.3"])
def test_offsets_of_open_transactions_are_waited_for_where_brokers_can(versions: Versions, asked: bool) -> None:
    with ScriptedCluster(topics={"t": 3}, versions=versions, topic_ids=False) as brokers:
        brokers.script(OffsetFetchRequest, *([Refuse(ErrorCode.UNSTABLE_OFFSET_COMMIT)] if asked else []))
        with Cluster(brokers.config()) as cluster:
            commit_offsets(cluster, "g", {T[0]: 5})
            assert fetch_offsets(cluster, "g", T, require_stable=True) == {T[0]: OffsetAndMetadata(offset=5)}
            assert fetch_offsets(cluster, "g", T) == {T[0]: OffsetAndMetadata(offset=5)}
        requests = [request.require_stable for request in brokers.requests(OffsetFetchRequest)]
        assert requests == ([True, True, False] if asked else [False, False])


@pytest.mark.parametrize("step", [*BROKEN_CONNECTIONS, *map(Refuse, CODES)], ids=str)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.api_name)
def test_retriable_errors_are_retried(
    brokers: ScriptedCluster, cluster: Cluster, api: type[Request[Any]], step: Step
) -> None:
    brokers.script(api, step, step, Pass(), step)
    commit_offsets(cluster, "g", {T[0]: 5})
    assert fetch_offsets(cluster, "g", T) == {T[0]: OffsetAndMetadata(offset=5)}


@pytest.mark.parametrize(
    ("code", "tries"), [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4)]
)
def test_an_error_of_one_partition_is_returned_beside_the_commits_of_others(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode, tries: int
) -> None:
    accepted = OffsetCommitResponsePartition(partition_index=0)
    refused = OffsetCommitResponsePartition(partition_index=1, error_code=code)
    topic = OffsetCommitResponseTopic(name="t", partitions=(refused, accepted))
    brokers.script(OffsetCommitRequest, *[Respond(lambda _: OffsetCommitResponse(topics=(topic,)))] * 10)
    errors = commit_each(cluster, "g", {T[0]: 5, T[1]: 6})
    assert {partition: error.code for partition, error in errors.items()} == {T[1]: code}
    assert "group g, t-1" in str(errors[T[1]])
    assert len(brokers.requests(OffsetCommitRequest)) == tries


def test_a_coordinator_that_moves_is_followed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    commit_offsets(cluster, "g", {T[0]: 5})
    brokers.state.coordinator = 1
    commit_offsets(cluster, "g", {T[0]: 6})
    brokers.brokers[3].stop()
    assert fetch_offsets(cluster, "g", T) == {T[0]: OffsetAndMetadata(offset=6)}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_group_with_members_takes_no_commits_from_outside(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(OffsetCommitRequest, Refuse(code))
    with pytest.raises(KafkaError, match="group g, t-0: the group has active members") as caught:
        commit_offsets(cluster, "g", {T[0]: 5})
    assert caught.value.code is code


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.api_name)
def test_errors_that_are_not_retriable_name_the_group(
    brokers: ScriptedCluster, cluster: Cluster, api: type[Request[Any]]
) -> None:
    brokers.script(api, Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    call = (
        (lambda: fetch_offsets(cluster, "g", T))
        if api is OffsetFetchRequest
        else (lambda: commit_offsets(cluster, "g", {T[0]: 5}))
    )
    with pytest.raises(KafkaError, match=r"group g.*\(GROUP_AUTHORIZATION_FAILED, "):
        call()


def test_a_retriable_error_is_raised_after_the_deadline(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata([], timeout_ms=60_000)  # a connection is open before the deadline begins
    brokers.script(FindCoordinatorRequest, *[Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 5_000)
    with pytest.raises(KafkaError, match=r"coordinator of group g.*\(COORDINATOR_NOT_AVAILABLE, "):
        find_coordinator(cluster, "g", Deadline.after_ms(2_000))


def test_a_partition_that_does_not_exist_is_an_error_after_a_few_tries(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.script(OffsetCommitRequest, *[Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 3)
    commit_offsets(cluster, "g", {T[0]: 5})
    brokers.script(OffsetCommitRequest, *[Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 10_000)
    with pytest.raises(UnknownPartition, match="group g, t-0: the broker does not have this topic-partition"):
        commit_offsets(cluster, "g", {T[0]: 5})
    assert len(brokers.requests(OffsetCommitRequest)) == 8


def test_other_errors_do_not_count_as_tries_of_a_partition_that_does_not_exist(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    loads, unknown = Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    brokers.script(OffsetCommitRequest, *[loads] * UNKNOWN_TOPIC_TRIES, *[unknown] * (UNKNOWN_TOPIC_TRIES - 1))
    commit_offsets(cluster, "g", {T[0]: 5})
    assert fetch_offsets(cluster, "g", T) == {T[0]: OffsetAndMetadata(offset=5)}


def test_brokers_that_cannot_list_all_committed_offsets_are_named() -> None:
    versions = {**KAFKA_0_11, 9: (0, 1)}
    with (
        ScriptedCluster(topics={"t": 3}, versions=versions, topic_ids=False) as brokers,
        Cluster(brokers.config()) as cluster,
    ):
        assert fetch_offsets(cluster, "g", T) == {}
        with pytest.raises(KafkaError, match=r"group g: 127\.0\.0\.1:\d+ returns the offsets of given partitions only"):
            fetch_offsets(cluster, "g")


def test_an_unreachable_coordinator_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    port = brokers.brokers[3].port
    brokers.brokers[3].stop()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}: connection refused"):
        commit_offsets(cluster, "g", {T[0]: 5}, timeout_ms=600)


def test_a_request_to_a_coordinator_that_does_not_respond_is_retried(brokers: ScriptedCluster) -> None:
    brokers.script(OffsetFetchRequest, Silent())
    with Cluster(brokers.config(request_timeout_ms=200)) as cluster:
        assert fetch_offsets(cluster, "g", T) == {}


@pytest.mark.parametrize(
    ("versions", "spoken"),
    [(KAFKA_0_11, (1, 3, 3)), (KAFKA_2_1, (2, 6, 5)), (KAFKA_4_3, (3, 9, 7))],
    ids=["0.11", "2.1", "4.3"],
)
def test_every_release_of_brokers_gets_its_newest_version(versions: Versions, spoken: tuple[int, int, int]) -> None:
    with ScriptedCluster(topics={"t": 3}, versions=versions, topic_ids=False) as brokers:
        with Cluster(brokers.config()) as cluster:
            commit_offsets(cluster, "g", {T[0]: 5})
            assert fetch_offsets(cluster, "g") == {T[0]: OffsetAndMetadata(offset=5)}
        found = {type(request): version for _, request, version in brokers.received}
        assert tuple(found[api] for api in APIS) == spoken
