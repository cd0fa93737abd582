from typing import Any

import pytest

from broker_embedded._testing.injection import Injector
from broker_embedded._testing.moves import COORDINATOR_APIS, LEADER_APIS
from broker_embedded._testing.scopes import Scope
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver, batch, fetch_request, produce_request


def produce(broker: BrokerDriver, client_id: str, partition: int = 0) -> int:
    response = broker.ask(produce_request("t", batch(b"x"), partition), 9, client_id=client_id)
    return response.responses[0].partition_responses[0].error_code


def look(broker: BrokerDriver, client_id: str, *topics: str) -> Any:
    wanted = tuple(MetadataRequestTopic(name=topic) for topic in topics) or None
    return broker.ask(MetadataRequest(topics=wanted), 12, client_id=client_id)


def test_each_client_is_refused_until_it_has_looked_at_the_topic(broker: BrokerDriver, injector: Injector) -> None:
    injector.moves.move_leader("t", 0)
    assert produce(broker, "a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(broker, "a", partition=1) == 0
    look(broker, "a", "u")
    assert produce(broker, "a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    look(broker, "a", "t")
    assert produce(broker, "a") == 0
    assert produce(broker, "b") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    look(broker, "b")
    assert produce(broker, "b") == 0
    injector.moves.move_leader("t", 0)
    assert produce(broker, "a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    injector.moves.clear()
    assert produce(broker, "a") == 0


def test_the_new_leader_epoch_is_real(broker: BrokerDriver, injector: Injector) -> None:
    broker.produce("t", batch(b"old"))
    assert broker.run(broker.broker.topics.begin_leader_epoch(TopicPartition("t", 0))) == 1
    broker.produce("t", batch(b"new"))
    assert broker.fetch("t", version=11).error_code == 0
    old = fetch_request("t")
    wanted = old.topics[0].partitions[0]
    asked = type(wanted)(partition=0, current_leader_epoch=0, partition_max_bytes=1 << 20)
    topics = (type(old.topics[0])(topic="t", partitions=(asked,)),)
    response: Any = broker.ask(type(old)(topics=topics), 11)
    assert response.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    (topic,) = look(broker, "a", "t").topics
    assert {part.partition_index: part.leader_epoch for part in topic.partitions} == {0: 1, 1: 0, 2: 0}
    log = broker.broker.partitions.get("t", 0).log
    assert (log.end_of_leader_epoch(0), log.epochs.epoch_of(1)) == ((0, 1), 1)
    broker.restart()
    assert broker.broker.partitions.get("t", 0).leader_epoch == 1
    assert broker.values("t") == [b"old", b"new"]


@pytest.mark.parametrize("partition", [TopicPartition("t", 2), TopicPartition("v", 0)])
def test_a_partition_that_is_not_there_cannot_move(broker: BrokerDriver, partition: TopicPartition) -> None:
    broker.create("t", 2)
    with pytest.raises(KafkaError, match=f"no partition {partition}"):
        broker.run(broker.broker.topics.begin_leader_epoch(partition))


def test_a_client_has_to_find_the_coordinator_of_its_group_again(broker: BrokerDriver, injector: Injector) -> None:
    def heartbeat(group: str) -> int:
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        return broker.ask(request, 4, client_id="a").error_code

    injector.moves.move_coordinator("g")
    assert heartbeat("g") == ErrorCode.NOT_COORDINATOR
    assert heartbeat("h") == ErrorCode.UNKNOWN_MEMBER_ID
    broker.ask(FindCoordinatorRequest(coordinator_keys=("h",)), 4, client_id="a")
    assert heartbeat("g") == ErrorCode.NOT_COORDINATOR
    broker.ask(FindCoordinatorRequest(coordinator_keys=("g",), key_type=1), 4, client_id="a")
    assert heartbeat("g") == ErrorCode.NOT_COORDINATOR
    broker.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 4, client_id="a")
    assert heartbeat("g") == ErrorCode.UNKNOWN_MEMBER_ID


def test_apis_of_leaders_and_of_coordinators_have_their_scopes() -> None:
    apis = {request.api_name: request for request in all_requests().values()}
    by_partition = {name for name, api in apis.items() if {"topic", "partition"} <= Scope.of(api)}
    of_coordinators = {"AddPartitionsToTxn", "OffsetCommit", "OffsetDelete", "OffsetFetch", "TxnOffsetCommit"}
    of_brokers = {"AlterReplicaLogDirs", "DescribeTopicPartitions", "Metadata"}
    of_controllers = {"AlterPartitionReassignments", "DescribeQuorum", "ElectLeaders"}
    assert by_partition - of_coordinators - of_brokers - of_controllers == LEADER_APIS
    assert all("group" in Scope.of(apis[name]) for name in COORDINATOR_APIS)
    by_group = {name for name, api in apis.items() if "group" in Scope.of(api)}
    # AddOffsetsToTxn names a group, but goes to the coordinator of the transaction.
    assert by_group - COORDINATOR_APIS == {"FindCoordinator", "AddOffsetsToTxn"}
