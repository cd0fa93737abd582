"""A copy on a Spark cluster of processes whose driver and workers are killed at named steps of the exactly-once sink.

Whatever is killed, a consumer with isolation.level=read_committed finds every record once. The same copy at least once
has some of them twice, so that the test can tell.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import BrokerProcess
from tests.support.clients.topics import Topics
from tests.support.kills.spark_copy import SparkCopy, wait_until
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.spark.queries import unique

pytestmark = [pytest.mark.interop, pytest.mark.kill, pytest.mark.alone, pytest.mark.spark]

PATIENCE_S = 300.0
RECORDS = 60

IN_THE_DRIVER = {
    "before anything is decided": "commit Append 1 after",
    "decided, nothing committed": "commit EndTransactions 1 after",
    "committed, not written down": "commit EndTransactions 2 after",
}


class Killed:
    """A copy that is killed at steps, and what consumers see of it. A context manager."""

    def __init__(self, directory: Path, servers: str, **options: str) -> None:
        self.topics = Topics(servers)
        self.committed = Topics(servers, "read_committed")
        self.source, self.target = self.topics.create(2), self.topics.create(2)
        self._written = 0
        self.copy = SparkCopy(directory, servers, self.source, self.target, startingOffsets="earliest", **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.topics, self.committed, self.copy:
            pass

    def write_some(self) -> None:
        """More records to copy."""
        values = [str(number) for number in range(self._written, self._written + RECORDS)]
        self.topics.write(self.source, values, keys=values, partition=[number % 2 for number in range(RECORDS)])
        self._written += RECORDS

    def run_into(self, step: str) -> int:
        """Start a driver on more records; return when the step is reached -> the id of the process that rests there."""
        self.copy.doom.aim(step)
        self.write_some()
        victim = wait_until(lambda: self.copy.doom.victim, IsInt, self.copy, PATIENCE_S)
        assert victim is not None
        return victim

    def kill(self) -> None:
        """Everything of the query at once."""
        self.copy.kill()

    def finish(self) -> Counter[int]:
        """Let a driver copy all that is left, and some more -> how often each record can be read."""
        self.write_some()
        wait_until(lambda: len(set(self.numbers())), self._written, self.copy, PATIENCE_S)
        return Counter(self.numbers())

    def numbers(self) -> list[int]:
        """What can be read."""
        return [int(value or b"-1") for value in self.committed.values(self.target)]

    @property
    def everything_once(self) -> Counter[int]:
        return Counter(range(self._written))


@pytest.fixture(params=["bundled", "apache"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield kafka.bootstrap_servers
    else:
        with BrokerProcess(tmp_path / "broker") as broker:
            yield broker.bootstrap_servers


def exactly_once() -> dict[str, str]:
    return {"sink.delivery.guarantee": "exactly-once", "sink.transactional.id.prefix": unique("copy")}


@pytest.mark.feature("sink.exactlyOnceKills", "sink.exactlyOnce")
@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_around_its_decision(tmp_path: Path, servers: str) -> None:
    with Killed(tmp_path, servers, **exactly_once()) as killed:
        for step in IN_THE_DRIVER.values():
            killed.run_into(step)
            killed.kill()
        assert killed.finish() == killed.everything_once
        assert "PYKAFKA_EXACTLY_ONCE" not in killed.copy.whole_output, "no driver gave up because of the sink"


@pytest.mark.feature("sink.exactlyOnceRetries", "sink.exactlyOnce")
@pytest.mark.timeout(900)
def test_a_task_whose_process_dies_with_its_rows_written(tmp_path: Path, servers: str) -> None:
    with Killed(tmp_path, servers, **exactly_once()) as killed:
        os.kill(killed.run_into("task WriteRows 1 after"), signal.SIGKILL)
        starts = killed.copy.starts
        assert killed.finish() == killed.everything_once
        assert killed.copy.starts == starts, "Spark ran the task again"
        assert len(killed.topics.values(killed.target)) > 2 * RECORDS, "what the dead task wrote is in the log"


@pytest.mark.feature("sink.delivery")
@pytest.mark.timeout(600)
def test_at_least_once_some_are_there_twice(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker, Killed(tmp_path, broker.bootstrap_servers) as killed:
        killed.run_into("commit")
        killed.kill()
        found = killed.finish()
    assert found.keys() == killed.everything_once.keys()
    assert max(found.values()) > 1
