"""kafka-topics --describe. A broker of Apache Kafka may answer with older metadata shortly after a change."""

import pytest
from dirty_equals import Contains

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.support.scripted.cluster import KAFKA_2_1, ScriptedCluster
from tests.support.scripted.steps import Respond
from tests.support.tools import Tool
from tests.support.waiting import eventually

UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def name(on_broker: Tool, name: str) -> str:
    on_broker("kafka-topics", "--create", "--topic", name, "--config", "retention.ms=1000")
    eventually(lambda: on_broker("kafka-topics", "--list").lines, Contains(name))
    return name


def described(on_broker: Tool, *options: str) -> list[str]:
    response = on_broker("kafka-topics", "--describe", *options)
    assert (response.status, response.err) == (0, "")
    return response.lines


def test_partitions_are_chosen_by_leaders_and_in_sync_replicas(on_broker: Tool, name: str) -> None:
    topic = ("--topic", name)
    for option in ("--unavailable-partitions", "--under-replicated-partitions", "--under-min-isr-partitions"):
        assert described(on_broker, *topic, option) == []
    whole = described(on_broker, *topic)
    assert described(on_broker, *topic, "--at-min-isr-partitions") == whole[1:]
    assert described(on_broker, *topic, "--unavailable-partitions", "--at-min-isr-partitions") == whole[1:]


def test_only_topics_with_overrides(on_broker: Tool, name: str) -> None:
    assert described(on_broker, "--topic", name, "--topics-with-overrides") == described(on_broker, "--topic", name)[:1]


def test_topics_without_overrides_are_left_out(tool: Tool) -> None:
    with EmbeddedBroker(topics={"t": 1}, settings={"as.version": "3.9"}) as broker:
        arguments = ("--describe", "--topics-with-overrides")
        assert tool("kafka-topics", "--bootstrap-server", broker.bootstrap_servers, *arguments).out == ""


def test_settings_of_the_broker_are_configs_of_its_topics(tool: Tool) -> None:
    with EmbeddedBroker(topics={"t": 1}, settings={"as.version": "3.9", "log.retention.ms": "5000"}) as broker:
        response = tool("kafka-topics", "--bootstrap-server", broker.bootstrap_servers, "--describe")
    assert response.lines[0].endswith("\tConfigs: retention.ms=5000")


def test_a_topic_is_described_by_its_id(on_broker: Tool, name: str) -> None:
    whole = described(on_broker, "--topic", name)
    topic_id = whole[0].split("\t")[1].removeprefix("TopicId: ")
    by_id = described(on_broker, "--topic-id", topic_id)
    assert by_id == [whole[0], whole[1].replace("Elr: \tLastKnownElr: ", "Elr: N/A\tLastKnownElr: N/A")]
    assert described(on_broker, "--topic", "other", "--topic-id", topic_id) == by_id
    assert described(on_broker, "--topic", name, "--topic-id", NO_ID) == whole
    missing = on_broker("kafka-topics", "--describe", "--topic-id", UNKNOWN_ID)
    words = f"Error while executing topic command : TopicId '{UNKNOWN_ID}' does not exist as expected\n"
    assert (missing.status, missing.out) == (1, words)
    assert described(on_broker, "--topic-id", UNKNOWN_ID, "--if-exists") == []


def test_brokers_that_do_not_know_of_eligible_leader_replicas(tool: Tool) -> None:
    with EmbeddedBroker(topics={"t": 1}, settings={"as.version": "3.0"}) as broker:
        response = tool("kafka-topics", "--bootstrap-server", broker.bootstrap_servers, "--describe")
    assert response.lines[1].endswith("\tElr: N/A\tLastKnownElr: N/A")


def test_a_partition_whose_leader_is_no_live_broker_has_none(tool: Tool) -> None:
    configs = (DescribeConfigsResourceResult(name="min.insync.replicas", value="2", config_source=5),)
    response = DescribeConfigsResponse(results=(DescribeConfigsResult(configs=configs),))
    with ScriptedCluster(topics={"t": 2}, versions={**KAFKA_2_1, 32: (0, 4)}) as brokers:
        brokers.partition("t", 1).leader = 9
        for option in ("--unavailable-partitions", "--under-min-isr-partitions"):
            brokers.script(DescribeConfigsRequest, Respond(lambda _: response))
            arguments = ("--bootstrap-server", brokers.bootstrap_servers, "--describe", option)
            lines = tool("kafka-topics", *arguments).lines
            assert lines[-1].startswith("\tTopic: t\tPartition: 1\tLeader: none\t")
            assert len(lines) == (1 if option == "--unavailable-partitions" else 2)


@pytest.mark.parametrize("option", ["--under-min-isr-partitions", "--at-min-isr-partitions"])
def test_a_broker_without_min_insync_replicas_is_an_error(tool: Tool, option: str) -> None:
    configs = (DescribeConfigsResourceResult(name="retention.ms", value="2", config_source=5),)
    response = DescribeConfigsResponse(results=(DescribeConfigsResult(configs=configs),))
    with ScriptedCluster(topics={"t": 1}, versions={**KAFKA_2_1, 32: (0, 4)}) as brokers:
        brokers.script(DescribeConfigsRequest, Respond(lambda _: response))
        described = tool("kafka-topics", "--bootstrap-server", brokers.bootstrap_servers, "--describe", option)
    words = f"{option}: the cluster returns no min.insync.replicas for topic t"
    assert (described.status, described.out, described.err) == (1, "", f"kafka-topics: {words}\n")
