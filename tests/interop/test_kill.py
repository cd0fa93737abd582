"""kill -9 of a broker at random moments, while idempotent producers write and are themselves given up now and then.

Whatever was acknowledged must be there afterwards: once, at its offset, in order. `KILLS` (3) and `SEED` are taken from
the environment; the seed is shown with a failure. Apache Kafka stands beside the bundled broker as the
control: it shows that the test asks for nothing that Kafka does not do.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.clients.writers import both_writers, wait_for_progress
from tests.support.report import Report, skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable
from tests.support.servers.brokers import Server

KILLS = int(os.environ.get("KILLS", "3"))
PARTITIONS = 3

pytestmark = [pytest.mark.kill, pytest.mark.timeout(120 + 20 * KILLS)]

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")


class Victim(Server, Protocol):
    """A broker that can be killed and started again on the same data and port."""

    def kill(self) -> None: ...

    def kill_while_starting(self, after_s: float) -> None: ...

    def restart(self) -> None: ...


class Bundled(BrokerProcess):
    """The bundled broker. Small segments, so that kills also meet rolls and more than one file per partition."""

    def __init__(self, directory: Path) -> None:
        self._settings_of_test = {"log.segment.bytes": 200_000}
        super().__init__(directory, settings=self._settings_of_test)

    def kill_while_starting(self, after_s: float) -> None:
        """Start a process on the data and kill it before, in the middle of, or after recovery."""
        command = [sys.executable, "-m", "broker_embedded", "--data-dir", str(self.log_directory)]
        command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0"]
        for key, value in self._settings_of_test.items():
            command += ["--set", f"{key}={value}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(after_s)
        process.kill()
        process.wait(30)


class Apache(ApacheKafka):
    """Apache Kafka as the control; its start takes too long to be interrupted as well."""

    def kill_while_starting(self, after_s: float) -> None:
        """Do nothing."""


@pytest.fixture(params=["bundled", pytest.param("apache", marks=pytest.mark.interop)])
def victim(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Victim]:
    if request.param == "bundled":
        with Bundled(tmp_path) as broker:
            yield broker
        return
    skip_if(apache_kafka_unavailable())
    with Apache(settings={"log.segment.bytes": "1048576"}) as kafka:
        yield kafka


def test_what_was_acknowledged_survives_kills(victim: Victim, seed: int, report: Report) -> None:
    dice = random.Random(seed)
    kills = KILLS if isinstance(victim, Bundled) else min(KILLS, 3)
    with both_writers(victim, PARTITIONS) as writers:
        for _ in range(kills):
            wait_for_progress(writers)
            time.sleep(dice.uniform(0, 0.6))
            victim.kill()
            time.sleep(dice.uniform(0, 0.2))
            if dice.random() < 0.5:
                dice.choice(writers).give_up_producer()
            if dice.random() < 0.4:
                victim.kill_while_starting(dice.uniform(0, 1))
            victim.restart()
        wait_for_progress(writers)
    counts = ", ".join(f"{writer.acknowledged_count} by {type(writer).__name__}" for writer in writers)
    report("Brokers that were killed", [f"SEED={seed}: {kills} kills; acknowledged and there once: {counts}"])
