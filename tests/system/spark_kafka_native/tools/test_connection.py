import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from dirty_equals import IsStr

from broker_embedded.testing import EmbeddedBroker
from tests.support.tools import Tool


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--bootstrap-server is required"),
        (("--zookeeper", "localhost:2181"), "--zookeeper is not supported"),
        (("--bootstrap-server", "nonsense"), "--bootstrap-server: 'nonsense' has no port"),
        (("--bootstrap-server", "h:99999"), "'99999' is not a port; expected a number from 1 to 65535"),
    ],
)
def test_invalid_bootstrap_server_is_a_bad_option(tool: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = tool("kafka-topics", "--list", *arguments)
    assert (response.status, response.out) == (2, "")
    assert response.err.startswith("kafka-topics: ")
    assert words in response.err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("request.timeout.ms=many", "request.timeout.ms: 'many' is not an integer"),
        ("security.protocol", "security.protocol: '' is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("security.protocol=SASL_PLAINTEXT", "sasl.kerberos.service.name: is required"),
    ],
)
def test_an_invalid_property_is_named_with_its_file_and_option(
    tool: Tool, tmp_path: Path, line: str, problem: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    response = tool("kafka-topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file))
    assert response.status == 2
    assert f"kafka-topics: --command-config {file}: {problem}" in response.err
    options = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--producer.config", str(file))
    assert f"kafka-console-producer: --producer.config {file}: " in tool("kafka-console-producer", *options).err


def test_a_store_that_is_missing_is_named_with_the_file_that_names_it(tool: Tool, tmp_path: Path) -> None:
    """It is read when the client connects."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such.pem\n")
    response = tool("kafka-topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file))
    problem = "ssl.truststore.location: /no/such.pem: cannot be read: No such file or directory"
    assert (response.status, response.err) == (2, f"kafka-topics: --command-config {file}: {problem}\n")


def test_a_missing_package_is_named_with_the_property_and_its_file(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is imported when the client connects."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n")
    with EmbeddedBroker(users={"alice": "secret"}) as broker:
        servers = ("--bootstrap-server", broker.servers_of("SASL_PLAINTEXT"))
        response = tool("kafka-topics", "--list", *servers, "--command-config", str(file))
    problem = (
        f"kafka-topics: --command-config {file}: sasl.mechanism: GSSAPI needs the package gssapi: run `pip install "
    )
    assert (response.status, response.out, response.err.startswith(problem)) == (1, "", True)


def test_an_invalid_property_of_an_option_is_named_with_it(tool: Tool) -> None:
    options = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t")
    response = tool("kafka-console-producer", *options, "--request-required-acks", "5")
    assert (response.status, response.err) == (
        2,
        "kafka-console-producer: --request-required-acks: acks: '5' is not one of all, -1, 0, 1\n",
    )


def test_properties_that_no_client_has_are_ignored_with_a_warning(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("securityprotocol=SSL\nfoo.bar=1\n")
    with EmbeddedBroker(topics={"t": 1}) as broker:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        response = tool("kafka-topics", "--list", *servers, "--command-config", str(file))
        assert tool("kafka-console-producer", *servers, "--topic", "t", "--producer-property", "a.b=1").err == (
            "WARNING: --producer-property: the configuration 'a.b' was supplied but isn't a known config\n"
        )
    where = f"WARNING: --command-config {file}: the configuration"
    assert (response.status, response.lines, response.err.splitlines()) == (
        0,
        ["t"],
        [
            f"{where} 'securityprotocol' was supplied but isn't a known config; did you mean security.protocol?",
            f"{where} 'foo.bar' was supplied but isn't a known config",
        ],
    )


def test_a_cluster_that_is_not_there_is_named(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=100\n")
    response = tool("kafka-topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(properties))
    reason = "no broker could be reached for Metadata (127.0.0.1:1: connection refused); check --bootstrap-server"
    assert (response.status, response.out) == (1, f"Error while executing topic command : {reason}\n")
    assert response.err.splitlines()[-1] == f"kafka-topics: {reason}"


def test_a_server_that_cannot_be_reached_is_reported_once_while_the_tool_tries_again(
    tool: Tool, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=100\nreconnect.backoff.ms=1\n")
    servers = ("--bootstrap-server", "127.0.0.1:1,127.0.0.2:1")
    for _ in range(2):
        response = tool("kafka-get-offsets", *servers, "--command-config", str(properties))
        *tries, last = response.err.splitlines()
        assert sorted(tries) == [
            IsStr(regex=rf"{host}:1: connection refused; trying again for 0\.[0-9]+ s")
            for host in ("127.0.0.1", "127.0.0.2")
        ]
        assert last.startswith("kafka-get-offsets: ")
        assert last.endswith("; check --bootstrap-server")


def test_a_broker_that_closes_the_connection_is_reported_once_while_the_tool_tries_again(
    tool: Tool, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=1000\nreconnect.backoff.ms=1\n")
    with EmbeddedBroker(users={"alice": "secret"}) as broker:
        server = broker.servers_of("SASL_PLAINTEXT")
        response = tool("kafka-topics", "--list", "--bootstrap-server", server, "--command-config", str(properties))
    reason = f"{server}: the broker closed the connection; Metadata v13 has no response; the listener may need SASL"
    first, last = response.err.splitlines()
    assert (first.startswith(reason), "trying again for" in first) == (True, True)
    assert last.startswith(f"kafka-topics: no broker could be reached for Metadata ({reason}")


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
    response = tool("kafka-topics", *arguments)
    assert (response.status, response.err.splitlines()[0].startswith(words)) == (status, True), response.err


def test_one_name_that_exists_is_enough(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "nosuch":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with EmbeddedBroker(topics={"t": 1}) as broker:
        response = tool("kafka-topics", "--list", "--bootstrap-server", f"nosuch:1,{broker.bootstrap_servers}")
    assert (response.status, response.lines) == (0, ["t"])


def test_options_are_not_guessed_from_their_beginnings(tool: Tool) -> None:
    response = tool("kafka-topics", "--list", "--boot", "127.0.0.1:1")
    assert response.status == 2
    assert "--boot" in response.err
