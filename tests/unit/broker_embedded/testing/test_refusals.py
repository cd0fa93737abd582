import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._testing.refusals import CODES as NAMES_OF_CODES
from broker_embedded._testing.refusals import has_code, refusal, refused_item
from spark_kafka_native._protocol.codec import decode, encode
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_acls import AclCreation, CreateAclsRequest
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.schema import Request, Struct
from tests.support.broker.driver import to_bytes
from tests.support.records.sample_messages import each_api, sample, structs_in, versions_of
from tests.support.requests.of_topic import (
    add_partitions_to_txn,
    alter_replica_log_dirs,
    offset_fetch,
    write_txn_markers,
)

# One of a partition, one of a coordinator, one of a broker as a whole.
CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)

NAMES = {
    *("index", "partition", "partition_index", "partition_id", "name", "topic", "topic_name", "topic_id"),
    *("group_id", "key", "feature", "resource_type", "resource_name", "entity_type", "entity_name", "user"),
    *("transactional_id", "producer_id"),
}
"""Fields that say what something is."""


def codes_in(value: Struct, version: int) -> list[int]:
    structs: Iterator[Any] = structs_in(value, version)
    found = [each for each in structs if has_code(type(each), version)]
    return [getattr(each, name) for each in found for name in NAMES_OF_CODES if hasattr(each, name)]


def names_in(value: Struct, version: int) -> set[object]:
    """All names and ids in a message."""
    found: set[object] = set()
    for each in structs_in(value, version):
        for item in dataclasses.fields(each):  # type: ignore[arg-type]  # every struct is a dataclass
            if item.name in NAMES:
                found.add(getattr(each, item.name))
    return found


@each_api
def test_every_version_of_every_api_can_be_refused(api: type[Request[Any]]) -> None:
    for version, code in itertools.product(versions_of(api), CODES):
        response = refusal(sample(api, version), version, code)
        raw = to_bytes(encode(response, version))
        read: Any = decode(api.response, raw, version)
        assert read == response
        if not (api.api_name == "DescribeLogDirs" and version < 3):  # that answer has no place for it
            assert code in codes_in(read, version)
        assert set(codes_in(read, version)) <= {code, ErrorCode.NONE}
        assert codes_in(refusal(api(), version, code), version) in ([], [code])


@each_api
def test_a_refusal_has_names_and_ids_of_its_request_only(api: type[Request[Any]]) -> None:
    for version, code in itertools.product(versions_of(api), CODES):
        request = sample(api, version)
        asked = names_in(request, version) | {
            item for each in structs_in(request, version) for item in flat_values(each) if isinstance(item, str | int)
        }
        answered = names_in(refusal(request, version, code), version) - {"", 0, -1, UUID(int=0)}
        assert answered <= asked


def flat_values(value: Struct) -> list[object]:
    found: list[object] = []
    for item in dataclasses.fields(value):  # type: ignore[arg-type]  # every struct is a dataclass
        inner = getattr(value, item.name)
        found += inner if isinstance(inner, tuple) else [inner]
    return found


def test_produce_names_every_partition() -> None:
    data = tuple(PartitionProduceData(index=index, records=b"x") for index in (3, 5))
    request = ProduceRequest(acks=-1, topic_data=(TopicProduceData(name="t", partition_data=data),))
    (topic,) = refusal(request, 9, ErrorCode.MESSAGE_TOO_LARGE, "too long").responses  # type: ignore[attr-defined]  # a ProduceResponse
    assert topic.name == "t"
    assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
        (3, 10, -1),
        (5, 10, -1),
    ]
    assert topic.partition_responses[0].error_message == "too long"
    assert topic.partition_responses[0].log_append_time_ms == -1


FETCH = FetchRequest(session_id=7, topics=(FetchTopic(topic="t", partitions=(FetchPartition(partition=2),)),))


@pytest.mark.parametrize(
    ("version", "code", "whole", "parts"),
    [
        (4, ErrorCode.OFFSET_OUT_OF_RANGE, 0, [1]),
        (4, ErrorCode.UNKNOWN_SERVER_ERROR, 0, [-1]),
        (11, ErrorCode.OFFSET_OUT_OF_RANGE, 0, [1]),
        (11, ErrorCode.INVALID_FETCH_SESSION_EPOCH, 71, [71]),
        (13, ErrorCode.OFFSET_OUT_OF_RANGE, 0, [1]),
        (13, ErrorCode.INVALID_FETCH_SESSION_EPOCH, 71, []),
    ],
)
def test_fetch_has_a_top_level_error_and_one_of_each_partition(
    version: int, code: ErrorCode, whole: int, parts: list[int]
) -> None:
    response = refusal(FETCH, version, code)
    assert isinstance(response, FetchResponse)
    assert response.error_code == whole
    found = [part for topic in response.responses for part in topic.partitions]
    assert [part.error_code for part in found] == parts
    assert all((part.high_watermark, part.records) == (-1, b"") for part in found)
    assert response.session_id == (7 if version >= 7 else 0)


def test_an_error_about_partitions_where_none_is_named_goes_to_the_whole() -> None:
    response: Any = refusal(FetchRequest(), 11, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (response.error_code, response.responses) == (1, ())


def test_any_error_can_be_put_to_partitions() -> None:
    response: Any = refusal(FETCH, 13, ErrorCode.UNKNOWN_SERVER_ERROR, in_items=True)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, -1)


def test_the_first_version_of_list_offsets_answers_with_no_offsets() -> None:
    response: Any = refusal(sample(ListOffsetsRequest, 0), 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert response.topics[0].partitions[0].old_style_offsets == ()


def test_offset_fetch_is_refused_as_a_whole_from_version_2_on_and_by_group_from_version_8_on() -> None:
    code = ErrorCode.NOT_COORDINATOR
    first: Any = refusal(offset_fetch("t", 4, version=1), 1, code)
    assert [(part.error_code, part.committed_offset) for part in first.topics[0].partitions] == [(16, -1)]
    second: Any = refusal(offset_fetch("t", 4, version=2), 2, code)
    assert (second.error_code, second.topics) == (16, ())
    eighth: Any = refusal(offset_fetch("t", 4, version=8), 8, code)
    assert [(group.group_id, group.error_code, group.topics) for group in eighth.groups] == [("g", 16, ())]


def test_offset_fetch_may_fail_for_a_partition() -> None:
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    second: Any = refusal(offset_fetch("t", 4, version=2), 2, code)
    assert (second.error_code, second.topics[0].partitions[0].error_code) == (0, 88)
    eighth: Any = refusal(offset_fetch("t", 4, version=8), 8, code)
    group = eighth.groups[0]
    assert (group.error_code, group.topics[0].partitions[0].error_code) == (0, 88)


def test_find_coordinator_names_no_node() -> None:
    old: Any = refusal(FindCoordinatorRequest(key="g"), 3, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (old.error_code, old.node_id, old.host, old.port) == (15, -1, "", -1)
    new: Any = refusal(FindCoordinatorRequest(coordinator_keys=("g", "h")), 4, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [(each.key, each.node_id, each.error_code) for each in new.coordinators] == [("g", -1, 15), ("h", -1, 15)]


def test_partitions_do_not_join_a_transaction_each_by_itself() -> None:
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    (topic,) = refusal(
        add_partitions_to_txn("t", 4, 5, version=3, transactional_id="x"), 3, code
    ).results_by_topic_v3_and_below  # type: ignore[attr-defined]  # an AddPartitionsToTxnResponse
    assert (topic.name, [part.partition_error_code for part in topic.results_by_partition]) == ("t", [51, 51])
    fourth: Any = refusal(add_partitions_to_txn("t", 4, 5, version=4, transactional_id="x"), 4, code)
    (transaction,) = fourth.results_by_transaction
    assert (fourth.error_code, transaction.transactional_id) == (0, "x")
    (topic,) = transaction.topic_results
    assert [(part.partition_index, part.partition_error_code) for part in topic.results_by_partition] == [
        (4, 51),
        (5, 51),
    ]


def test_markers_are_refused_by_producer_and_transactions_by_id() -> None:
    (marker,) = refusal(write_txn_markers("t", 4, producer_id=7), 1, ErrorCode.NOT_LEADER_OR_FOLLOWER).markers  # type: ignore[attr-defined]  # a WriteTxnMarkersResponse
    assert (marker.producer_id, marker.topics[0].partitions[0].error_code) == (7, 6)
    ids = DescribeTransactionsRequest(transactional_ids=("x", "y"))
    (first, second) = refusal(ids, 0, ErrorCode.NOT_COORDINATOR).transaction_states  # type: ignore[attr-defined]  # a DescribeTransactionsResponse
    assert [(each.transactional_id, each.error_code) for each in (first, second)] == [("x", 16), ("y", 16)]


def test_a_refused_join_has_neither_generation_nor_member_id() -> None:
    request = JoinGroupRequest(group_id="g", member_id="m")
    for version, protocol in ((6, ""), (7, None)):
        response: Any = refusal(request, version, ErrorCode.UNKNOWN_MEMBER_ID)
        assert (response.error_code, response.generation_id, response.member_id) == (25, -1, "")
        assert response.protocol_name == protocol


def test_members_that_leave_may_be_unknown_each_by_itself() -> None:
    request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="a"), MemberIdentity(member_id="b")))
    unknown: Any = refusal(request, 4, ErrorCode.UNKNOWN_MEMBER_ID)
    assert unknown.error_code == 0
    assert [(each.member_id, each.error_code) for each in unknown.members] == [("a", 25), ("b", 25)]
    elsewhere: Any = refusal(request, 4, ErrorCode.NOT_COORDINATOR)
    assert (elsewhere.error_code, elsewhere.members) == (16, ())


def test_acls_are_answered_one_for_one() -> None:
    response: Any = refusal(CreateAclsRequest(creations=(AclCreation(), AclCreation())), 2, ErrorCode.SECURITY_DISABLED)
    assert [each.error_code for each in response.results] == [54, 54]


def test_directories_are_answered_by_topic() -> None:
    response: Any = refusal(alter_replica_log_dirs("/d", "t", 1, 2), 2, ErrorCode.LOG_DIR_NOT_FOUND)
    (topic,) = response.results
    assert topic.topic_name == "t"
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(1, 57), (2, 57)]


def test_a_topic_that_is_requested_by_id_has_no_name() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(topic_id=UUID(int=9), name=None),))
    old: Any = refusal(request, 10, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (old.topics[0].name, old.topics[0].topic_id) == ("", UUID(int=9))
    new: Any = refusal(request, 12, ErrorCode.UNKNOWN_TOPIC_ID)
    assert new.topics[0].name is None


def test_an_item_of_a_response_keeps_its_name_alone() -> None:
    partition = MetadataResponsePartition(partition_index=3, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
    topic = MetadataResponseTopic(name="t", topic_id=UUID(int=5), partitions=(partition,))
    api = MetadataRequest.response
    refused = refused_item(api, topic, 12, ErrorCode.LEADER_NOT_AVAILABLE)
    assert refused == MetadataResponseTopic(error_code=5, name="t", topic_id=UUID(int=5))
    assert refused_item(api, partition, 12, ErrorCode.LEADER_NOT_AVAILABLE) == MetadataResponsePartition(
        error_code=5, partition_index=3, leader_id=-1
    )
