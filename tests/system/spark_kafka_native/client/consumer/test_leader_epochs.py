from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.leader_epochs import EpochEnd, ends_of_epochs
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_2_3, ScriptedCluster
from tests.support.scripted.steps import Drop, Refuse, Respond

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

pytestmark = pytest.mark.feature("client.leaderEpochs")


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2, topics={"t": 2}) as running:
        fill(running)
        yield running


def fill(brokers: ScriptedCluster) -> None:
    """Ten records in epoch 0, ten more in epoch 2, of partition 0; none of partition 1."""
    partition = brokers.partition("t")
    partition.append(batch_of([b"v"] * 10))
    partition.leader_epoch = 2
    partition.append(batch_of([b"v"] * 10))


def test_ends_are_those_in_the_leaders_logs(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config()) as cluster:
        assert ends_of_epochs(cluster, {T0: 0, T1: 0}) == {
            T0: EpochEnd(epoch=0, end_offset=10),
            T1: EpochEnd(epoch=0, end_offset=0),
        }
        assert ends_of_epochs(cluster, {T0: 1}) == {T0: EpochEnd(epoch=0, end_offset=10)}
        assert ends_of_epochs(cluster, {T0: 2}) == {T0: EpochEnd(epoch=2, end_offset=20)}
        assert ends_of_epochs(cluster, {T0: 7}) == {}, "no log has that epoch"
    assert {request.replica_id for request in brokers.requests(OffsetForLeaderEpochRequest)} == {-1}


def test_brokers_before_2_3_get_no_offset_for_leader_epoch() -> None:
    with ScriptedCluster(topics={"t": 1}, versions={**KAFKA_2_1, 23: (0, 2)}, topic_ids=False) as brokers:
        with Cluster(brokers.config()) as cluster:
            assert ends_of_epochs(cluster, {T0: 0}) == {}
        assert not brokers.requests(OffsetForLeaderEpochRequest)
    with (
        ScriptedCluster(topics={"t": 1}, versions=KAFKA_2_1, topic_ids=False) as brokers,
        Cluster(brokers.config()) as cluster,
    ):
        assert ends_of_epochs(cluster, {T0: 0}) == {}
    with ScriptedCluster(topics={"t": 1}, versions=KAFKA_2_3, topic_ids=False) as brokers:
        fill(brokers)
        with Cluster(brokers.config()) as cluster:
            assert ends_of_epochs(cluster, {T0: 0}) == {T0: EpochEnd(epoch=0, end_offset=10)}


PASSING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_retriable_errors_are_retried_and_others_are_raised(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config()) as cluster:
        brokers.script(OffsetForLeaderEpochRequest, Drop(), *map(Refuse, PASSING))
        assert ends_of_epochs(cluster, {T0: 0}) == {T0: EpochEnd(epoch=0, end_offset=10)}
        brokers.script(OffsetForLeaderEpochRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError, match="t-0"):
            ends_of_epochs(cluster, {T0: 0})
        brokers.script(OffsetForLeaderEpochRequest, *[Respond(lambda _: OffsetForLeaderEpochResponse())] * 10_000)
        with pytest.raises(KafkaError, match="t-0 is missing from OffsetForLeaderEpoch"):
            ends_of_epochs(cluster, {T0: 0}, timeout_ms=500)
