"""``--json``: an object per line, with numbers, null and lists where text has words."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from tests.support.servers.brokers import AnyBroker
from tests.support.tools import Tool


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    """A topic with six records, of which the group of its name has read four."""
    on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "1", "--config", "retention.ms=-1")
    on_broker("kafka-console-producer", "--topic", name, stdin=b"1\n2\n3\n4\n5\n6\n")
    on_broker("kafka-console-consumer", "--topic", name, "--from-beginning", "--group", name, "--max-messages", "4")
    return name


@pytest.fixture
def cluster(any_broker: AnyBroker) -> Cluster:
    return Cluster(ClientConfig.parse({"bootstrap.servers": any_broker.bootstrap_servers}))


def objects(on_broker: Tool, tool: str, *arguments: str) -> list[dict[str, Any]]:
    """What the tool prints; it succeeds."""
    response = on_broker(tool, *arguments, "--json")
    assert response.status == 0, response.err
    return [json.loads(line) for line in response.lines]


def test_topics_have_partitions_and_configs(on_broker: Tool, topic: str) -> None:
    assert {"topic": topic, "internal": False} in objects(on_broker, "kafka-topics", "--list")
    (found,) = objects(on_broker, "kafka-topics", "--describe", "--topic", topic)
    (partition,) = found["partitions"]
    assert (found["topic"], found["partitionCount"], found["replicationFactor"]) == (topic, 1, 1)
    assert (found["configs"]["retention.ms"], len(found["topicId"])) == ("-1", 22)
    assert partition["replicas"] == partition["isr"] == [partition["leader"]]
    assert objects(on_broker, "kafka-topics", "--describe", "--topic", topic, "--unavailable-partitions") == []
    (short,) = objects(on_broker, "kafka-topics", "--describe", "--topic", topic, "--at-min-isr-partitions")
    assert short == found
    (overrides,) = objects(on_broker, "kafka-topics", "--describe", "--topic", topic, "--topics-with-overrides")
    assert overrides == {**found, "partitions": []}
    refused = on_broker("kafka-topics", "--create", "--topic", "u", "--json")
    assert (refused.status, "--json is an option of --list and --describe" in refused.err) == (2, True)


def test_groups_have_states_offsets_and_lag(on_broker: Tool, topic: str) -> None:
    groups = {each["group"]: each for each in objects(on_broker, "kafka-consumer-groups", "--list")}
    assert groups[topic]["state"] == "Empty"
    offsets = {"group": topic, "topic": topic, "partition": 0, "currentOffset": 4, "logEndOffset": 6, "lag": 2}
    without = {"consumerId": None, "host": None, "clientId": None}
    assert objects(on_broker, "kafka-consumer-groups", "--describe", "--group", topic) == [offsets | without]
    (state,) = objects(on_broker, "kafka-consumer-groups", "--describe", "--group", topic, "--state")
    assert (state["state"], state["memberCount"], state["assignmentStrategy"]) == ("Empty", 0, None)


def test_a_deleted_group(on_broker: Tool, topic: str) -> None:
    deleted = objects(on_broker, "kafka-consumer-groups", "--delete", "--group", topic)
    assert deleted == [{"group": topic, "deleted": True}]


def test_new_and_deleted_offsets_of_a_group(on_broker: Tool, topic: str) -> None:
    chosen = ("--group", topic, "--topic", topic)
    new = objects(on_broker, "kafka-consumer-groups", "--reset-offsets", *chosen, "--to-earliest")
    assert new == [{"group": topic, "topic": topic, "partition": 0, "newOffset": 0}]
    deleted = objects(on_broker, "kafka-consumer-groups", "--delete-offsets", *chosen)
    assert deleted == [{"group": topic, "topic": topic, "partition": 0, "error": None}]


def test_configs_have_sources_and_synonyms(on_broker: Tool, topic: str) -> None:
    (found,) = objects(on_broker, "kafka-configs", "--describe", "--topic", topic)
    assert (found["entityType"], found["entityName"]) == ("topics", topic)
    assert (found["name"], found["value"], found["source"]) == ("retention.ms", "-1", "DYNAMIC_TOPIC_CONFIG")
    everything = objects(on_broker, "kafka-configs", "--describe", "--topic", topic, "--all")
    assert {"name": "retention.ms", "value": "-1"}.items() <= next(
        each for each in everything if each["name"] == "retention.ms"
    ).items()
    refused = on_broker("kafka-configs", "--alter", "--topic", topic, "--add-config", "retention.ms=1", "--json")
    assert (refused.status, "--json is an option of --describe" in refused.err) == (2, True)


def test_quotas_and_users_have_numbers(on_broker: Tool, name: str) -> None:
    for change in ("consumer_byte_rate=1048576", "SCRAM-SHA-256=[iterations=4096,password=secret]"):
        assert on_broker("kafka-configs", "--alter", "--user", name, "--add-config", change).status == 0
    assert objects(on_broker, "kafka-configs", "--describe", "--user", name) == [
        {"entity": {"user": name}, "quotas": {"consumer_byte_rate": 1048576.0}},
        {"entity": {"user": name}, "scramIterations": {"SCRAM-SHA-256": 4096}},
    ]


def test_offsets_are_numbers_or_null(on_broker: Tool, topic: str, tmp_path: Path) -> None:
    assert objects(on_broker, "kafka-get-offsets", "--topic", topic) == [{"topic": topic, "partition": 0, "offset": 6}]
    never = objects(on_broker, "kafka-get-offsets", "--topic", topic, "--time", str(2**53))
    assert never == [{"topic": topic, "partition": 0, "offset": None}]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    assert objects(on_broker, "kafka-delete-records", "--offset-json-file", str(file)) == [
        {"topic": topic, "partition": 0, "lowWatermark": 2}
    ]


def test_records_have_text_or_base64(on_broker: Tool, name: str, cluster: Cluster) -> None:

    on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rows = pa.record_batch(
        {
            "key": pa.array([None, b"\xff"], pa.binary()),
            "value": pa.array(["größer".encode(), None], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"\xfe"}, {"key": "n", "value": None}], []], pa.list_(header)),
        }
    )
    with cluster, Producer(cluster) as producer:
        producer.send(name, rows)
    limit = ("--from-beginning", "--max-messages", "2")
    first, second = objects(on_broker, "kafka-console-consumer", "--topic", name, *limit)
    assert (first["topic"], first["partition"], first["offset"], first["timestampType"]) == (name, 0, 0, "CreateTime")
    assert (first["key"], first["value"]) == (None, "größer")
    assert first["headers"] == [{"key": "h", "valueBase64": "/g=="}, {"key": "n", "value": None}]
    assert (second["keyBase64"], second["value"], second["headers"]) == ("/w==", None, [])
    refused = on_broker("kafka-console-consumer", "--topic", name, "--property", "print.key=true", "--json")
    assert (refused.status, "--property has no effect with --json" in refused.err) == (2, True)


def test_producers_of_a_partition_have_null_without_a_transaction(on_broker: Tool, topic: str) -> None:
    partition = ("--topic", topic, "--partition", "0")
    (producer,) = objects(on_broker, "kafka-transactions", "describe-producers", *partition)
    assert (producer["producerEpoch"], producer["currentTransactionStartOffset"]) == (0, None)


def test_transactions_are_listed_by_their_states(on_broker: Tool, topic: str, cluster: Cluster) -> None:
    with cluster, TransactionalProducer(cluster, f"id-of-{topic}") as producer:
        producer.begin()
        producer.send(topic, pa.record_batch({"value": [b"a"]}))
        producer.flush()
        found = {each["transactionalId"]: each for each in objects(on_broker, "kafka-transactions", "list")}
        producer.abort()
    assert found[f"id-of-{topic}"]["transactionState"] == "Ongoing"
    assert isinstance(found[f"id-of-{topic}"]["producerId"], int)
