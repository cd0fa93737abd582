from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafka_native._client.admin.committed_offsets import commit_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_2_1, ScriptedCluster
from tests.support.scripted.steps import Respond, Silent
from tests.support.tools import Tool, ToolResult

GROUPS = ("g", "h")
NO_LEADER, NO_BROKER = -1, 9


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    """Groups with offsets of three partitions, of which one has no leader and one a leader that is no live broker."""
    versions = {**KAFKA_2_1, 15: (0, 4), 16: (0, 3)}
    with ScriptedCluster(topics={"t": 3}, versions=versions) as made:
        with Cluster(made.config()) as cluster:
            for group in GROUPS:
                commit_offsets(cluster, group, {TopicPartition("t", number): 5 for number in range(3)})
        made.partition("t", 1).leader = NO_LEADER
        made.partition("t", 2).leader = NO_BROKER
        yield made


def groups_tool(tool: Tool, brokers: ScriptedCluster, *arguments: str) -> ToolResult:
    listed = tuple(ListedGroup(group_id=group, protocol_type="consumer") for group in GROUPS)
    brokers.script(ListGroupsRequest, Respond(lambda _: ListGroupsResponse(groups=listed)))
    for _ in GROUPS:
        brokers.script(DescribeGroupsRequest, Respond(_described))
    return tool("kafka-consumer-groups", "--bootstrap-server", brokers.bootstrap_servers, *arguments)


def _described(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    (group_id,) = request.groups
    group = DescribedGroup(group_id=group_id, group_state="Empty", protocol_type="consumer")
    return DescribeGroupsResponse(groups=(group,))


def test_offsets_of_groups_are_described_without_the_ends_that_have_no_leader(
    tool: Tool, brokers: ScriptedCluster
) -> None:
    response = groups_tool(tool, brokers, "--describe", "--all-groups")
    rows = [line.split()[:6] for line in response.lines if line.startswith(GROUPS)]
    ends = (("0", "-5"), ("-", "-"), ("-", "-"))
    assert rows == [[group, "t", str(at), "5", *end] for group in GROUPS for at, end in enumerate(ends)]
    assert response.status == 0


@pytest.mark.parametrize("position", ["--to-earliest", "--to-latest", "--to-current"])
@pytest.mark.parametrize("topics", [("--topic", "t"), ("--all-topics",), ("--topic", "t:0,2,1")])
def test_offsets_of_partitions_without_a_leader_are_not_reset(
    tool: Tool, brokers: ScriptedCluster, topics: tuple[str, ...], position: str
) -> None:
    before = len(brokers.received)
    response = groups_tool(tool, brokers, "--reset-offsets", "--group", "g", *topics, position, "--execute")
    assert (response.status, response.out) == (1, "")
    words = "group g: no offset was reset, because these partitions have no leader: t-1, t-2"
    assert response.err.splitlines()[-1] == f"kafka-consumer-groups: {words}"
    assert not any(isinstance(request, ListOffsetsRequest) for _, request, _ in brokers.received[before:])


def test_offsets_of_partitions_with_a_leader_are_reset(tool: Tool, brokers: ScriptedCluster) -> None:
    response = groups_tool(tool, brokers, "--reset-offsets", "--group", "g", "--topic", "t:0", "--to-latest")
    assert (response.status, response.lines[-1].split()) == (0, ["g", "t", "0", "0"])


@pytest.mark.parametrize("action", [("--describe",), ("--reset-offsets", "--topic", "t:0", "--to-latest")])
def test_a_timeout_bounds_the_look_up_of_offsets(
    tool: Tool, brokers: ScriptedCluster, tmp_path: Path, action: tuple[str, ...]
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=3600000\nrequest.timeout.ms=3600000\n")
    brokers.script(ListOffsetsRequest, *[Silent()] * 2)
    arguments = (*action, "--group", "g", "--timeout", "500", "--command-config", str(properties))
    assert groups_tool(tool, brokers, *arguments).status == 1


def test_get_offsets_skips_partitions_without_a_leader(tool: Tool, brokers: ScriptedCluster) -> None:
    response = tool("kafka-get-offsets", "--bootstrap-server", brokers.bootstrap_servers, "--topic", "t")
    assert (response.status, response.out) == (0, "t:0:0\n")
    words = "Skip getting offsets for topic-partition {0} due to error: {0} has no leader"
    assert response.err.splitlines() == [words.format(partition) for partition in ("t-1", "t-2")]
