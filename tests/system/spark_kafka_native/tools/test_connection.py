import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest
from dirty_equals import IsStr

from broker_embedded.testing import EmbeddedBroker
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


def test_a_server_that_cannot_be_reached_is_reported_once_while_the_tool_tries_again(
    tool: Tool, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=100\nreconnect.backoff.ms=1\n")
    servers = ("--bootstrap-server", "127.0.0.1:1,127.0.0.2:1")
    for _ in range(2):
        answer = tool("kafka-get-offsets", *servers, "--command-config", str(properties))
        *tries, last = answer.err.splitlines()
        assert sorted(tries) == [
            IsStr(regex=rf"{host}:1: connection refused; trying again for 0\.[0-9]+ s")
            for host in ("127.0.0.1", "127.0.0.2")
        ]
        assert last.startswith("kafka-get-offsets: ")


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (
            socket.EAI_NONAME,
            2,
            "kafka-topics: --bootstrap-server: no host name can be resolved: nosuch:1 (no such name)",
        ),
        (socket.EAI_AGAIN, 1, "nosuch:1: the host name is unknown (no such name); trying again for"),
    ],
)
def test_names_that_do_not_exist_are_a_bad_option(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, status: int, words: str
) -> None:
    def resolve(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(code, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=100\n")
    arguments = ("--list", "--bootstrap-server", "nosuch:1", "--command-config", str(properties))
    answer = tool("kafka-topics", *arguments)
    assert (answer.status, answer.err.splitlines()[0].startswith(words)) == (status, True), answer.err


def test_one_name_that_exists_is_enough(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "nosuch":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with EmbeddedBroker(topics={"t": 1}) as broker:
        answer = tool("kafka-topics", "--list", "--bootstrap-server", f"nosuch:1,{broker.bootstrap_servers}")
    assert (answer.status, answer.lines) == (0, ["t"])


def test_options_are_not_guessed_from_their_beginnings(tool: Tool) -> None:
    answer = tool("kafka-topics", "--list", "--boot", "127.0.0.1:1")
    assert answer.status == 2
    assert "--boot" in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("kafka-topics", "--lst"), "unrecognized arguments: --lst; did you mean --list?"),
        (("kafka-topics", "--list", "--topc=t"), "unrecognized arguments: --topc; did you mean --topic?"),
        (("kafka-configs", "--xyzzy", "--descrbe"), "unrecognized arguments: --xyzzy, --descrbe; did you mean"),
        (("kafka-storage", "format", "--confg", "f"), "unrecognized arguments: --confg; did you mean --config?"),
        (("kafka-transactions", "abort", "--topc", "t"), "unrecognized arguments: --topc; did you mean --topic?"),
        (("kafka-transactions", "--lst"), "unrecognized arguments: --lst"),
        (("kafka-transactions", "--bootstrap-servr", "h:1", "list"), "did you mean --bootstrap-server?"),
        (("kafka-server-start", "-demon", "f"), "unrecognized arguments: -demon; did you mean -daemon?"),
        (("exactly-once", "--accept-lost"), "unrecognized arguments: --accept-lost; did you mean --accept-loss?"),
        (("kafka-topics", "--", "--lst"), "one of the arguments --create"),
    ],
)
def test_an_unknown_option_is_the_first_error(tool: Tool, arguments: tuple[str, ...], words: str) -> None:
    answer = tool(*arguments)
    assert (answer.status, words in answer.err) == (2, True), answer.err


def test_values_that_begin_with_a_dash_are_no_options(tool: Tool, tmp_path: Path) -> None:
    assert "is not between" in tool("kafka-topics", "--create", "--partitions", "-3000000000").err
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\n")
    formatted = tool("kafka-storage", "format", "-t", "-id-with-a-dash-------", f"-c{properties}")
    assert (formatted.status, formatted.err) == (0, "")
