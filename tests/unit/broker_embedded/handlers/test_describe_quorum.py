"""DescribeQuorum: one voter, which leads and lags behind nobody."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartitionData,
    RequestedTopicData,
)
from tests.support.broker_driver import NODE, BrokerDriver


def quorum(
    broker: BrokerDriver, topic: str = "__cluster_metadata", index: int = 0, *, version: int = 2
) -> DescribeQuorumResponse:
    wanted = RequestedTopicData(topic_name=topic, partitions=(RequestedPartitionData(partition_index=index),))
    answer = broker.ask(DescribeQuorumRequest(topics=(wanted,)), version)
    assert answer.error_code == 0
    return answer


@pytest.mark.parametrize("version", range(3))
def test_the_broker_leads_alone_in_every_version(broker: BrokerDriver, version: int) -> None:
    answer = quorum(broker, version=version)
    ((found,),) = [topic.partitions for topic in answer.topics]
    assert (found.error_code, found.leader_id, found.observers) == (0, 1, ())
    (voter,) = found.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, found.high_watermark)
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == broker.clock.now_ms()
    if version >= 2:
        (node,) = answer.nodes
        assert (node.node_id, [(item.host, item.port) for item in node.listeners]) == (1, [(NODE.host, NODE.port)])


def test_its_offsets_grow_with_changes_to_topics(broker: BrokerDriver) -> None:
    before = quorum(broker).topics[0].partitions[0].high_watermark
    broker.create("t")
    assert quorum(broker).topics[0].partitions[0].high_watermark == before + 1


@pytest.mark.parametrize(("topic", "index"), [("__cluster_metadata", 1), ("t", 0)])
def test_no_other_partition_has_one(broker: BrokerDriver, topic: str, index: int) -> None:
    broker.create("t")
    ((found,),) = [topic.partitions for topic in quorum(broker, topic, index).topics]
    assert (found.partition_index, found.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_nothing_asked(broker: BrokerDriver) -> None:
    answer = broker.ask(DescribeQuorumRequest(), 2)
    assert (answer.error_code, answer.topics, answer.nodes) == (0, (), ())
