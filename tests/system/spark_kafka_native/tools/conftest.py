"""Tools are called as the scripts call them, in this process."""

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.tools.__main__ import main
from spark_kafka_native.tools.home import make_home
from tests.support.brokers import AnyBroker
from tests.support.transaction_driver import RawProducer
from tests.support.transaction_views import settle


@dataclass(frozen=True)
class Answer:
    """What a tool has printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Tool = Callable[..., Answer]


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    """`tool("kafka-topics", "--list", stdin=b"")` is the tool's answer."""

    def call(*arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as error:  # argparse's way to say that an option is wrong
            status = int(str(error.code))
        return Answer(status, *capfd.readouterr())

    return call


@pytest.fixture
def on_broker(tool: Tool, any_broker: AnyBroker) -> Tool:
    """As `tool`, with the bundled broker, or Apache Kafka, as the cluster."""

    def call(name: str, *arguments: str, stdin: bytes = b"") -> Answer:
        return tool(name, "--bootstrap-server", any_broker.bootstrap_servers, *arguments, stdin=stdin)

    return call


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A KAFKA_HOME."""
    make_home(tmp_path / "home")
    return tmp_path / "home"


def run_script(home: Path, script: str, *arguments: str, stdin: bytes = b"") -> str:
    """What a script of a KAFKA_HOME has printed; it has succeeded."""
    command = [str(home / "bin" / f"{script}.sh"), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.decode()


def written_segment(tool: Tool, data_dir: Path, *, as_version: str = "4.3", **configs: str) -> Path:
    """The segment of a topic with two batches of a record each."""
    with EmbeddedBroker(data_dir, settings={"as.version": as_version}) as broker:
        broker.create_topic("t", configs=configs)
        for line in (b"k1\tv1\n", b"k2\tv2\n"):
            servers = ("--bootstrap-server", broker.bootstrap_servers)
            keyed = ("--property", "parse.key=true", "--producer-property", "enable.idempotence=false")
            assert tool("kafka-console-producer", *servers, "--topic", "t", *keyed, stdin=line).status == 0
    return data_dir / "t-0/00000000000000000000.log"


@pytest.fixture(scope="session")
def coordinated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with aborted and open transactions, and the offsets that one of them committed."""
    data = tmp_path_factory.mktemp("data")
    with EmbeddedBroker(data, settings={"offsets.topic.num.partitions": "1"}) as broker:
        broker.create_topic("t")
        with RawProducer(broker.bootstrap_servers, "id", level=1) as producer:
            producer.begin()
            producer.write("t", "a", "b")
            producer.abort()
            producer.write("t", "c")
            producer.send_offsets("g", {("t", 0): 5})
            producer.commit()
            settle(producer.client, "t")
            producer.write("t", "d")
    return data


def dumped_files(tool: Tool, data: Path, pattern: str, *options: str) -> list[str]:
    """What `kafka-dump-log` prints of the files that match a pattern."""
    files = sorted(data.glob(pattern))
    assert files
    dumped = tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    assert (dumped.status, dumped.err) == (0, "")
    return [line for line in dumped.lines if not line.startswith("Dumping ")]
