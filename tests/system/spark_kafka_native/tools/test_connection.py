from pathlib import Path

import pytest

from tests.system.spark_kafka_native.tools.conftest import Tool


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--bootstrap-server: say which cluster"),
        (("--zookeeper", "localhost:2181"), "--zookeeper: brokers are asked, not ZooKeeper"),
        (("--bootstrap-server", "nonsense"), "bootstrap.servers"),
    ],
)
def test_a_cluster_that_cannot_be_meant_is_a_bad_option(tool: Tool, arguments: tuple[str, ...], words: str) -> None:
    answer = tool("kafka-topics", "--list", *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("kafka-topics: ")
    assert words in answer.err


SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "not UTF-8"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("kafka-topics", "--list", *SERVER, "--command-config"),
        ("kafka-console-consumer", "--topic", "t", *SERVER, "--consumer.config"),
        ("kafka-console-producer", "--topic", "t", *SERVER, "--producer.config"),
        ("exactly-once", "status", "orders", *SERVER, "--command-config"),
        ("kafka-configs", "--alter", "--topic", "t", *SERVER, "--add-config-file"),
        ("kafka-delete-records", *SERVER, "--offset-json-file"),
        ("kafka-storage", "info", "-c"),
        ("kafka-server-start",),
        ("zookeeper-server-start",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_cannot_be_read_is_named_and_ends_with_1(
    tool: Tool, tmp_path: Path, arguments: tuple[str, ...], is_there: bool
) -> None:
    file = tmp_path / "some.file"
    if is_there:
        file.write_bytes(b"key=\xff")
    answer = tool(*arguments, str(file))
    assert (answer.status, str(file) in answer.err) == (1, True), answer.err


def test_properties_in_a_file_are_the_clients(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("request.timeout.ms=many\n")
    answer = tool("kafka-topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(properties))
    assert answer.status == 2
    assert "request.timeout.ms: 'many' is not an integer" in answer.err


def test_a_cluster_that_is_not_there_is_named(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=100\n")
    answer = tool("kafka-topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(properties))
    assert answer.status == 1
    assert "127.0.0.1:1" in answer.out


def test_options_are_not_guessed_from_their_beginnings(tool: Tool) -> None:
    answer = tool("kafka-topics", "--list", "--boot", "127.0.0.1:1")
    assert answer.status == 2
    assert "--boot" in answer.err
