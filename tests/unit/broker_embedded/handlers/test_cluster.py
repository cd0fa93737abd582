from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from spark_kafka_native._protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartitionData,
    RequestedTopicData,
)
from spark_kafka_native._protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.broker.driver import NODE, BrokerDriver


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = broker.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.endpoint_type) == (0, 1)
    assert (response.cluster_id, response.controller_id) == (broker.broker.image.cluster_id, 1)
    assert response.brokers == (DescribeClusterBroker(broker_id=1, host=NODE.host, port=NODE.port),)
    assert response.cluster_authorized_operations == -(2**31)


def test_describe_cluster_with_all_options(broker: BrokerDriver) -> None:
    response = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    response = broker.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [node.is_fenced for node in response.brokers] == [False]


@pytest.mark.parametrize(
    ("endpoints", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_broker_knows_of_brokers_only(broker: BrokerDriver, version: int, endpoints: int, code: ErrorCode) -> None:
    response = broker.ask(DescribeClusterRequest(endpoint_type=endpoints), version)
    assert (response.error_code, response.cluster_id, response.brokers) == (code, "", ())
    assert response.error_message


def quorum(
    broker: BrokerDriver, topic: str = "__cluster_metadata", index: int = 0, *, version: int = 2
) -> DescribeQuorumResponse:
    wanted = RequestedTopicData(topic_name=topic, partitions=(RequestedPartitionData(partition_index=index),))
    response = broker.ask(DescribeQuorumRequest(topics=(wanted,)), version)
    assert response.error_code == 0
    return response


@pytest.mark.parametrize("version", range(3))
def test_the_broker_leads_alone_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = quorum(broker, version=version)
    ((found,),) = [topic.partitions for topic in response.topics]
    assert (found.error_code, found.leader_id, found.observers) == (0, 1, ())
    (voter,) = found.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, found.high_watermark)
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == broker.clock.now_ms()
    if version >= 2:
        (node,) = response.nodes
        assert (node.node_id, [(item.host, item.port) for item in node.listeners]) == (1, [(NODE.host, NODE.port)])


def test_metadata_offsets_grow_with_changes_to_topics(broker: BrokerDriver) -> None:
    before = quorum(broker).topics[0].partitions[0].high_watermark
    broker.create("t")
    assert quorum(broker).topics[0].partitions[0].high_watermark == before + 1
    response = broker.ask(DescribeQuorumRequest(), 2)
    assert (response.error_code, response.topics, response.nodes) == (0, (), ())


@pytest.mark.parametrize(("topic", "index"), [("__cluster_metadata", 1), ("t", 0)])
def test_no_other_partition_has_one(broker: BrokerDriver, topic: str, index: int) -> None:
    broker.create("t")
    ((found,),) = [topic.partitions for topic in quorum(broker, topic, index).topics]
    assert (found.partition_index, found.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def elect(
    broker: BrokerDriver, *wanted: tuple[str, tuple[int, ...]], kind: int = 0, version: int = 2
) -> ElectLeadersResponse:
    partitions = tuple(TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in wanted)
    return broker.ask(ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=1000), version)


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_the_leader_stays_in_every_version(broker: BrokerDriver, version: int, kind: int) -> None:
    broker.create("t", partitions=2)
    response = elect(broker, ("t", (0, 1)), kind=kind, version=version)
    assert response.error_code == 0
    (topic,) = response.replica_election_results
    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    assert [(part.partition_id, part.error_code) for part in topic.partition_result] == [
        (0, not_needed),
        (1, not_needed),
    ]


def test_partitions_that_are_not_there(broker: BrokerDriver) -> None:
    broker.create("t")
    topics = elect(broker, ("t", (9,)), ("missing", (0,))).replica_election_results
    assert [
        (topic.topic, part.error_code, part.error_message) for topic in topics for part in topic.partition_result
    ] == [
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-9"),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as missing"),
    ]


def test_an_election_of_all_partitions_lists_only_those_that_elected(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    response = broker.ask(ElectLeadersRequest(topic_partitions=None), 2)
    assert response.error_code == 0
    assert [(topic.topic, topic.partition_result) for topic in response.replica_election_results] == [("t", ())]


def test_elections_that_do_not_exist(broker: BrokerDriver) -> None:
    broker.create("t")
    response = elect(broker, ("t", (0,)), kind=7)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert [part.error_code for topic in response.replica_election_results for part in topic.partition_result] == [
        ErrorCode.INVALID_REQUEST
    ]
    assert elect(broker, kind=7).error_code == 0
    everything = ElectLeadersRequest(election_type=7, topic_partitions=None)
    assert broker.ask(everything, 2).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("broker_id", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.BROKER_ID_NOT_REGISTERED), (-1, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_no_broker_is_unregistered(broker: BrokerDriver, broker_id: int, code: ErrorCode) -> None:
    response = broker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0)
    assert response.error_code == code
    assert str(broker_id) in (response.error_message or "")


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_in_every_version(broker: BrokerDriver, version: int) -> None:
    found: tuple[Any, ...]
    if version >= 4:
        found = broker.ask(FindCoordinatorRequest(coordinator_keys=("g", "h")), version).coordinators
        assert [one.key for one in found] == ["g", "h"]
        assert broker.ask(FindCoordinatorRequest(coordinator_keys=()), version).coordinators == ()
    else:
        found = (broker.ask(FindCoordinatorRequest(key="g"), version),)
    assert {(one.error_code, one.node_id, one.host, one.port) for one in found} == {(0, 1, NODE.host, NODE.port)}
    assert len(broker.broker.image.topics["__consumer_offsets"].partitions) == 3


@pytest.mark.parametrize("version", range(1, 7))
def test_this_broker_is_the_coordinator_of_every_transactional_id(broker: BrokerDriver, version: int) -> None:
    fields: dict[str, Any] = {"coordinator_keys": ("id",)} if version >= 4 else {"key": "id"}
    response = broker.ask(FindCoordinatorRequest(key_type=1, **fields), version)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, NODE.host, NODE.port)
    assert list(broker.broker.image.topics) == ["__transaction_state"]


@pytest.mark.parametrize("key_type", [2, 9])
def test_coordinators_of_other_key_types_are_refused(broker: BrokerDriver, key_type: int) -> None:
    one = broker.ask(FindCoordinatorRequest(key="x", key_type=key_type), 3)
    assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    assert one.error_message
    (many,) = broker.ask(FindCoordinatorRequest(coordinator_keys=("x",), key_type=key_type), 6).coordinators
    assert (many.key, many.error_code, many.node_id) == ("x", ErrorCode.INVALID_REQUEST, -1)
    assert broker.broker.image.topics == {}


def test_concurrent_requests_create_the_topic_once(broker: BrokerDriver) -> None:
    tasks = [broker.begin(FindCoordinatorRequest(key="g"), 3) for _ in range(5)]
    assert {response.error_code for task in tasks if (response := broker.run(task))} == {0}
