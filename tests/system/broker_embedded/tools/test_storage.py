import json
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.ids import parse_id
from tests.support.tools import Tool


@pytest.fixture
def properties(tmp_path: Path) -> str:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={tmp_path / 'data'}\n")
    return str(file)


def test_ids_are_new_each_time(tool: Tool) -> None:
    ids = {tool("kafka-storage", "random-uuid").out.strip() for _ in range(3)}
    assert len(ids) == 3
    assert all(parse_id(text) for text in ids)


def test_a_directory_is_formatted_once_and_a_broker_takes_it(tool: Tool, properties: str, tmp_path: Path) -> None:
    assert tool("kafka-storage", "info", "-c", properties).status == 1
    formatted = tool("kafka-storage", "format", "-t", "my-cluster", "-c", properties)
    assert (formatted.status, formatted.out) == (0, f"Formatting {tmp_path / 'data'} for cluster my-cluster.\n")
    again = tool("kafka-storage", "format", "-t", "other", "-c", properties)
    assert (again.status, "is already formatted" in again.err) == (1, True)
    assert tool("kafka-storage", "format", "-t", "other", "-c", properties, "--ignore-formatted").status == 0
    info = tool("kafka-storage", "info", "--config", properties)
    assert "cluster.id=my-cluster, node.id=1" in info.out
    found = json.loads(tool("kafka-storage", "info", "--config", properties, "--json").out)
    assert found == {"logDirectory": str(tmp_path / "data"), "clusterId": "my-cluster", "nodeId": 1}
    with EmbeddedBroker(tmp_path / "data", settings={"cluster.id": "my-cluster"}):
        pass


def test_ids_may_begin_with_a_dash(tool: Tool, properties: str) -> None:
    assert tool("kafka-storage", "format", "-t", "-abc", "-c", properties).status == 0
    assert "cluster.id=-abc" in tool("kafka-storage", "info", "-c", properties).out


def test_the_first_users_are_made(tool: Tool, properties: str, tmp_path: Path) -> None:
    users = [
        *("--add-scram", "SCRAM-SHA-256=[name=alice,password=hunter2]"),
        *("-S", "SCRAM-SHA-512=[name=bob,password=hunter2,iterations=8192]"),
    ]
    wrong = tool("kafka-storage", "format", "-t", "c", "-c", properties, "-S", "PLAIN=[name=alice,password=hunter2]")
    assert (wrong.status, "PLAIN is not one of" in wrong.err, "hunter2" in wrong.err) == (2, True, False)
    assert not (tmp_path / "data").exists()
    assert tool("kafka-storage", "format", "-t", "c", "-c", properties, *users).status == 0
    with EmbeddedBroker(tmp_path / "data") as broker:
        found = broker._server.broker.scram_users.describe(None)
    assert found == {"alice": {"SCRAM-SHA-256": 4096}, "bob": {"SCRAM-SHA-512": 8192}}


def test_unreadable_credentials_are_no_bad_option(tool: Tool, properties: str, tmp_path: Path) -> None:
    file = tmp_path / "data" / "scram-credentials.json"
    file.parent.mkdir()
    file.write_text("{")
    response = tool("kafka-storage", "format", "-t", "c", "-c", properties, "-S", "SCRAM-SHA-256=[name=a,password=b]")
    assert (response.status, str(file) in response.err) == (1, True)
