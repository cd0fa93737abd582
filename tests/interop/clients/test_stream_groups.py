"""The progress of a stream as Kafka's own tools show it."""

import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from tests.support.clients.topics import Topics
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.stream_query import StreamQuery

pytestmark = pytest.mark.interop


@pytest.mark.feature("more.commitToGroup", "more.startCommitted")
def test_kafka_consumer_groups_shows_the_lag_of_a_stream_and_resets_where_it_starts(
    server: AnyBroker, tools: KafkaTools
) -> None:
    with Topics(server.bootstrap_servers) as topics:
        topic = topics.create(2)
        topics.write(topic, ["a", "b", "c", "d"], partition=[0, 0, 0, 1])
        group = f"group-of-{topic}"
        options = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": topic, "kafka.group.id": group}
        source = ClusterOffsets(ClientConfig.parse({"bootstrap.servers": server.bootstrap_servers}))

        def described() -> list[list[str]]:
            shown = tools.run("kafka-consumer-groups", "--describe", "--group", group, server=server.bootstrap_servers)
            rows = [line.split() for line in shown.output.splitlines()]
            return sorted(row[2:6] for row in rows if row[:1] == [group])

        committing = StreamQuery(source, options | {"startingOffsets": "earliest", "commitOffsetsToGroup": "true"})
        committing.start(available_now=True).run_to_the_end()
        assert described() == [["0", "3", "3", "0"], ["1", "1", "1", "0"]]
        topics.write(topic, ["e"], partition=1)
        assert described() == [["0", "3", "3", "0"], ["1", "1", "2", "1"]]

        reset = ("--group", group, "--topic", f"{topic}:0", "--reset-offsets", "--to-offset", "1", "--execute")
        assert tools.run("kafka-consumer-groups", *reset, server=server.bootstrap_servers).status == 0
        taking_over = StreamQuery(source, options | {"startingOffsets": "committed"}).start(available_now=True)
        taking_over.run_to_the_end()
        assert taking_over.read == {TopicPartition(topic, 0): [1, 2], TopicPartition(topic, 1): [1]}
