import re
from pathlib import Path

import pytest

from spark_kafka_native._command_line import CommandParser, read_properties


def parser() -> CommandParser:
    made = CommandParser(prog="p")
    made.add_argument("--listen")
    made.add_argument("--data-dir", required=True)
    made.add_replaced("use --data-dir", "--log-dirs")
    return made


def test_known_options_are_parsed() -> None:
    assert parser().parse_args(["--listen", "a:1", "--data-dir", "-1"]).listen == "a:1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lisen", "a:1"], "unrecognized arguments: --lisen; did you mean --listen?"),
        (["--listen", "a:1", "--data-dri=/x"], "unrecognized arguments: --data-dri; did you mean --data-dir?"),
        (["--list", "a:1"], "unrecognized arguments: --list; did you mean --listen?"),
        (["--lisen=a:1"], "unrecognized arguments: --lisen; did you mean --listen?"),
        (["--what"], "unrecognized arguments: --what"),
        (["--log-dirs=/x"], "unrecognized arguments: --log-dirs (use --data-dir)"),
        (["what", "--data-dir=d"], "unrecognized arguments: what"),
        (["", "--data-dir=d"], "unrecognized arguments: ''"),
    ],
)
def test_nearest_option_is_suggested(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"p: error: {said}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", ""], "--topic: must not be empty"),
        (["--topic="], "--topic: must not be empty"),
        (["-t", ""], "-t: must not be empty"),
        (["--file", ""], "--file: must not be empty"),
        (["--config", ""], "--config: must not be empty"),
        (["", "--topic", "a"], "name or DIRECTORY: must not be empty"),
        (["--verbose", ""], "name or DIRECTORY: must not be empty"),
        (["--topic", "a", "--topic", "b"], "--topic is given more than once; it takes one value"),
        (["--topic=a", "--verbose", "--topic", "a"], "--topic is given more than once; it takes one value"),
        (["-ta", "-tb"], "-t is given more than once; it takes one value"),
        (["--topic", "a", "-t", "b"], "--topic and -t are the same option; give it once"),
        (["--state", "a", "--state", "b"], "--state is given more than once; it takes one value"),
        (["--state", "a", "--state"], "--state is given more than once; it takes one value"),
    ],
)
def test_empty_and_repeated_options_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser_of_values().parse_args(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"p: error: {said}"


def test_flags_and_options_that_collect_values_can_be_repeated() -> None:
    parsed = parser_of_values().parse_args(
        ["--config", "a=", "--verbose", "--config", "b=", "--verbose", "--topic", "=", "--", ""]
    )
    assert (parsed.config, parsed.verbose, parsed.topic, parsed.name) == (["a=", "b="], True, "=", "")
    assert parser_of_values().parse_args(["--state", "--state"]).state is None
    assert parser_of_values().parse_args(["--state", "--state", "a"]).state == "a"


def test_an_option_whose_value_may_be_empty() -> None:
    made = parser_of_values()
    made.allow_empty("--topic")
    assert made.parse_args(["--topic", ""]).topic == ""


def parser_of_values() -> CommandParser:
    made = CommandParser(prog="p")
    made.add_argument("--topic", "-t")
    made.add_argument("--file", type=Path)
    made.add_argument("--state", nargs="?")
    made.add_argument("--config", action="append")
    made.add_argument("--verbose", action="store_true")
    made.add_argument("name", nargs="?")
    made.add_argument("directory", nargs="?", metavar="DIRECTORY")
    return made


def parser_with_commands() -> CommandParser:
    made = CommandParser(prog="p")
    made.add_argument("--servers")
    made.add_argument("--pair", nargs=2)
    made.add_argument("--quiet", action="store_true")
    commands = made.add_subparsers(required=True, metavar="ACTION", parser_class=CommandParser)
    commands.add_parser("list").add_argument("--filter")
    return made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lst"], "unrecognized arguments: --lst"),
        (["--server", "a", "list"], "unrecognized arguments: --server; did you mean --servers?"),
        (["--servers", "list", "--quite"], "unrecognized arguments: --quite; did you mean --quiet?"),
        (["--servers=a", "--quite", "list"], "unrecognized arguments: --quite; did you mean --quiet?"),
        (["--pair", "a", "b", "--quiet", "--srvers=a"], "unrecognized arguments: --srvers; did you mean --servers?"),
        (["--servers", "a", "list", "--filtr=x"], "unrecognized arguments: --filtr; did you mean --filter?"),
        (["--servers", "a"], "the following arguments are required: ACTION"),
        (["--servers", "", "list"], "--servers: must not be empty"),
        (["--servers", "a", "--servers", "b", "list"], "--servers is given more than once; it takes one value"),
        (["--servers", "a", "list", "--filter="], "--filter: must not be empty"),
    ],
)
def test_options_before_a_command_are_checked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser_with_commands().parse_args(arguments)
    assert capsys.readouterr().err.splitlines()[-1].removeprefix("p list").removeprefix("p") == f": error: {said}"


def test_options_of_a_command_are_not_those_before_it() -> None:
    parsed = parser_with_commands().parse_args(
        ["--servers", "a", "--quiet", "--pair", "b", "c", "list", "--filter", "x"]
    )
    assert (parsed.servers, parsed.quiet, parsed.pair, parsed.filter) == ("a", True, ["b", "c"], "x")


def test_properties_files_are_read_as_java_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a comment\n! another\n\n"
        "node.id=7\n"
        "  listeners = PLAINTEXT://:9092 \n"
        "log.dirs:/data\n"
        "num.partitions 3\n"
        "a=one, \\\n   two, \\\n   three\n"
        "empty=\n"
        "no.separator\n"
        "node.id=8\n"
        "last=b\\"
    )
    assert read_properties(path) == {
        "node.id": "8",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/data",
        "num.partitions": "3",
        "a": "one, two, three",
        "empty": "",
        "no.separator": "",
        "last": "b",
    }


def test_escapes_in_properties_files_are_those_of_java(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text('jaas=password=\\"a\\\\b\\" \\u00e9\\:\\\n\tc\nkey\\ 1=x\n')
    assert read_properties(path) == {"jaas": 'password="a\\b" é:c', "key 1": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# c\n\na=1,\\\n  2\n\tssl.key.password = se\\u1cret\n", r"line 5: ssl.key.password: a \u escape needs four"),
        (b"a\\ b:secret\\\n\\u12\n", r"line 1: a\ b: a \u escape needs four"),
        (b"a=1\nb=secret\xff", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_an_error_of_a_properties_file_names_file_line_and_key_and_no_value(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        read_properties(path)
    assert not re.search("se|cret", str(caught.value).replace("ssl", "").replace("needs", ""))


def test_a_line_of_a_properties_file_without_an_equals_sign_has_an_empty_value(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id\n  sasl.mechanism  \nretries=1\n")
    assert read_properties(path) == {"client.id": "", "sasl.mechanism": "", "retries": "1"}
