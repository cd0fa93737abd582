"""Our members and ZooKeeper consumers of Kafka 0.8.2 and 0.10.2 in one group share the partitions of a topic.

The broker is Apache Kafka 3.9 and the bundled one. Members leave in order and are killed; brokers restart.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.topics import NewTopic, create_partitions, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native.clients import Producer, ProducerRecord, Whitelist
from tests.support.clients.consuming import Consuming
from tests.support.clients.native import config_of
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable, die_with_parent, java_command
from tests.support.servers.kafka_on_zookeeper import KafkaOnZooKeeper, run_class, zookeeper_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

OLD_RELEASES = ("0.8.2.2", "0.10.2.2")
PARTITIONS = 6
REBALANCE_S = 90
"""An old consumer starts in seconds, and a killed one's session ends after six."""


class OldConsumer:
    """The console consumer of an old release, in a process. A context manager, which kills it."""

    def __init__(
        self, release: str, connect: str, directory: Path, *options: str, name: str, **properties: str
    ) -> None:
        lines = {
            "group.id": "g",
            "consumer.id": name,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": "200",
            "rebalance.backoff.ms": "1000",
            "rebalance.max.retries": "20",
        }
        lines |= {key.replace("_", "."): value for key, value in properties.items()}
        config = directory / f"{name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = [*die_with_parent(), *java_command("256m", release=release), "kafka.tools.ConsoleConsumer"]
        command += ["--zookeeper", connect, "--consumer.config", str(config), *options]
        self.values: list[str] = []
        self._log = (directory / f"{name}.log").open("wb")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.values.append(line.decode().strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(60)
        self._thread.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A broker with a topic, and the group that reads it."""

    broker: EmbeddedBroker | KafkaOnZooKeeper
    connect: str
    zookeeper: KazooClient

    @property
    def options(self) -> dict[str, object]:
        """The properties of our members."""
        return {
            "zookeeper.connect": self.connect,
            "group.id": "g",
            "consumer.id": "ours",
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 200,
            "rebalance.backoff.ms": 1000,
            "rebalance.max.retries": 20,
        }

    def owners(self, topic: str = "t") -> dict[int, str]:
        """The member of each owned partition, as "ours" or "theirs"."""
        path = f"/consumers/g/owners/{topic}"
        found = {}
        with suppress(NoNodeError):  # given up meanwhile
            for number in self.zookeeper.get_children(path):
                thread = self.zookeeper.get(f"{path}/{number}")[0].decode()  # GROUP_CONSUMER-NUMBER
                found[int(number)] = thread.partition("_")[2].rpartition("-")[0]
        return found

    def wait_until_shared(self, *names: str, partitions: int = PARTITIONS) -> None:
        """Wait until these members own all partitions, and each of them some."""
        eventually(
            lambda: (sorted(self.owners()), set(self.owners().values())),
            (list(range(partitions)), set(names)),
            within_s=REBALANCE_S,
        )

    def write(self, numbers: range, partitions: int = PARTITIONS) -> None:
        """Write numbers as values, to all partitions in turn."""
        with Producer({"bootstrap.servers": self.broker.bootstrap_servers}) as producer:
            records = [ProducerRecord("t", b"%d" % number, partition=number % partitions) for number in numbers]
            for future in producer.send_all(records):
                future.result(60)


@pytest.fixture(params=["bundled", "apache"])
def group(request: pytest.FixtureRequest, zookeeper_connect: str, tmp_path: Path) -> Iterator[Group]:
    settings = {"offsets.topic.num.partitions": "3"}
    broker: EmbeddedBroker | KafkaOnZooKeeper
    if request.param == "bundled":
        bundled = {"as.version": "3.9", "zookeeper.connect": zookeeper_connect, **settings}
        broker = EmbeddedBroker(data_dir=tmp_path / "data", settings=bundled)
    else:
        broker = KafkaOnZooKeeper(connect=zookeeper_connect, settings=settings)
    with broker, zookeeper_client(zookeeper_connect) as zookeeper:
        with Cluster(config_of(broker.bootstrap_servers)) as cluster:
            create_topics(cluster, [NewTopic(name="t", partitions=PARTITIONS, replication_factor=1)])
        eventually(lambda: zookeeper.exists("/brokers/topics/t") is not None, expected=True)
        yield Group(broker=broker, connect=zookeeper_connect, zookeeper=zookeeper)


@pytest.fixture(params=OLD_RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    skip_if(apache_kafka_unavailable(request.param))
    return str(request.param)


def numbers(member: Consuming, *others: OldConsumer) -> list[int]:
    """The numbers that all members have read."""
    return sorted([*map(int, member.values), *(int(value) for each in others for value in each.values)])


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_members_of_both_kinds_share_the_partitions(group: Group, release: str, strategy: str, tmp_path: Path) -> None:
    """The old consumer comes second, leaves in order, comes back, and is killed. Each record is read."""
    options = group.options | {"partition.assignment.strategy": strategy}
    theirs = {"partition_assignment_strategy": strategy}
    # Round robin of 0.8.2 requires the same number of streams of all consumers.
    with Consuming(options, {"t": 1}) as ours:
        group.write(range(60))
        eventually(lambda: numbers(ours), list(range(60)), within_s=REBALANCE_S)
        with OldConsumer(release, group.connect, tmp_path, "--topic", "t", name="theirs", **theirs) as first:
            group.wait_until_shared("ours", "theirs")
            assert list(group.owners().values()).count("ours") == PARTITIONS // 2
            group.write(range(60, 120))
            eventually(lambda: numbers(ours, first), list(range(120)), within_s=REBALANCE_S)
            assert len(first.values) == 30
            first.end(signal.SIGTERM)
            group.wait_until_shared("ours")
        group.write(range(120, 180))
        eventually(lambda: numbers(ours, first), list(range(180)), within_s=REBALANCE_S)
        with OldConsumer(release, group.connect, tmp_path, "--topic", "t", name="theirs", **theirs) as second:
            group.wait_until_shared("ours", "theirs")
            second.end(signal.SIGKILL)
            group.write(range(180, 240))
            group.wait_until_shared("ours")
            eventually(lambda: set(numbers(ours, first, second)), set(range(240)), within_s=REBALANCE_S)
        assert ours.errors == []


def test_our_member_joins_and_leaves_a_group_of_old_consumers(group: Group, release: str, tmp_path: Path) -> None:
    group.write(range(60))
    options = ("--topic", "t", "--from-beginning")  # without it the console consumer ignores auto.offset.reset
    with OldConsumer(release, group.connect, tmp_path, *options, name="theirs") as theirs:
        eventually(lambda: len(theirs.values), 60, within_s=REBALANCE_S)
        with Consuming(group.options, {"t": 2}) as ours:
            # Three threads, of which two are ours.
            group.wait_until_shared("ours", "theirs")
            assert list(group.owners().values()).count("ours") == 4
            group.write(range(60, 120))
            eventually(lambda: numbers(ours, theirs), list(range(120)), within_s=REBALANCE_S)
            assert len(ours.records) == 40
        group.wait_until_shared("theirs")
        group.write(range(120, 180))
        eventually(lambda: numbers(ours, theirs), list(range(180)), within_s=REBALANCE_S)


def test_filters_of_both_kinds_find_new_topics_and_partitions(group: Group, release: str, tmp_path: Path) -> None:
    with (
        Consuming(group.options | {"consumer.id": "ours"}, Whitelist("t.*")) as ours,
        OldConsumer(release, group.connect, tmp_path, "--whitelist", "t.*", name="theirs") as theirs,
        Cluster(config_of(group.broker.bootstrap_servers)) as cluster,
    ):
        group.wait_until_shared("ours", "theirs")
        create_topics(cluster, [NewTopic(name="t2", partitions=2, replication_factor=1)])
        eventually(lambda: set(group.owners("t2").values()), {"ours", "theirs"}, within_s=REBALANCE_S)
        create_partitions(cluster, {"t": PARTITIONS + 2})
        group.wait_until_shared("ours", "theirs", partitions=PARTITIONS + 2)
        group.write(range(80), PARTITIONS + 2)
        eventually(lambda: numbers(ours, theirs), list(range(80)), within_s=REBALANCE_S)
        assert len(theirs.values) == 40


def test_the_partitions_come_back_after_a_restart_of_the_broker(group: Group, release: str, tmp_path: Path) -> None:
    with (
        Consuming(group.options, {"t": 1}) as ours,
        OldConsumer(release, group.connect, tmp_path, "--topic", "t", name="theirs") as theirs,
    ):
        group.wait_until_shared("ours", "theirs")
        group.write(range(60))
        eventually(lambda: numbers(ours, theirs), list(range(60)), within_s=REBALANCE_S)
        group.broker.stop()
        group.broker.start()
        group.wait_until_shared("ours", "theirs")
        group.write(range(60, 120))
        eventually(lambda: numbers(ours, theirs), list(range(120)), within_s=REBALANCE_S)


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_offsets_are_continued_by_members_of_the_other_kind(
    group: Group, release: str, storage: str, tmp_path: Path
) -> None:
    """Both commit in ZooKeeper, or both in both places, as in the migration of offsets; Kafka's checker agrees."""
    theirs = {"offsets_storage": storage, "dual_commit_enabled": "true" if storage == "kafka" else "false"}
    options = group.options | {"offsets.storage": storage}
    with Consuming(options, {"t": 1}) as ours:
        group.write(range(60))
        eventually(lambda: numbers(ours), list(range(60)), within_s=REBALANCE_S)
    with OldConsumer(release, group.connect, tmp_path, "--topic", "t", name="theirs", **theirs) as second:
        group.wait_until_shared("theirs")
        group.write(range(60, 120))
        eventually(lambda: sorted(map(int, second.values)), list(range(60, 120)), within_s=REBALANCE_S)
        second.end(signal.SIGTERM)
    with Consuming(options, {"t": 1}) as third:
        group.write(range(120, 180))
        eventually(lambda: numbers(third), list(range(120, 180)), within_s=REBALANCE_S)
    arguments = ("--zookeeper", group.connect, "--group", "g", "--topic", "t")
    lines = run_class(release, "kafka.tools.ConsumerOffsetChecker", *arguments).splitlines()
    rows = [line.split() for line in lines if line.startswith("g ")]
    assert [row[3:6] for row in rows] == [["30", "30", "0"]] * PARTITIONS
