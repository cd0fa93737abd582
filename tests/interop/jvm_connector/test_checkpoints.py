"""Checkpoints of both connectors: a query continues where the other one stopped, by the name of the format alone."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Record
from tests.support.spark.hard_topics import HardTopics
from tests.support.spark.jvm_connector import JVM, OURS, BothConnectors
from tests.support.spark.session_functions import (
    Run,
    Write,
    await_failure,
    begin_and_fail,
    copy,
    last_offsets,
    stream,
    write,
)

pytestmark = [pytest.mark.interop, pytest.mark.spark]

CHECKPOINT = "checkpoint"
NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "jvm-checkpoint"
VISITS = "SELECT 'user-' || pmod(id * 7919, 500) AS key, 'visit-' || id AS value FROM range({first}, {end})"
"""The rows of notebooks/migration.ipynb."""


class Written:
    """A topic with two partitions, numbered values, and a query on it that either connector runs."""

    def __init__(self, both: BothConnectors, topics: HardTopics, directory: Path, **options: str) -> None:
        self.topic = topics.create_topic(partitions=2)
        self.options = {"kafka.bootstrap.servers": topics.servers, "subscribe": self.topic, **options}
        self.checkpoint = directory / CHECKPOINT
        self._both, self._servers, self._directory = both, topics.servers, directory
        self._numbers = iter(range(1000))

    def write(self, count: int) -> set[bytes]:
        """More records; their values."""
        values = [str(next(self._numbers)).encode() for _ in range(count)]
        records = [Record(b"key", value, partition=number % 2) for number, value in enumerate(values)]
        ConfluentClient().produce(self._servers, self.topic, records)
        return set(values)

    def run(self, connector: str, more: Mapping[str, str] = MappingProxyType({}), *, fail: bool = False) -> Run:
        """All that is there, from where the checkpoint is."""
        options = {**self.options, **more}
        return self._both.ask(stream, connector, options, self._directory, checkpoint=CHECKPOINT, fail=fail)

    def takes(self, connector: str, expected: set[bytes], **options: str) -> None:
        """A run that sees these values, each once."""
        run = self.run(connector, options)
        assert run.error is None
        assert sorted(row[1] for row in run.rows) == sorted(expected)

    def begin_and_fail(self, records: int) -> set[bytes]:
        """The JVM connector starts at the end, then sees records, and dies before that batch is committed."""
        self._both.ask(begin_and_fail, JVM, self.options, self.checkpoint)
        values = self.write(records)
        assert "this batch was to fail" in self._both.ask(await_failure)
        assert [entry.name for entry in (self.checkpoint / "offsets").glob("[0-9]*")] == ["0"]
        assert not list((self.checkpoint / "commits").glob("[0-9]*"))
        return values


@pytest.fixture
def from_earliest(both: BothConnectors, topics: HardTopics, tmp_path: Path) -> Written:
    """Read from the first record on."""
    return Written(both, topics, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="4")


@pytest.fixture
def from_latest(both: BothConnectors, topics: HardTopics, tmp_path: Path) -> Written:
    """Ten records that are there before, and a query that starts after them."""
    made = Written(both, topics, tmp_path)
    made.write(10)
    return made


@pytest.mark.feature("more.resumeJvm", "more.resumeByJvm", "offsets.json", "run.name")
@pytest.mark.parametrize("connectors", [(JVM, OURS, JVM), (OURS, JVM, OURS)], ids=lambda names: names[0] + " first")
def test_a_query_continues_under_the_other_format_and_back(
    from_earliest: Written, connectors: tuple[str, str, str]
) -> None:
    for connector in connectors:
        from_earliest.takes(connector, from_earliest.write(10))
    assert last_offsets(from_earliest.checkpoint) == {from_earliest.topic: {"0": 15, "1": 15}}


@pytest.mark.feature("more.resumeJvm")
def test_a_later_batch_that_was_not_committed_is_read_again(from_earliest: Written) -> None:
    from_earliest.takes(JVM, from_earliest.write(6))
    lost = from_earliest.write(4)
    assert from_earliest.run(JVM, fail=True).error is not None
    from_earliest.takes(OURS, lost | from_earliest.write(3))


@pytest.mark.feature("more.jvmCheckpoint")
def test_a_first_batch_that_was_not_committed_is_refused_or_read_from_where_it_began(from_latest: Written) -> None:
    values = from_latest.begin_and_fail(8)
    guess = from_latest.run(OURS)
    assert guess.error is not None
    assert "jvmCheckpoint" in guess.error
    assert guess.rows == ()
    from_latest.takes(OURS, values | from_latest.write(3), jvmCheckpoint=str(from_latest.checkpoint))
    from_latest.takes(OURS, from_latest.write(2))


@pytest.mark.feature("more.resumeByJvm", "more.jvmCheckpoint")
def test_the_jvm_connector_can_finish_its_own_first_batch_after_a_refusal(from_latest: Written) -> None:
    values = from_latest.begin_and_fail(4)
    assert from_latest.run(OURS).error is not None
    from_latest.takes(JVM, values)
    from_latest.takes(OURS, from_latest.write(5))


def test_the_notebook_on_migration_has_the_checkpoint_that_the_jvm_connector_writes(
    both: BothConnectors, tmp_path: Path
) -> None:
    with EmbeddedBroker(topics={"visits": 3, "visits-copy": 3}) as broker:
        cluster = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        visits = Write(VISITS.format(first=0, end=6_000), {**cluster, "topic": "visits"})
        assert both.ask(write, OURS, {OURS: visits}) is None
        source = {**cluster, "subscribe": "visits", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2000"}
        copied = Write("SELECT key, value FROM records", {**cluster, "topic": "visits-copy"})
        assert both.ask(copy, JVM, source, {JVM: copied}, tmp_path) is None
    assert _offsets_by_file(tmp_path / JVM) == _offsets_by_file(NOTEBOOK)


def _offsets_by_file(checkpoint: Path) -> dict[str, str]:
    """The last line of each file of a checkpoint but the query's id, which is another one in each query."""
    files = [path for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"]
    lines = {path.relative_to(checkpoint).as_posix(): path.read_text().splitlines()[-1] for path in files}
    return {name: line for name, line in lines.items() if name != "metadata"}
