import struct
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.admin.groups import delete_group, delete_offsets, describe_group, list_groups
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from spark_kafka_native._protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from spark_kafka_native._protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from spark_kafka_native._protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from spark_kafka_native._protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.steps import Drop, Respond

CLASSIC = {
    request.api_key: (request.min_version, request.max_version)
    for request in (ListGroupsRequest, DescribeGroupsRequest, DeleteGroupsRequest, OffsetDeleteRequest)
}
EVERY = {**CLASSIC, ConsumerGroupDescribeRequest.api_key: (0, 1)}
ASSIGNMENT = struct.pack(">hih1siiii", 0, 1, 1, b"t", 2, 0, 2, -1)


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
    apis = getattr(request, "param", EVERY)
    with ScriptedCluster(brokers=2, topics={"t": 3}, versions={**KAFKA_4_3, **apis}) as running:
        running.state.coordinator = 2
        yield running


def newer(error: ErrorCode = ErrorCode.NONE) -> Respond:
    assignment = Assignment(topic_partitions=(TopicPartitions(topic_name="t", partitions=(1, 2)),))
    member = Member(member_id="m", client_id="c", client_host="/127.0.0.1", assignment=assignment)
    group = DescribedGroup(error_code=error, group_state="Stable", assignor_name="uniform", members=(member,))
    return Respond(lambda _: ConsumerGroupDescribeResponse(groups=(group,)))


def classic(
    state: str = "Stable",
    error: ErrorCode = ErrorCode.NONE,
    protocol_type: str = "consumer",
    assignment: bytes = ASSIGNMENT,
) -> Respond:
    member = DescribedGroupMember(member_id="m", client_id="c", client_host="/::1", member_assignment=assignment)
    group = DescribedClassicGroup(
        error_code=error, group_state=state, protocol_type=protocol_type, protocol_data="range", members=(member,)
    )
    return Respond(lambda _: DescribeGroupsResponse(groups=(group,)))


def test_groups_of_all_brokers_are_listed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    def listed(*names: str) -> Respond:
        groups = tuple(
            ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic")
            for name in names
        )
        return Respond(lambda _: ListGroupsResponse(groups=groups))

    brokers.script(ListGroupsRequest, listed("b", "c"), listed("a"))
    found = list_groups(cluster)
    assert [group.group_id for group in found] == ["a", "b", "c"]
    assert (found[0].state, found[0].type, found[0].protocol_type) == ("Empty", "classic", "consumer")


def test_a_broker_that_cannot_list_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    refusal = Respond(lambda _: ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    brokers.script(ListGroupsRequest, refusal)
    with pytest.raises(KafkaError, match="the groups of broker 1"):
        list_groups(cluster)


def test_a_group_of_the_newer_protocol(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(ConsumerGroupDescribeRequest, Drop(), newer())
    group = describe_group(cluster, "g")
    assert (group.type, group.state, group.assignor, group.coordinator) == ("consumer", "Stable", "uniform", 2)
    (member,) = group.members
    assert (member.member_id, member.partitions) == ("m", (TopicPartition("t", 1), TopicPartition("t", 2)))


def test_a_classic_group(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(ConsumerGroupDescribeRequest, newer(ErrorCode.GROUP_ID_NOT_FOUND))
    brokers.script(DescribeGroupsRequest, classic())
    group = describe_group(cluster, "g")
    assert (group.type, group.state, group.assignor) == ("classic", "Stable", "range")
    assert group.members[0].partitions == (TopicPartition("t", 0), TopicPartition("t", 2))


@pytest.mark.parametrize("brokers", [CLASSIC], indirect=True)
def test_a_broker_with_classic_groups_only(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DescribeGroupsRequest, classic(protocol_type="connect"))
    (member,) = describe_group(cluster, "g").members
    assert member.partitions == ()  # what connectors are assigned is theirs to read


@pytest.mark.parametrize("step", [classic(state="Dead"), classic(error=ErrorCode.GROUP_ID_NOT_FOUND)])
def test_an_unknown_group_is_group_id_not_found(brokers: ScriptedCluster, cluster: Cluster, step: Respond) -> None:
    brokers.script(ConsumerGroupDescribeRequest, newer(ErrorCode.GROUP_ID_NOT_FOUND))
    brokers.script(DescribeGroupsRequest, step)
    with pytest.raises(KafkaError, match=r"group g.*\(GROUP_ID_NOT_FOUND, "):
        describe_group(cluster, "g")


def test_a_group_is_deleted_or_not(brokers: ScriptedCluster, cluster: Cluster) -> None:
    def result(code: ErrorCode) -> Respond:
        results = (DeletableGroupResult(group_id="g", error_code=code),)
        return Respond(lambda _: DeleteGroupsResponse(results=results))

    brokers.script(DeleteGroupsRequest, result(ErrorCode.NOT_COORDINATOR), result(ErrorCode.NONE))
    delete_group(cluster, "g")
    brokers.script(DeleteGroupsRequest, result(ErrorCode.NON_EMPTY_GROUP))
    with pytest.raises(KafkaError, match=r"group g.*\(NON_EMPTY_GROUP, "):
        delete_group(cluster, "g")


def test_offsets_are_deleted_one_by_one(brokers: ScriptedCluster, cluster: Cluster) -> None:
    parts = tuple(
        OffsetDeleteResponsePartition(partition_index=index, error_code=code)
        for index, code in ((0, ErrorCode.NONE), (1, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    )
    topic = OffsetDeleteResponseTopic(name="t", partitions=parts)
    brokers.script(OffsetDeleteRequest, Respond(lambda _: OffsetDeleteResponse(topics=(topic,))))
    wanted = [TopicPartition("t", 0), TopicPartition("t", 1)]
    results = delete_offsets(cluster, "g", wanted)
    assert list(results.values()) == [ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    refusal = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    brokers.script(OffsetDeleteRequest, Respond(lambda _: refusal))
    with pytest.raises(KafkaError, match="group g"):
        delete_offsets(cluster, "g", wanted)


@pytest.mark.parametrize(
    ("assignment", "found"), [(ASSIGNMENT, (TopicPartition("t", 0), TopicPartition("t", 2))), (b"", ())]
)
def test_assignments_of_classic_members(
    brokers: ScriptedCluster, cluster: Cluster, assignment: bytes, found: tuple[TopicPartition, ...]
) -> None:
    brokers.script(ConsumerGroupDescribeRequest, newer(ErrorCode.GROUP_ID_NOT_FOUND))
    brokers.script(DescribeGroupsRequest, classic(assignment=assignment))
    (member,) = describe_group(cluster, "g").members
    assert member.partitions == found


def test_an_assignment_that_cannot_be_read_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(ConsumerGroupDescribeRequest, newer(ErrorCode.GROUP_ID_NOT_FOUND))
    brokers.script(DescribeGroupsRequest, classic(assignment=ASSIGNMENT[:9]))
    with pytest.raises(RemoteProtocolError, match="a member's assignment cannot be read"):
        describe_group(cluster, "g")
