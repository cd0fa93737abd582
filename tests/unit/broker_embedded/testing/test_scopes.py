import itertools
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._testing.refusals import refusal
from broker_embedded._testing.scopes import EVERYTHING, Scope, SplitRequest, TopicNames, join, split_request, write_into
from spark_kafka_native._protocol.codec import encode
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from spark_kafka_native._protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from spark_kafka_native._protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from spark_kafka_native._protocol.messages.describe_log_dirs import DescribeLogDirsResult as LogDirResult
from spark_kafka_native._protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from spark_kafka_native._protocol.schema import Request
from tests.support.broker.driver import to_bytes
from tests.support.records.sample_messages import each_api, sample, versions_of
from tests.support.requests.of_topic import add_partitions_to_txn, offset_commit, write_txn_markers

T_ID, U_ID = UUID(int=1), UUID(int=2)
IDS_OF: TopicNames = {T_ID: "t", U_ID: "u"}
BOTH = {"t": (0, 1), "u": (0,)}


def produce(wanted: dict[str, tuple[int, ...]]) -> ProduceRequest:
    topics = (
        TopicProduceData(
            name=name, partition_data=tuple(PartitionProduceData(index=index, records=b"x") for index in indexes)
        )
        for name, indexes in wanted.items()
    )
    return ProduceRequest(acks=1, topic_data=tuple(topics))


def named(request: Any) -> dict[str, tuple[int, ...]]:
    """What a Produce asks for."""
    if request is None:
        return {}
    return {topic.name: tuple(part.index for part in topic.partition_data) for topic in request.topic_data}


def halves(scope: Scope, wanted: dict[str, tuple[int, ...]] = BOTH) -> tuple[object, object]:
    found = split_request(produce(wanted), 9, scope, {})
    return named(found.matching), named(found.rest)


def test_a_request_is_cut_by_topic_and_partition() -> None:
    assert halves(EVERYTHING) == (BOTH, {})
    assert halves(Scope(topic="t")) == ({"t": (0, 1)}, {"u": (0,)})
    assert halves(Scope(topic="t", partition=1)) == ({"t": (1,)}, {"t": (0,), "u": (0,)})
    assert halves(Scope(partition=0)) == ({"t": (0,), "u": (0,)}, {"t": (1,)})
    assert halves(Scope(topic="t"), {"t": (0,)}) == ({"t": (0,)}, {})
    assert halves(Scope(topic="v")) == ({}, BOTH)
    assert halves(Scope(topic="u", partition=1)) == ({}, BOTH)


def test_topics_are_found_by_their_ids_too() -> None:
    topics = tuple(FetchTopic(topic_id=id_, partitions=(FetchPartition(partition=0),)) for id_ in IDS_OF)
    found = split_request(FetchRequest(topics=topics), 13, Scope(topic="u"), IDS_OF)
    assert isinstance(found.matching, FetchRequest)
    assert isinstance(found.rest, FetchRequest)
    assert [topic.topic_id for topic in found.matching.topics] == [U_ID]
    assert [topic.topic_id for topic in found.rest.topics] == [T_ID]
    by_id = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=T_ID), DeleteTopicState(name="u")))
    for name in ("t", "u"):
        part = split_request(by_id, 6, Scope(topic=name), IDS_OF).matching
        assert isinstance(part, DeleteTopicsRequest)
        assert len(part.topics) == 1


def test_topics_come_as_texts_and_partitions_as_numbers_in_some() -> None:
    found: Any = split_request(DeleteTopicsRequest(topic_names=("t", "u")), 3, Scope(topic="t"), {})
    assert (found.matching.topic_names, found.rest.topic_names) == (("t",), ("u",))
    producers = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1, 2)),))
    found = split_request(producers, 0, Scope(topic="t", partition=1), {})
    assert (found.matching.topics[0].partition_indexes, found.rest.topics[0].partition_indexes) == ((1,), (0, 2))
    topics = (AlterReplicaLogDirTopic(name="t", partitions=(0, 1)), AlterReplicaLogDirTopic(name="u", partitions=(0,)))
    found = split_request(
        AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path="/d", topics=topics),)), 2, Scope(topic="u"), {}
    )
    assert [topic.name for topic in found.matching.dirs[0].topics] == ["u"]
    assert [topic.name for topic in found.rest.dirs[0].topics] == ["t"]


def test_configs_of_topics_are_those_of_resources_that_are_topics() -> None:
    resources = tuple(DescribeConfigsResource(resource_type=kind, resource_name="1") for kind in (2, 4))
    found: Any = split_request(DescribeConfigsRequest(resources=resources), 4, Scope(topic="1"), {})
    assert (found.matching.resources, found.rest.resources) == (resources[:1], resources[1:])


def test_a_request_of_one_group_is_cut_by_the_group_first() -> None:
    request = offset_commit("t", 0, 0, 1)
    (topic,) = request.topics
    assert split_request(request, 8, Scope(group="h"), {}) == SplitRequest(matching=None, rest=request)
    assert split_request(request, 8, Scope(group="g"), {}) == SplitRequest(matching=request, rest=None)
    found: Any = split_request(request, 8, Scope(group="g", topic="t", partition=1), {})
    assert found.matching.topics[0].partitions == topic.partitions[1:]
    assert found.rest.topics[0].partitions == topic.partitions[:1]


def test_a_request_of_several_groups_is_cut_between_them() -> None:
    found: Any = split_request(DeleteGroupsRequest(groups_names=("g", "h")), 2, Scope(group="h"), {})
    assert (found.matching.groups_names, found.rest.groups_names) == (("h",), ("g",))
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0, 1)),)
    request = OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=topics) for group in ("g", "h"))
    )
    found = split_request(request, 8, Scope(group="h"), {})
    assert (found.matching.groups, found.rest.groups) == (request.groups[1:], request.groups[:1])
    found = split_request(request, 8, Scope(group="h", partition=0), {})
    assert [(group.group_id, group.topics[0].partition_indexes) for group in found.matching.groups] == [("h", (0,))]
    assert [(group.group_id, group.topics[0].partition_indexes) for group in found.rest.groups] == [
        ("g", (0, 1)),
        ("h", (1,)),
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_add_partitions_to_txn_has_its_partitions_as_scope(version: int) -> None:
    def joining(*partitions: int) -> AddPartitionsToTxnRequest:
        return add_partitions_to_txn("t", *partitions, version=version, transactional_id="x")

    found = split_request(joining(4, 5), version, Scope(topic="t", partition=5), {})
    assert found == SplitRequest(matching=joining(5), rest=joining(4))
    first, second = (refusal(joining(number), version, ErrorCode.CONCURRENT_TRANSACTIONS) for number in (4, 5))
    assert join(first, second, version) == refusal(joining(4, 5), version, ErrorCode.CONCURRENT_TRANSACTIONS)


def test_write_txn_markers_has_its_partitions_as_scope() -> None:
    def marking(*partitions: int) -> WriteTxnMarkersRequest:
        return write_txn_markers("t", *partitions, producer_id=7)

    found = split_request(marking(4, 5), 1, Scope(topic="t", partition=5), {})
    assert found == SplitRequest(matching=marking(5), rest=marking(4))
    first, second = (refusal(marking(number), 1, ErrorCode.NOT_LEADER_OR_FOLLOWER) for number in (4, 5))
    assert join(first, second, 1) == refusal(marking(4, 5), 1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_coordinators_of_transactions_are_none_of_groups() -> None:
    for request, version in (
        (FindCoordinatorRequest(key="g", key_type=1), 3),
        (FindCoordinatorRequest(coordinator_keys=("g",), key_type=1), 4),
    ):
        assert split_request(request, version, Scope(group="g"), {}).matching is None
    assert split_request(FindCoordinatorRequest(key="g"), 0, Scope(group="g"), {}).rest is None
    found: Any = split_request(FindCoordinatorRequest(coordinator_keys=("g", "h")), 4, Scope(group="g"), {})
    assert (found.matching.coordinator_keys, found.rest.coordinator_keys) == (("g",), ("h",))


def test_a_scope_that_an_api_knows_nothing_of_is_not_in_its_requests() -> None:
    request = HeartbeatRequest(group_id="g")
    assert split_request(request, 4, Scope(topic="t"), {}) == SplitRequest(matching=None, rest=request)
    topics = CreateTopicsRequest(topics=(CreatableTopic(name="t"),))
    assert split_request(topics, 7, Scope(topic="t", partition=0), {}) == SplitRequest(matching=None, rest=topics)


DIMENSIONS = {
    "topic partition": "Produce Fetch ListOffsets Metadata DeleteRecords OffsetForLeaderEpoch AlterReplicaLogDirs "
    "ElectLeaders AlterPartitionReassignments DescribeQuorum DescribeProducers DescribeTopicPartitions "
    "AddPartitionsToTxn WriteTxnMarkers",
    "topic partition group": "OffsetCommit OffsetFetch OffsetDelete TxnOffsetCommit",
    "group": "FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups DeleteGroups "
    "ConsumerGroupHeartbeat ConsumerGroupDescribe AddOffsetsToTxn",
    "topic": "CreateTopics DeleteTopics DescribeConfigs AlterConfigs CreatePartitions IncrementalAlterConfigs",
}


def test_the_scopes_of_each_api() -> None:
    apis = {request.api_name: request for request in all_requests().values()}
    for dimensions, names in DIMENSIONS.items():
        for name in names.split():
            assert Scope.of(apis.pop(name)) == set(dimensions.split()), name
    assert {name: scopes for name, api in apis.items() if (scopes := Scope.of(api))} == {}


@each_api
def test_both_parts_of_any_request_are_requests(api: type[Request[Any]]) -> None:
    for version, dimension in itertools.product(versions_of(api), Scope.of(api)):
        request = sample(api, version)
        for value in values_of(request, dimension):
            found = split_request(request, version, Scope(**{dimension: value}), {})
            for part in (found.matching, found.rest):
                if part is not None:
                    assert to_bytes(encode(part, version))
            assert found.matching is not None or found.rest == request


def values_of(request: Any, dimension: str) -> list[Any]:
    if dimension == "partition":
        return list(range(40))
    kinds = {"topic": ("name", "topic", "topic_names", "topic_name"), "group": ("group_id", "groups", "key")}
    return [f"{kind}-{number}" for kind in kinds[dimension] for number in range(20)]


def partitions(*indexes: int) -> tuple[MetadataResponsePartition, ...]:
    return tuple(MetadataResponsePartition(partition_index=index, leader_id=1) for index in indexes)


METADATA = MetadataResponse(
    brokers=(MetadataResponseBroker(node_id=1, host="h", port=9),),
    topics=(
        MetadataResponseTopic(name="t", topic_id=T_ID, partitions=partitions(0, 1)),
        MetadataResponseTopic(name="u", topic_id=U_ID, partitions=partitions(0)),
    ),
)


def codes(response: MetadataResponse) -> dict[str | None, tuple[int, list[int]]]:
    return {topic.name: (topic.error_code, [part.error_code for part in topic.partitions]) for topic in response.topics}


def metadata_with(scope: Scope, code: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE) -> MetadataResponse:
    response = write_into(METADATA, 13, scope, IDS_OF, code)
    assert isinstance(response, MetadataResponse)
    assert response.brokers == METADATA.brokers
    return response


def test_metadata_is_served_with_the_injected_error() -> None:
    assert codes(metadata_with(EVERYTHING)) == {"t": (5, []), "u": (5, [])}
    assert codes(metadata_with(Scope(topic="t"))) == {"t": (5, []), "u": (0, [0])}
    assert codes(metadata_with(Scope(topic="t", partition=1))) == {"t": (0, [0, 5]), "u": (0, [0])}
    assert codes(metadata_with(Scope(partition=0))) == {"t": (0, [5, 0]), "u": (0, [5])}
    assert metadata_with(Scope(topic="t", partition=1)).topics[0].partitions[1].leader_id == -1


def test_metadata_can_be_answered_with_rebootstrap_required() -> None:
    response = metadata_with(EVERYTHING, ErrorCode.REBOOTSTRAP_REQUIRED)
    assert (response.error_code, response.topics) == (129, METADATA.topics)


@pytest.mark.parametrize(
    ("request_", "version", "scope", "concerned"),
    [
        (MetadataRequest(topics=None), 9, Scope(topic="t"), True),
        (MetadataRequest(topics=()), 0, Scope(topic="t"), True),
        (MetadataRequest(topics=()), 1, Scope(topic="t"), False),
        (MetadataRequest(topics=()), 1, EVERYTHING, False),
        (MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 9, Scope(topic="t", partition=3), True),
        (MetadataRequest(topics=(MetadataRequestTopic(topic_id=T_ID, name=None),)), 12, Scope(topic="t"), True),
        (MetadataRequest(topics=(MetadataRequestTopic(name="u"),)), 9, Scope(topic="t"), False),
        (MetadataRequest(topics=(MetadataRequestTopic(name="u"),)), 9, EVERYTHING, True),
        (DescribeLogDirsRequest(topics=None), 1, EVERYTHING, True),
        (OffsetFetchRequest(group_id="g", topics=None), 6, Scope(topic="t"), True),
        (
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)),
            8,
            Scope(group="g", topic="t"),
            True,
        ),
    ],
)
def test_requests_that_are_always_served(request_: Request[Any], version: int, scope: Scope, concerned: bool) -> None:
    expected = (
        SplitRequest(matching=request_, rest=request_, is_open=True)
        if concerned
        else SplitRequest(matching=None, rest=request_)
    )
    assert split_request(request_, version, scope, IDS_OF) == expected


def test_whole_requests_for_all_topics_are_refused_without_their_names() -> None:
    offsets = OffsetFetchRequest(group_id="g", topics=None)
    assert split_request(offsets, 6, EVERYTHING, {}) == SplitRequest(matching=offsets, rest=None)
    directories = DescribeLogDirsRequest(topics=None)
    assert split_request(directories, 4, EVERYTHING, {}) == SplitRequest(matching=directories, rest=None)


def test_directories_of_old_responses_get_the_error() -> None:
    response = DescribeLogDirsResponse(results=(LogDirResult(log_dir="/d", topics=()),))
    written = write_into(response, 1, EVERYTHING, {}, ErrorCode.KAFKA_STORAGE_ERROR)
    assert written == DescribeLogDirsResponse(results=(LogDirResult(error_code=56, log_dir="/d"),))


def test_offsets_of_all_topics_get_the_error_where_it_is_meant() -> None:
    def topics() -> tuple[OffsetFetchResponseTopics, ...]:
        parts = tuple(OffsetFetchResponsePartitions(partition_index=index, committed_offset=7) for index in (0, 1))
        return tuple(OffsetFetchResponseTopics(name=name, partitions=parts) for name in ("t", "u"))

    groups = tuple(OffsetFetchResponseGroup(group_id=group, topics=topics()) for group in ("g", "h"))
    scope = Scope(group="h", topic="u", partition=1)
    written: Any = write_into(OffsetFetchResponse(groups=groups), 8, scope, {}, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = {
        (group.group_id, topic.name, part.partition_index): (part.error_code, part.committed_offset)
        for group in written.groups
        for topic in group.topics
        for part in topic.partitions
    }
    assert found.pop(("h", "u", 1)) == (88, -1)
    assert set(found.values()) == {(0, 7)}


def test_two_responses_become_one() -> None:
    parts = split_request(produce(BOTH), 9, Scope(topic="t", partition=1), {})
    assert parts.matching is not None
    assert parts.rest is not None
    served = refusal(parts.rest, 9, ErrorCode.NONE)
    whole: Any = join(served, refusal(parts.matching, 9, ErrorCode.NOT_LEADER_OR_FOLLOWER), 9)
    assert {
        topic.name: [(part.index, part.error_code) for part in topic.partition_responses] for topic in whole.responses
    } == {"t": [(0, 0), (1, 6)], "u": [(0, 0)]}


def test_the_rest_of_a_joined_response_is_the_first_ones() -> None:
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(partition=0),)),))
    first: Any = refusal(request, 11, ErrorCode.OFFSET_OUT_OF_RANGE)
    joined: Any = join(METADATA, MetadataResponse(cluster_id="other"), 9)
    assert joined == METADATA
    assert len(join(first, first, 11).responses[0].partitions) == 2


@each_api
def test_joined_parts_name_what_the_whole_names(api: type[Request[Any]]) -> None:
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for version, dimension in itertools.product(versions_of(api), Scope.of(api)):
        request = sample(api, version)
        whole = to_bytes(encode(refusal(request, version, code, in_items=True), version))
        for value in values_of(request, dimension):
            parts = split_request(request, version, Scope(**{dimension: value}), {})
            if parts.matching is not None and parts.rest is not None and not parts.is_open:
                first, second = (refusal(each, version, code, in_items=True) for each in (parts.rest, parts.matching))
                assert len(to_bytes(encode(join(first, second, version), version))) == len(whole)
