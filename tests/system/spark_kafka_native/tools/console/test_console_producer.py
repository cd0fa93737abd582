import os
import subprocess
import sys

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._tools.console.producer import _READ_BYTES, _lines_of
from tests.support.servers.brokers import AnyBroker
from tests.support.tools import Tool


def test_lines_are_produced(on_broker: Tool, name: str) -> None:
    sent = on_broker(
        "kafka-console-producer", "--topic", name, "--property", "parse.key=true", "--property", "key.separator=:",
        "--compression-codec", "lz4", "--producer-property", "linger.ms=0", stdin=b"a:1\nb:2\r\nc:3",
    )  # fmt: skip
    assert (sent.status, sent.out) == (0, "")
    read = on_broker(
        "kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", "3", "--property",
        "print.key=true",
    )  # fmt: skip
    assert sorted(read.lines) == ["a\t1", "b\t2", "c\t3"]


def test_headers_are_produced(on_broker: Tool, name: str) -> None:
    reading = ("parse.headers=true", "parse.key=true", "null.marker=NULL")
    options = [part for each in reading for part in ("--property", each)]
    lines = b"source:docs,lang:NULL\tk\tv\nNULL\tk\tw\n"
    assert on_broker("kafka-console-producer", "--topic", name, *options, stdin=lines).status == 0
    read = on_broker(
        "kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", "2", "--property",
        "print.headers=true",
    )  # fmt: skip
    assert read.lines == ["source:docs,lang:null\tv", "NO_HEADERS\tw"]


@pytest.mark.parametrize("is_blocking", [True, False])
def test_lines_of_a_pipe_are_sent_when_they_come(
    any_broker: AnyBroker, on_broker: Tool, name: str, is_blocking: bool
) -> None:
    """As in `tail -f FILE | pykafka console produce`; a line may come in several parts."""
    command = [sys.executable, "-m", "spark_kafka_native", "console", "produce", "--topic", name]
    command += ["--bootstrap-server", any_broker.bootstrap_servers]
    assert on_broker("kafka-topics", "--create", "--topic", name).status == 0
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, is_blocking)
    with os.fdopen(read_end, "rb") as stdin, subprocess.Popen(command, stdin=stdin) as process:
        with os.fdopen(write_end, "wb", buffering=0) as writer:
            for part, come in ((b"1\r\n2\n3", 2), (b"3", 2), (b"3\n4", 3), (b"\n" * 100_000, 100_003)):
                writer.write(part)
                read = on_broker(
                    "kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", str(come)
                )
                assert len(read.lines) == come
            writer.write(b"end")
        assert process.wait() == 0
    read = on_broker("kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", "100004")
    assert sorted(line for line in read.lines if line) == ["1", "2", "333", "4", "end"]


@pytest.mark.parametrize("sync", [(), ("--sync",)])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"bad", "line 4: no key.separator ':' in 'bad'"),
        (b"k:" + b"x" * 3_000_000, "line 4: its record is larger than max.request.size, 1048576 bytes"),
        (b"k" * 3_000_000 + b":x", "line 4: its record is larger than max.request.size, 1048576 bytes"),
        (
            b"k:" + b"x" * (1_048_576 - 20),
            "line 4: its record takes up to 1048644 bytes with its batch",
        ),
    ],
)
def test_lines_before_a_bad_one_are_sent(
    on_broker: Tool, name: str, bad: bytes, words: str, sync: tuple[str, ...]
) -> None:
    reading = ("--property", "parse.key=true", "--property", "key.separator=:")
    lines = b"k:1\nk:2\nk:3\n" + bad + b"\nk:5\n"
    sent = on_broker("kafka-console-producer", "--topic", name, *reading, *sync, stdin=lines)
    assert sent.status == 1
    assert words in sent.err
    assert sent.err.endswith("; lines sent before it: 3\n")
    assert on_broker("kafka-get-offsets", "--topic", name).lines == [f"{name}:0:3"]
    read = on_broker("kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", "3")
    assert read.lines == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("key", "reading"),
    [("k", ("--property", f"key.separator={'-' * 200}")), ("N" * 200, ("--property", f"null.marker={'N' * 200}"))],
)
def test_the_first_part_of_a_line_is_not_sent(on_broker: Tool, name: str, key: str, reading: tuple[str, ...]) -> None:
    """One read gives all but the last bytes of the largest line; separator and marker are not sent."""
    reading = ("--property", "parse.key=true", "--property", "key.separator=-", *reading)
    limit = ("--producer-property", f"max.request.size={_READ_BYTES - 6}")
    line = f"{key}{'-' * 200}{'x' * 3_000_000}\nk-5\n".encode()
    sent = on_broker("kafka-console-producer", "--topic", name, *reading, *limit, stdin=line)
    assert (sent.status, "line 1: its record is larger than max.request.size, " in sent.err) == (1, True), sent.err
    assert on_broker("kafka-get-offsets", "--topic", name).lines in ([], [f"{name}:0:0"])


def test_a_line_that_is_too_long_is_not_collected() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb"), os.fdopen(write_end, "wb", buffering=0) as writer:
        writer.write(b"a\r\nb\n" + b"x" * 20)
        assert list(_lines_of(read_end, 10)) == [([b"a", b"b"], True)], "the pipe has no end yet"


def test_with_sync_a_request_has_one_line(tool: Tool) -> None:
    with EmbeddedBroker(topics={"lines": 1}) as broker:
        arguments = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "lines")
        assert tool("kafka-console-producer", *arguments, "--sync", stdin=b"a\n\nb").status == 0
        assert len(broker.requests("Produce")) == 3
        assert tool("kafka-console-producer", *arguments, stdin=b"a\n\nb").status == 0
        assert len(broker.requests("Produce")) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--property", "parse.keys=true"), "--property: 'parse.keys' is not one of parse.key"),
        (
            ("--property", "parse.key=true", "--property", "key.separator="),
            "--property: key.separator must not be empty",
        ),
        (
            ("--property", "parse.headers=true", "--property", "headers.delimiter=,"),
            "--property: headers.delimiter and headers.separator must not be equal",
        ),
        (("--producer-property", "linger"), "--producer-property: KEY=VALUE is expected"),
        (("--compression-codec", "rar"), "compression.type"),
    ],
)
def test_bad_options(on_broker: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = on_broker("kafka-console-producer", "--topic", "t", *arguments, stdin=b"x\n")
    assert response.status == 2
    assert words in response.err
