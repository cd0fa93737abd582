"""The job of a batch reload in this process, on a topic with 30 records of a bundled broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._jobs.batch_reload.command import main
from tests.support.clients.topics import Topics


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as made:
        yield made


@pytest.fixture(scope="module")
def topics(broker: EmbeddedBroker) -> Iterator[Topics]:
    with Topics(broker.bootstrap_servers) as made:
        yield made


class Run:
    def __init__(self, broker: EmbeddedBroker, topic: str, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--topics", topic, "--target", str(target)]
        self._capsys = capsys
        self.lines: list[str] = []
        """What is on stdout."""

    def __call__(self, *more: str) -> tuple[int, str]:
        """``more`` replaces the options of the same name."""
        self._capsys.readouterr()
        pairs = zip(self.arguments[::2], self.arguments[1::2], strict=True)
        status = main([*(word for option, value in pairs if option not in more for word in (option, value)), *more])
        out, err = self._capsys.readouterr()
        self.lines = out.splitlines()
        return status, " ".join((err or out).split())


@pytest.fixture
def run(broker: EmbeddedBroker, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    topic = topics.create(2)
    topics.write(topic, [f"{n}" for n in range(30)], partition=[n % 2 for n in range(30)])
    return Run(broker, topic, tmp_path / "target", capsys)
