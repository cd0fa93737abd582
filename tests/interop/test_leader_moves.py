"""A cluster of three Apache Kafka nodes whose leaders move, die and come back while producers write and we read."""

import random

import pytest
from dirty_equals import IsOneOf

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native import config_of, read_range
from tests.support.clients.writers import both_writers, wait_for_progress
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

PARTITIONS = 3


three_nodes = kafka_of_its_own("function", brokers=3, settings={"min.insync.replicas": "2"})
"""A leader that dies alone has the followers' word for what it acknowledged."""


def test_nothing_is_lost_or_doubled_when_leaders_move(three_nodes: ApacheKafka, seed: int) -> None:
    dice = random.Random(seed)
    with both_writers(three_nodes, PARTITIONS, pause_s=0.05) as writers:
        wait_for_progress(writers)
        for writer in writers:
            leader = writer.topic, dice.randrange(PARTITIONS), dice.choice(three_nodes.node_ids)
            three_nodes.move_leader(*leader)
        wait_for_progress(writers)
        victim = dice.choice(three_nodes.node_ids)
        three_nodes.kill(victim)
        wait_for_progress(writers)
        three_nodes.restart(victim)
        wait_for_progress(writers)
    _read_across_a_move(three_nodes, writers[0].topic)


def _read_across_a_move(kafka: ApacheKafka, topic: str) -> None:
    """A client that knows the old leader reads on from the new one."""
    partition = TopicPartition(topic, 0)
    with Cluster(config_of(kafka.bootstrap_servers)) as cluster:
        end = list_offsets(cluster, {partition: LATEST})[partition].offset
        before = read_range(cluster, partition, 0, end)
        old_leader = cluster.leader(partition).node.node_id
        kafka.move_leader(topic, 0, next(node for node in kafka.node_ids if node != old_leader))

        def read_from() -> int:
            assert read_range(cluster, partition, 0, end) == before
            return cluster.leader(partition).node.node_id

        eventually(read_from, ~IsOneOf(old_leader))  # the old one serves until it has heard that it leads no more
