import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.eligible_replicas import EligibleReplicas, eligible_replicas
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native import config_of
from tests.support.scripted.cluster import KAFKA_2_1, ScriptedCluster
from tests.support.scripted.steps import Respond


def page(first: int, following: Cursor | None) -> Respond:
    part = DescribeTopicPartitionsResponsePartition(
        partition_index=first, eligible_leader_replicas=(first + 1,), last_known_elr=None
    )
    topic = DescribeTopicPartitionsResponseTopic(name="t", partitions=(part,))
    return Respond(lambda _: DescribeTopicPartitionsResponse(topics=(topic,), next_cursor=following))


def test_every_page_is_read() -> None:
    next_page = Cursor(topic_name="t", partition_index=1)
    with ScriptedCluster(topics={"t": 2}) as brokers, Cluster(brokers.config()) as cluster:
        brokers.script(DescribeTopicPartitionsRequest, page(0, next_page), page(1, None))
        found = eligible_replicas(cluster, ["t"])
        assert [request.cursor for request in brokers.requests(DescribeTopicPartitionsRequest)] == [None, next_page]
    assert found == {TopicPartition("t", index): EligibleReplicas((index + 1,), ()) for index in (0, 1)}


def test_a_topic_of_more_partitions_than_a_page_holds() -> None:
    with ScriptedCluster(topics={"a": 2_500, "b": 2_500}) as brokers, Cluster(brokers.config()) as cluster:
        found = eligible_replicas(cluster, ["b", "a"])
        assert len(brokers.requests(DescribeTopicPartitionsRequest)) == 3
    assert list(found) == [TopicPartition(topic, index) for topic in ("a", "b") for index in range(2_500)]


def test_pages_that_do_not_advance_end_in_an_error() -> None:
    same = Cursor(topic_name="t", partition_index=0)
    with ScriptedCluster(topics={"t": 2}) as brokers, Cluster(brokers.config()) as cluster:
        brokers.script(DescribeTopicPartitionsRequest, page(0, same), page(0, same))
        with pytest.raises(KafkaError, match=r"the page after .* begins at"):
            eligible_replicas(cluster, ["t"])


def test_a_broker_without_describe_topic_partitions_describes_none() -> None:
    with ScriptedCluster(topics={"t": 1}, versions=KAFKA_2_1) as brokers, Cluster(brokers.config()) as cluster:
        assert eligible_replicas(cluster, ["t"]) == {}


def test_without_topics_no_request_is_sent() -> None:
    with EmbeddedBroker() as broker, Cluster(config_of(broker.bootstrap_servers)) as cluster:
        assert eligible_replicas(cluster, []) == {}
        assert broker.requests("DescribeTopicPartitions") == []
