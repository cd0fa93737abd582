from pathlib import Path

import pytest

from tests.support.tools import Tool

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
    response = tool(*arguments, str(file))
    assert (response.status, str(file) in response.err) == (1, True), response.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("kafka-topics", "--lst"), "No such option '--lst'. (Did you mean one of: '--alter', '--delete', '--list'?)"),
        (
            ("kafka-topics", "--list", "--topc=t"),
            "No such option '--topc'. (Did you mean one of: '--topic', '--topic-id'?)",
        ),
        (("kafka-configs", "--xyzzy", "--descrbe"), "No such option '--xyzzy'."),
        (("kafka-storage", "format", "--confg", "f"), "No such option '--confg'. Did you mean '--config'?"),
        (("kafka-transactions", "abort", "--topc", "t"), "No such option '--topc'. Did you mean '--topic'?"),
        (("kafka-transactions", "--lst"), "No such option '--lst'."),
        (("kafka-transactions", "--bootstrap-servr", "h:1", "list"), "Did you mean '--bootstrap-server'?"),
        (("kafka-server-start", "--overide", "f"), "No such option '--overide'. (Did you mean one of: '--override', "),
        (("exactly-once", "recover", "--accept-lost"), "No such option '--accept-lost'. Did you mean '--accept-loss'?"),
        (
            ("kafka-topics", "--alter", "--delete-config", "a"),
            "--delete-config is not supported: use kafka-configs --alter --topic NAME",
        ),
        (
            ("kafka-console-consumer", "--formatter", "A"),
            "--formatter is not supported: this tool runs no Java classes; --formatter-prop",
        ),
        (
            ("kafka-console-producer", "--line-reader", "A"),
            "--line-reader is not supported: this tool runs no Java classes; --reader-p",
        ),
        (("kafka-topics", "--zookeeper", "z:2181", "--list"), "--zookeeper is not supported: use --bootstrap-server"),
        (("kafka-topics", "--", "--lst"), "one of --create"),
    ],
)
def test_an_unknown_option_is_the_first_error(tool: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = tool(*arguments)
    assert (response.status, words in response.err) == (2, True), response.err


def test_values_that_begin_with_a_dash_are_no_options(tool: Tool, tmp_path: Path) -> None:
    assert "is not between" in tool("kafka-topics", "--create", "--partitions", "-3000000000").err
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\n")
    formatted = tool("kafka-storage", "format", "-t", "-id-with-a-dash-------", f"-c{properties}")
    assert (formatted.status, formatted.err) == (0, "")
