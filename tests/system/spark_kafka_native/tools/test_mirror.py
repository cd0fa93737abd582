import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import Producer, SimpleConsumer
from tests.support.tools import Tool
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker() as source, EmbeddedBroker() as target:
        yield source, target


@pytest.fixture
def files(brokers: tuple[EmbeddedBroker, EmbeddedBroker], name: str, tmp_path: Path) -> tuple[Path, Path]:
    """Properties of a consumer and of a producer; the topic of each test's name has ten records at the source."""
    source, target = brokers
    source.create_topic(name)
    write(source, name)
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"bootstrap.servers={source.bootstrap_servers}\ngroup.id={name}\n")
    producer.write_text(f"bootstrap.servers={target.bootstrap_servers}\nkey.serializer=ByteArraySerializer\nnope=1\n")
    return consumer, producer


def write(broker: EmbeddedBroker, topic: str) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)


def options(files: tuple[Path, Path]) -> tuple[str, ...]:
    return ("--consumer.config", str(files[0]), "--producer.config", str(files[1]))


def test_until_the_end(
    tool: Tool, brokers: tuple[EmbeddedBroker, EmbeddedBroker], files: tuple[Path, Path], name: str
) -> None:
    done = tool("kafka-mirror-maker", *options(files), "--whitelist", name, "--until-end")
    assert done.status == 0, done.err
    assert done.lines[-1].startswith("10 records, 0.00 MB ("), done.out
    assert "the configuration 'nope' was supplied but isn't a known config" in done.err
    assert f"target topic {name} is created with 1 partition\n" in done.err
    assert tool("kafka-get-offsets", "--bootstrap-server", brokers[1].bootstrap_servers, "--topic", name).lines == [
        f"{name}:0:10"
    ]
    more = ("--prefix", "copy-", "--exactly-once", "--num.streams", "2", "--offset.commit.interval.ms", "100")
    done = tool("kafka-mirror-maker", *options(files), "--include", name, *more, "--until-end", "--json")
    record = json.loads(done.lines[-1])
    assert (record["records"], record["remainingOffsets"]) == (10, None)
    again = tool("kafka-mirror-maker", *options(files), "--include", name, *more, "--until-end", "--json")
    assert json.loads(again.lines[-1])["records"] == 0
    assert brokers[1].topics()[f"copy-{name}"] == 1


def test_sigterm_commits_and_ends(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], files: tuple[Path, Path], name: str
) -> None:
    command = [sys.executable, "-m", "spark_kafka_native", "mirror", *options(files), "--include", name]
    with subprocess.Popen([*command, "--report-interval", "1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert " records, " in first
            assert first.endswith(" offsets remain\n")
            eventually(lambda: brokers[1].topics().get(name), 1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    with SimpleConsumer({"bootstrap.servers": brokers[0].bootstrap_servers}) as consumer:
        committed = {str(part): each.offset for part, each in consumer.committed_offsets(name).items()}
    assert committed == {f"{name}-0": 10}


def test_an_error_of_the_target_is_one_line(tool: Tool, files: tuple[Path, Path], name: str) -> None:
    failed = tool("kafka-mirror-maker", *options(files), "--include", name, "--no-create-topics", "--until-end")
    assert failed.status == 1
    text = f"kafka-mirror-maker: the target cluster: {name}-0 does not exist: there is no such topic"
    assert failed.err.splitlines()[-1].startswith(text)


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        ("--producer.config {p} --include t", 2, "--consumer.config"),
        ("--consumer.config {c} --include t", 2, "--producer.config"),
        ("--consumer.config {c} --producer.config {p}", 2, "--include"),
        ("--consumer.config {c} --producer.config {p} --include t --exclude u", 2, "--exclude"),
        (
            "--consumer.config {c} --producer.config {p} --include (",
            2,
            "--include: the topic filter '(' cannot be used",
        ),
        ("--consumer.config /nope --producer.config {p} --include t", 1, "--consumer.config /nope: No such file"),
        ("--consumer.config {c} --producer.config /nope --include t", 1, "--producer.config /nope: No such file"),
        ("--consumer.config {bad} --producer.config {p} --include t", 2, "bad.properties: group.id: is required"),
        ("--consumer.config {c} --producer.config {acks} --include t", 2, "acks.properties: acks: must be all"),
        (
            "--consumer.config {c} --consumer.config {c} --prefix a --producer.config {p} --include t",
            2,
            "--prefix is given 1 times, and --consumer.config 2 times",
        ),
        (
            "--consumer.config {c} --consumer.config {c} --producer.config {p} --include t --exactly-once",
            2,
            "group.id: must be another one for each source",
        ),
        (
            "--consumer.config {c} --producer.config {p} --include t --message.handler x.Y",
            2,
            "--message.handler is not supported: this tool runs no Java classes",
        ),
    ],
)
def test_bad_options_are_named(tool: Tool, tmp_path: Path, arguments: str, status: int, problem: str) -> None:
    contents = {
        "c": "bootstrap.servers=127.0.0.1:1\ngroup.id=g\n",
        "p": "bootstrap.servers=127.0.0.1:1\n",
        "bad": "bootstrap.servers=127.0.0.1:1\n",
        "acks": "bootstrap.servers=127.0.0.1:1\nacks=1\nenable.idempotence=false\n",
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.properties").write_text(content)
    names = {name: str(tmp_path / f"{name}.properties") for name in contents}
    refused = tool("kafka-mirror-maker", *(word.format(**names) for word in arguments.split()))
    assert (refused.status, refused.out) == (status, "")
    assert problem in refused.err
