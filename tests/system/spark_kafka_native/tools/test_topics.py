"""kafka-topics. A broker of Apache Kafka may answer with older metadata shortly after the controller made a change."""

import pytest
from dirty_equals import Contains, HasLen

from broker_embedded.testing import EmbeddedBroker, ErrorCode
from tests.support.tools import Tool
from tests.support.waiting import eventually


def test_a_topic_is_made_described_widened_and_deleted(on_broker: Tool, name: str) -> None:
    made = on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000")
    assert (made.status, made.out) == (0, f"Created topic {name}.\n")
    eventually(lambda: on_broker("kafka-topics", "--list").lines, Contains(name))

    first, *partitions = on_broker("kafka-topics", "--describe", "--topic", name).lines
    fields = dict(part.split(": ", 1) for part in first.split("\t"))
    assert (fields["Topic"], fields["PartitionCount"], fields["ReplicationFactor"]) == (name, "2", "1")
    # Apache Kafka with eligible leader replicas has min.insync.replicas as a setting of the cluster.
    assert fields["Configs"].removeprefix("min.insync.replicas=1,") == "retention.ms=1000"
    assert len(fields["TopicId"]) == 22
    replicas = "Leader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    assert partitions == [f"\tTopic: {name}\tPartition: {p}\t{replicas}" for p in (0, 1)]

    assert on_broker("kafka-topics", "--alter", "--topic", name, "--partitions", "3").status == 0
    eventually(lambda: on_broker("kafka-topics", "--describe", "--topic", name).lines, HasLen(4))
    assert on_broker("kafka-topics", "--delete", "--topic", name).status == 0
    eventually(lambda: on_broker("kafka-topics", "--list").lines, ~Contains(name))


def test_errors_of_the_cluster_have_the_text_of_apache_kafka(on_broker: Tool, name: str) -> None:
    on_broker("kafka-topics", "--create", "--topic", name)
    again = on_broker("kafka-topics", "--create", "--topic", name)
    assert again.status == 1
    assert again.out == f"Error while executing topic command : Topic '{name}' already exists.\n"
    words = f"kafka-topics: topic {name}: Topic '{name}' already exists. (TOPIC_ALREADY_EXISTS, 36)\n"
    assert again.err == words
    for action in (("--alter", "--partitions", "3"), ("--delete",)):
        missing = on_broker("kafka-topics", *action, "--topic", "not-there")
        expected = "Error while executing topic command : Topic 'not-there' does not exist as expected\n"
        assert (missing.status, missing.out) == (1, expected)
    missing = on_broker("kafka-topics", "--describe", "--topic", "not-there")
    assert missing.status == 1
    assert "Topic 'not-there' does not exist as expected" in missing.out


def test_if_exists_and_if_not_exists_ignore_errors(on_broker: Tool, name: str) -> None:
    for _ in range(2):
        assert on_broker("kafka-topics", "--create", "--if-not-exists", "--topic", name).status == 0
    eventually(lambda: on_broker("kafka-topics", "--list").lines, Contains(name))
    for _ in range(2):
        assert on_broker("kafka-topics", "--delete", "--if-exists", "--topic", name).status == 0
    eventually(lambda: on_broker("kafka-topics", "--describe", "--if-exists", "--topic", name).out, "")
    assert on_broker("kafka-topics", "--alter", "--if-exists", "--topic", name, "--partitions", "2").status == 0


@pytest.mark.parametrize(
    ("api", "arguments"), [("Metadata", ("--create", "--if-not-exists")), ("DeleteTopics", ("--delete", "--if-exists"))]
)
def test_the_response_to_a_change_decides_whether_a_topic_exists_and_not_older_metadata(
    tool: Tool, api: str, arguments: tuple[str, ...]
) -> None:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with EmbeddedBroker(topics={"t": 1}) as broker, broker.faults.fail(api, error, topic="t"):
        done = tool("kafka-topics", "--bootstrap-server", broker.bootstrap_servers, *arguments, "--topic", "t")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_regular_expressions_choose_topics(on_broker: Tool, name: str) -> None:
    one, other = f"{name}-red", f"{name}-other-red"
    for topic in (one, other):
        on_broker("kafka-topics", "--create", "--topic", topic)
    both = sorted([one, other])
    eventually(lambda: on_broker("kafka-topics", "--list", "--topic", "tool-topic-.*-red").lines, both)
    assert on_broker("kafka-topics", "--list", "--topic", "tool-topic").lines == []
    assert on_broker("kafka-topics", "--delete", "--topic", f"{one},{other}").status == 0


@pytest.mark.parametrize("expression", ["(", ".*,("])
def test_invalid_regular_expression_is_refused(on_broker: Tool, expression: str) -> None:
    bad = on_broker("kafka-topics", "--list", "--topic", expression)
    assert (bad.status, "is not a regular expression" in bad.err) == (2, True)


def test_names_that_metrics_may_confuse_are_warned_of(on_broker: Tool, name: str) -> None:
    warning, done = on_broker("kafka-topics", "--create", "--topic", f"{name}_x").lines
    assert warning.startswith("WARNING: Due to limitations in metric names")
    assert done == f"Created topic {name}_x."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--create",), "--topic is required"),
        (("--alter", "--topic", "t"), "--alter needs --partitions"),
        (("--create", "--topic", "t", "--config", "retention.ms"), "--config: KEY=VALUE is expected"),
        (("--create", "--topic", "t", "--replica-assignment", "1:x"), "--replica-assignment: '1:x' is not"),
        ((), "one of --create, --delete, --list, --describe, --alter is required"),
        (("--describe", "--if-exists"), "--if-exists: --describe needs --topic or --topic-id"),
        (("--describe", "--topic-id", "x"), "--topic-id: 'x' is no base64 id"),
        (("--create", "--delete", "--topic", "t"), "--create and --delete cannot be used together"),
    ],
)
def test_bad_options(on_broker: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = on_broker("kafka-topics", *arguments)
    assert response.status == 2
    assert words in response.err


def test_replicas_may_be_assigned(on_broker: Tool, name: str) -> None:
    assert on_broker("kafka-topics", "--create", "--topic", name, "--replica-assignment", "1,1,1").status == 0
    eventually(lambda: on_broker("kafka-topics", "--describe", "--topic", name).lines, HasLen(4))
    refused = on_broker("kafka-topics", "--create", "--topic", f"{name}-b", "--replica-assignment", "7")
    assert (refused.status, "INVALID_REPLICA_ASSIGNMENT" in refused.err) == (1, True)
