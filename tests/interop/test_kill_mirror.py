"""kill -9 of mirrors, and of the clusters between which they copy, at random moments: nothing is lost.

Two `kafka-mirror-maker`, each in a process of its own, share a topic that is written all the time. They are killed, one
or both, also while they start; they are paused for longer than their sessions, and end in order; the bundled brokers of
the source and of the target are killed. At least once, each record is copied, and the copies are in order but for
records that are copied again; exactly once, the copy is equal to the topic. `MIRROR_KILLS` (5) and `SEED` are taken
from the environment; the seed is shown with a failure. Apache Kafka is the control, of which no broker is killed.
"""

import itertools
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import BrokerProcess
from spark_kafka_native.clients import KafkaError, SimpleConsumer
from tests.support.clients.topics import Topics
from tests.support.clients.writers import NumberWriter, Writer, wait_for_progress
from tests.support.kills.programs import KINDS, Programs, RunningProgram
from tests.support.report import Report
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.both_brokers import running_broker
from tests.support.waiting import eventually

KILLS = int(os.environ.get("MIRROR_KILLS", "5"))
MIRRORS = 2
PARTITIONS = 6
GROUP, TOPIC = "g", "t"
SESSION_S = 3.0
PATIENCE_S = 90.0

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300 + 30 * KILLS)]

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "3",
}
CONSUMER: Final = {
    "auto.commit.interval.ms": 200,
    "fetch.max.wait.ms": 100,
    "group.id": GROUP,
    "heartbeat.interval.ms": 300,
    "reconnect.backoff.max.ms": 200,
    "session.timeout.ms": round(SESSION_S * 1000),
}
PRODUCER: Final = {
    "reconnect.backoff.max.ms": 200,
    "transaction.timeout.ms": 5000,  # after which the records of a mirror that was killed can be read past
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Where the topic is, and where its copy."""

    source: BrokerProcess | ApacheKafka
    target: BrokerProcess | ApacheKafka
    victims: Mapping[str, BrokerProcess] = field(default_factory=dict)
    """The brokers that can be killed."""

    def committed(self, *, exactly_once: bool) -> dict[int, int]:
        """The mirrors' offsets: in transactions they are at the target."""
        server = self.target if exactly_once else self.source
        with SimpleConsumer({"bootstrap.servers": server.bootstrap_servers}) as consumer:
            found = consumer.committed_offsets(GROUP)
        return {part.partition: each.offset for part, each in found.items()}


@pytest.fixture(params=["bundled", pytest.param("apache", marks=pytest.mark.interop)])
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clusters]:
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(running_broker(request.param, tmp_path / name, SETTINGS))
            for name in ("source", "target")
        )
        source.create_topic(TOPIC, PARTITIONS)
        brokers = {"source": source, "target": target}
        victims = {name: each for name, each in brokers.items() if isinstance(each, BrokerProcess)}
        yield Clusters(source=source, target=target, victims=victims)


class Mirrors(Programs[RunningProgram]):
    """The mirrors of one group."""

    def __init__(self, directory: Path, clusters: Clusters, dice: random.Random, *, exactly_once: bool) -> None:
        super().__init__(MIRRORS, dice)
        self._directory = directory
        files = {
            "consumer.config": {"bootstrap.servers": clusters.source.bootstrap_servers, **CONSUMER},
            "producer.config": {"bootstrap.servers": clusters.target.bootstrap_servers, **PRODUCER},
        }
        self._command = [sys.executable, "-m", "spark_kafka_native", "mirror", "--include", TOPIC]
        self._command += ["--num.streams", "2", "--abort.on.send.failure", "false"]
        self._command += ["--exactly-once"] if exactly_once else []
        for option, properties in files.items():
            path = directory / option
            path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            self._command += [f"--{option}", str(path)]

    def _make(self, name: str, instance: int) -> RunningProgram:
        return RunningProgram(self._directory, name, instance, self._command)


class Copy:
    """The topic at the target, which mirrors create."""

    def __init__(self, servers: str, mirrors: Mirrors) -> None:
        self._servers = servers
        self._mirrors = mirrors

    def values(self) -> dict[int, list[int]]:
        """The numbers of each partition in order, without those of transactions that are aborted or open."""
        found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        with Topics(self._servers, isolation="read_committed") as topics:
            for record in topics.read(TOPIC):
                found[record.partition].append(int(record.value or b""))
        return found

    def wait_for_progress(self) -> None:
        """Return when more is copied of each partition of the topic, which mirrors create."""

        def ends() -> list[int]:
            self._mirrors.check_running()
            with Topics(self._servers, isolation="read_committed") as topics:
                by_partition = topics.ends(TOPIC)
            return [by_partition.get(number, 0) for number in range(PARTITIONS)]

        before = eventually(ends, [IsInt] * PARTITIONS, within_s=PATIENCE_S, retrying=(KafkaError,))
        eventually(ends, [IsInt(gt=end) for end in before], within_s=PATIENCE_S)


def kill_and_restart(victims: list[BrokerProcess], mirrors: Mirrors, dice: random.Random) -> None:
    """kill -9 of brokers, which are gone for a while. A mirror may be killed meanwhile."""
    for victim in victims:
        victim.kill()
    try:
        time.sleep(dice.uniform(0, 1.5 * SESSION_S))
        if dice.random() < 0.5:
            mirrors.strike("one")
            time.sleep(dice.uniform(0, 2))
    finally:
        for victim in victims:
            victim.start()


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
def test_mirrors_that_are_killed_lose_nothing(
    clusters: Clusters, exactly_once: bool, seed: int, tmp_path: Path, report: Report
) -> None:
    dice = random.Random(seed)
    kinds = [*(kind for kind in KINDS if kind != "two"), *clusters.victims, *["both"] * bool(clusters.victims)]
    dice.shuffle(kinds)
    source = clusters.source.bootstrap_servers
    with Mirrors(tmp_path, clusters, dice, exactly_once=exactly_once) as mirrors, Topics(source) as topics:
        copy = Copy(clusters.target.bootstrap_servers, mirrors)
        writer = NumberWriter(source, TOPIC, PARTITIONS, pause_s=0.05)
        try:
            mirrors.start()
            for number in range(KILLS):
                copy.wait_for_progress()
                time.sleep(dice.uniform(0, 1))
                kind = kinds[number % len(kinds)]
                if victims := [each for name, each in clusters.victims.items() if kind in {name, "both"}]:
                    kill_and_restart(victims, mirrors, dice)
                else:
                    mirrors.strike(kind)
                check_commits(clusters, topics, copy, exactly_once=exactly_once)
            wait_for_progress([writer])
        finally:
            writer.stop()
        ends = topics.ends(TOPIC)
        eventually(lambda: clusters.committed(exactly_once=exactly_once), ends, within_s=PATIENCE_S)
        mirrors.leave(MIRRORS)
        assert clusters.committed(exactly_once=exactly_once) == ends
        copied = copy.values()
        check_written(writer, written(topics))
        assert originals(copied) == written(topics)
        repeated = sum(map(len, copied.values())) - sum(ends.values())
        assert repeated == 0 or not exactly_once
        name = f"{'exactly' if exactly_once else 'at least'} once, {'bundled' if clusters.victims else 'apache'}"
        line = f"{name}: {KILLS} kills ({', '.join(kinds[:KILLS])}), {len(mirrors.every)} mirrors"
        report("Mirrors that were killed", [f"SEED={seed}: {line}: {sum(ends.values())} records, {repeated} twice"])


def check_commits(clusters: Clusters, topics: Topics, copy: Copy, *, exactly_once: bool) -> None:
    """Assert that the copy has all records of the source below the committed offsets.

    They can be read once the open transaction of a mirror that was killed is aborted.
    """
    committed = clusters.committed(exactly_once=exactly_once)
    expected = written(topics)

    def missing() -> set[int]:
        copied = {number: set(values) for number, values in copy.values().items()}
        return {number for number, end in committed.items() if not copied[number].issuperset(expected[number][:end])}

    eventually(missing, set(), within_s=PATIENCE_S)


def written(topics: Topics) -> dict[int, list[int]]:
    """The numbers of each partition of the source, by offset."""
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    for record in topics.read(TOPIC):
        found[record.partition].append(int(record.value or b""))
    return found


def check_written(writer: Writer, found: Mapping[int, list[int]]) -> None:
    """Assert that the source has what was acknowledged, and numbers that ascend."""
    for number, acknowledged in enumerate(writer.acknowledged):
        assert sorted(set(map(int, acknowledged)) - set(found[number])) == [], f"lost in partition {number}"
        assert found[number] == sorted(set(found[number])), f"out of order in partition {number}"


def originals(copied: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Each partition without numbers that are not greater than all before: those were copied again."""
    found: dict[int, list[int]] = {}
    for number, values in copied.items():
        highest = itertools.accumulate(values, max, initial=-1)
        found[number] = [value for value, before in zip(values, highest, strict=False) if value > before]
    return found
