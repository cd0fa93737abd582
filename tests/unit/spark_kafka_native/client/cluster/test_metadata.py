import pickle
import uuid

from spark_kafka_native._client.cluster.metadata import ClusterMetadata, Node
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

ONE = uuid.UUID(int=1)
TWO = uuid.UUID(int=2)


def response(*partitions: tuple[int, int], topic_id: uuid.UUID = ONE, name: str = "t") -> ClusterMetadata:
    return ClusterMetadata.of(
        MetadataResponse(
            cluster_id="c",
            controller_id=2,
            brokers=(
                MetadataResponseBroker(node_id=1, host="a", port=1),
                MetadataResponseBroker(node_id=2, host="b", port=2, rack="r"),
            ),
            topics=(
                MetadataResponseTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=tuple(
                        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=epoch)
                        for number, (leader, epoch) in reversed(list(enumerate(partitions)))
                    ),
                ),
            ),
        )
    )


def test_a_response_becomes_values_with_partitions_in_order() -> None:
    found = response((1, 5), (2, 6))
    assert (found.cluster_id, found.controller_id) == ("c", 2)
    assert found.brokers == {1: Node(node_id=1, host="a", port=1), 2: Node(node_id=2, host="b", port=2, rack="r")}
    assert list(found.topics["t"].partitions) == [0, 1]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_leader_comes_with_its_address_epoch_and_topic_id() -> None:
    leader = response((1, 5), (2, 6)).leaders([TopicPartition("t", 1)])[TopicPartition("t", 1)]
    assert (str(leader.node.address), leader.leader_epoch, leader.topic_id) == ("b:2", 6, ONE)


def test_partitions_with_one_leader_and_epoch_share_one_object() -> None:
    partitions = [TopicPartition("t", number) for number in range(4)]
    led = response((1, 5), (1, 5), (1, 6), (2, 5)).leaders(partitions)
    assert [leader.leader_epoch for leader in led.values()] == [5, 5, 6, 5]
    assert [leader.node.node_id for leader in led.values()] == [1, 1, 1, 2]
    assert led[partitions[0]] is led[partitions[1]]


def test_without_a_leader_a_partition_is_left_out() -> None:
    found = response((-1, 5), (9, 6), (1, 7))
    no_leader, no_address, led, missing = (TopicPartition("t", number) for number in range(4))
    assert list(found.leaders([no_leader, no_address, led, missing, TopicPartition("u", 0)])) == [led]


def test_a_lagging_broker_does_not_replace_a_later_leader_epoch() -> None:
    merged = response((1, 5), (1, 5)).merged_with(response((2, 4), (2, 6)))
    assert [part.leader_id for part in merged.topics["t"].partitions.values()] == [1, 2]


def test_a_topic_made_again_takes_over_with_its_low_epochs() -> None:
    merged = response((1, 5)).merged_with(response((2, 0), topic_id=TWO))
    assert merged.topics["t"].partitions[0].leader_epoch == 0
    assert merged.topics["t"].topic_id == TWO


def test_without_topic_ids_the_newer_response_counts() -> None:
    merged = response((1, 5), topic_id=ZERO_UUID).merged_with(response((2, 0), topic_id=ZERO_UUID))
    assert merged.topics["t"].partitions[0].leader_id == 2


def test_other_topics_are_kept() -> None:
    assert set(response((1, 0)).merged_with(response((1, 0), name="u")).topics) == {"t", "u"}


def test_error_codes_are_kept_with_topic_and_partition() -> None:
    found = ClusterMetadata.of(
        MetadataResponse(
            topics=(
                MetadataResponseTopic(
                    name="t", error_code=3, partitions=(MetadataResponsePartition(error_code=5, leader_id=-1),)
                ),
            )
        )
    )
    assert found.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found.topics["t"].partitions[0].error is ErrorCode.LEADER_NOT_AVAILABLE
