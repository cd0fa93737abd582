"""ElectLeaders: nobody needs an election."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tests.support.broker_driver import BrokerDriver


def elect(
    broker: BrokerDriver, *wanted: tuple[str, tuple[int, ...]], kind: int = 0, version: int = 2
) -> ElectLeadersResponse:
    partitions = tuple(TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in wanted)
    return broker.ask(ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=1000), version)


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_the_leader_stays_in_every_version(broker: BrokerDriver, version: int, kind: int) -> None:
    broker.create("t", partitions=2)
    answer = elect(broker, ("t", (0, 1)), kind=kind, version=version)
    assert answer.error_code == 0
    (topic,) = answer.replica_election_results
    assert [(part.partition_id, part.error_code) for part in topic.partition_result] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (1, ErrorCode.ELECTION_NOT_NEEDED),
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


def test_of_all_partitions_only_those_are_told_that_had_one(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    answer = broker.ask(ElectLeadersRequest(topic_partitions=None), 2)
    assert answer.error_code == 0
    assert [(topic.topic, topic.partition_result) for topic in answer.replica_election_results] == [("t", ())]


def test_elections_that_do_not_exist(broker: BrokerDriver) -> None:
    broker.create("t")
    answer = elect(broker, ("t", (0,)), kind=7)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert [part.error_code for topic in answer.replica_election_results for part in topic.partition_result] == [
        ErrorCode.INVALID_REQUEST
    ]
    assert elect(broker, kind=7).error_code == 0
    everything = ElectLeadersRequest(election_type=7, topic_partitions=None)
    assert broker.ask(everything, 2).error_code == ErrorCode.INVALID_REQUEST
