import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from spark_kafka_native._protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.broker.driver import BrokerDriver


def move(
    broker: BrokerDriver, replicas: tuple[int, ...] | None, *, topic: str = "t", index: int = 0, version: int = 1
) -> int:
    part = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=(part,)),))
    response = broker.ask(request, version)
    assert (response.error_code, response.error_message, response.allow_replication_factor_change) == (0, None, True)
    ((result,),) = [topic.partitions for topic in response.responses]
    assert bool(result.error_message) == bool(result.error_code)
    return result.error_code


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_that_is_where_it_is_wanted(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    assert move(broker, (1,), version=version) == 0
    assert move(broker, None, version=version) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("replicas", [(), (9,), (-1,), (1, 1), (1, 9)])
def test_replicas_that_cannot_be(broker: BrokerDriver, replicas: tuple[int, ...]) -> None:
    broker.create("t")
    assert move(broker, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("replicas", [(1,), None])
def test_partitions_that_are_not_there(broker: BrokerDriver, replicas: tuple[int, ...] | None) -> None:
    broker.create("t")
    assert move(broker, replicas, index=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(broker, replicas, topic="missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_allow_replication_factor_change_is_returned(broker: BrokerDriver) -> None:
    request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=False)
    assert not broker.ask(request, 1).allow_replication_factor_change


def test_the_error_message_names_an_unknown_topic_or_partition(broker: BrokerDriver) -> None:
    broker.create("t")
    topics = tuple(
        ReassignableTopic(name=name, partitions=(ReassignablePartition(partition_index=9, replicas=(1,)),))
        for name in ("t", "missing")
    )
    response = broker.ask(AlterPartitionReassignmentsRequest(topics=topics), 1)
    messages = [part.error_message for topic in response.responses for part in topic.partitions]
    assert messages == ["Unable to find partition t:9.", "Unable to find a topic named missing."]


@pytest.mark.parametrize(
    "topics",
    [
        None,
        (),
        (
            ListPartitionReassignmentsTopics(name="t", partition_indexes=(0, 9)),
            ListPartitionReassignmentsTopics(name="missing", partition_indexes=(0,)),
        ),
    ],
)
def test_no_partition_is_being_reassigned(
    broker: BrokerDriver, topics: tuple[ListPartitionReassignmentsTopics, ...] | None
) -> None:
    broker.create("t")
    response = broker.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.error_message, response.topics) == (0, None, ())
