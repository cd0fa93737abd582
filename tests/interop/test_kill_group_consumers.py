"""kill -9 of members of a group, and of its server, at random moments: each record is processed at least once.

Members, each in a process of its own, read a topic that is written all the time. They are killed, one, several or all
at once, also while they start; they are paused for longer than their sessions, and leave in order; the bundled broker
or ZooKeeper is killed. The seed decides, too, whether `max.poll.interval.ms` is short, and whether members of classic
groups are static. `GROUP_KILLS` (5) and `SEED` are taken from the environment; the seed is shown with a failure. Apache
Kafka is the control, 4.3, and 3.9 for groups in ZooKeeper; no server is killed then.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from dirty_equals import AnyThing, IsInt
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError, SessionExpiredError

from broker_embedded.testing import BrokerProcess, EmbeddedZooKeeper
from spark_kafka_native.clients import SimpleConsumer
from tests.support.clients.topics import Topics
from tests.support.clients.writers import NumberWriter, Writer, wait_for_progress
from tests.support.kills.group_member import MemberProcess
from tests.support.kills.programs import KINDS, Programs
from tests.support.report import Report, skip_if
from tests.support.servers.apache_kafka import LAST_KAFKA_WITH_ZOOKEEPER, ApacheKafka, apache_kafka_unavailable
from tests.support.servers.both_brokers import running_broker
from tests.support.servers.brokers import Server
from tests.support.servers.kafka_on_zookeeper import KafkaOnZooKeeper, zookeeper_client
from tests.support.waiting import eventually

KILLS = int(os.environ.get("GROUP_KILLS", "5"))
MEMBERS = 3
PARTITIONS = 6
GROUP, TOPIC = "g", "t"
SESSION_S = 3.0
SHORT_POLL_MS = 700
"""Less than some records take: their members leave the group, or others do not wait for them."""
PATIENCE_S = 90.0

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300 + 30 * KILLS)]

SETTINGS: Final = {
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(round(SESSION_S * 1000)),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
}
COMMON: Final[Mapping[str, object]] = {
    "auto.commit.interval.ms": 200,
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": 100,
    "group.id": GROUP,
    "reconnect.backoff.max.ms": 200,
}
CLASSIC: Final[Mapping[str, object]] = {
    **COMMON,
    "group.protocol": "classic",
    "heartbeat.interval.ms": 300,
    "session.timeout.ms": round(SESSION_S * 1000),
}
PROTOCOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "range": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {**COMMON, "group.protocol": "consumer"},
    "zookeeper": {
        **COMMON,
        "group.protocol": "zookeeper",
        "rebalance.backoff.ms": 500,
        "rebalance.max.retries": 100,
        "zookeeper.connection.timeout.ms": 30_000,
        "zookeeper.session.timeout.ms": round(SESSION_S * 1000),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A broker, the properties of members, and the group's committed offsets by partition."""

    name: str
    server: Server
    options: Mapping[str, object]
    committed: Callable[[], dict[int, int]]
    victim: BrokerProcess | EmbeddedZooKeeper | None
    """The server that is to be killed: the bundled broker, or the ZooKeeper server of the group."""


@pytest.fixture(params=["bundled", pytest.param("apache", marks=pytest.mark.interop)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(PROTOCOLS))
def group(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Group]:
    options = dict(PROTOCOLS[request.param])
    with ExitStack() as stack:
        if request.param == "zookeeper":
            connect: str = request.getfixturevalue("zookeeper_connect")
            server: BrokerProcess | ApacheKafka | KafkaOnZooKeeper = server_in_zookeeper(kind, tmp_path, connect)
            stack.enter_context(server)
            zookeeper = stack.enter_context(zookeeper_client(connect))
            committed = partial(committed_in_zookeeper, zookeeper)
            options["zookeeper.connect"] = connect
            victim = request.getfixturevalue("zookeeper_server")
        else:
            server = stack.enter_context(running_broker(kind, tmp_path / "broker", SETTINGS))
            committed = partial(committed_at_coordinator, server.bootstrap_servers)
            options["bootstrap.servers"] = server.bootstrap_servers
            victim = server
        server.create_topic(TOPIC, PARTITIONS)
        yield Group(
            name=f"{request.param}, {kind}",
            server=server,
            options=options,
            committed=committed,
            victim=victim if kind == "bundled" else None,
        )


def server_in_zookeeper(kind: str, directory: Path, connect: str) -> BrokerProcess | KafkaOnZooKeeper:
    """Apache Kafka 3.9, or the bundled broker instead."""
    if kind == "bundled":
        settings = {**SETTINGS, "as.version": "3.9", "zookeeper.connect": connect}
        return BrokerProcess(directory / "broker", settings=settings)
    skip_if(apache_kafka_unavailable(LAST_KAFKA_WITH_ZOOKEEPER))
    return KafkaOnZooKeeper(connect=connect, settings=SETTINGS)


def committed_at_coordinator(servers: str) -> dict[int, int]:
    with SimpleConsumer({"bootstrap.servers": servers}) as consumer:
        found = consumer.committed_offsets(GROUP)
    return {part.partition: each.offset for part, each in found.items()}


def committed_in_zookeeper(zookeeper: KazooClient) -> dict[int, int]:
    def read() -> dict[int, int]:
        found = {}
        for number in range(PARTITIONS):
            with suppress(NoNodeError):
                found[number] = int(zookeeper.get(f"/consumers/{GROUP}/offsets/{TOPIC}/{number}")[0])
        return found

    # The client connects again after the server was killed.
    return eventually(read, AnyThing, retrying=(ConnectionLoss, SessionExpiredError))


class Members(Programs[MemberProcess]):
    """The members of a group."""

    def __init__(self, directory: Path, group: Group, dice: random.Random) -> None:
        super().__init__(MEMBERS, dice)
        # With the consumer protocol UNRELEASED_INSTANCE_ID ends a member that is started before the session's end.
        self._is_static = dice.random() < 0.5 and group.options["group.protocol"] == "classic"
        self._has_short_polls = dice.random() < 0.5 and group.options["group.protocol"] != "zookeeper"
        self._directory = directory
        self._group = group
        self._committed: dict[int, int] = {}

    def __str__(self) -> str:
        static, polls = "static " * self._is_static, " with short polls" * self._has_short_polls
        return f"{len(self.every)} {static}members{polls}"

    def _make(self, name: str, instance: int) -> MemberProcess:
        options = {**self._group.options, "client.id": name}
        if self._has_short_polls:
            options["max.poll.interval.ms"] = SHORT_POLL_MS
        if self._is_static:
            options["group.instance.id"] = f"instance-{instance}"
        return MemberProcess(self._directory, name, instance, TOPIC, self._dice.getrandbits(32), options)

    def look(self) -> None:
        """Read what the members have processed. Raises AssertionError: a member has ended by itself."""
        self.check_running()
        for member in self.every:
            member.look()

    def processed(self) -> Counter[tuple[int, int]]:
        """How often each offset of a partition has been processed, by the last ``look``."""
        every = (each for member in self.every for each in member.assignments.items())
        return Counter((number, offset) for number, some in every for each in some for offset in each.offsets)

    def values(self) -> dict[tuple[int, int], bytes]:
        """The value of each processed record, by partition and offset."""
        return {key: value for member in self.every for key, value in member.values.items()}

    def wait_for_progress(self) -> None:
        """Return when members have processed more of any partition, or of each partition."""

        def counts() -> list[int]:
            self.look()
            per_partition = Counter(number for number, _ in self.processed())
            return [per_partition[number] for number in range(PARTITIONS)]

        before = counts()
        if self._dice.random() < 0.5:
            eventually(counts, [IsInt(gt=count) for count in before], within_s=PATIENCE_S)
        else:
            eventually(lambda: sum(counts()), IsInt(gt=sum(before)), within_s=PATIENCE_S)

    def check_commits(self) -> dict[int, int]:
        """The committed offsets. Assert that all records below them were processed, and that none has decreased."""
        committed = self._group.committed()
        self.look()
        processed = self.processed()
        lost = [
            (number, offset)
            for number, end in committed.items()
            for offset in range(end)
            if (number, offset) not in processed
        ]
        assert lost == [], f"committed, but not processed: {committed}"
        decreased = {number: (end, committed.get(number)) for number, end in self._committed.items()}
        assert [each for each in decreased.values() if each[1] is None or each[1] < each[0]] == [], decreased
        self._committed = committed
        return committed

    def check_order(self) -> None:
        """As `MemberProcess.check_order` of each member."""
        for member in self.every:
            member.check_order()


def kill_and_restart(victim: BrokerProcess | EmbeddedZooKeeper, members: Members, dice: random.Random) -> None:
    """kill -9 of a server, which is gone for a while. Members may end and start meanwhile."""
    victim.kill()
    try:
        time.sleep(dice.uniform(0, 1.5 * SESSION_S))
        if dice.random() < 0.5:
            members.strike(dice.choice(("one", "leaving")))
            time.sleep(dice.uniform(0, 2))
    finally:
        victim.start()


def test_members_that_are_killed_lose_no_record(group: Group, seed: int, tmp_path: Path, report: Report) -> None:
    dice = random.Random(seed)
    servers = group.server.bootstrap_servers
    kinds = [*KINDS, *(["server"] if group.victim is not None else [])]
    dice.shuffle(kinds)
    with Members(tmp_path, group, dice) as members, Topics(servers) as topics:
        writer = NumberWriter(servers, TOPIC, PARTITIONS, pause_s=0.05)
        try:
            members.start()
            for number in range(KILLS):
                members.wait_for_progress()
                time.sleep(dice.uniform(0, 1))
                members.check_commits()
                if (kind := kinds[number % len(kinds)]) == "server":
                    assert group.victim is not None
                    kill_and_restart(group.victim, members, dice)
                else:
                    members.strike(kind)
            wait_for_progress([writer])
        finally:
            writer.stop()
        ends = topics.ends(TOPIC)
        eventually(members.check_commits, ends, within_s=PATIENCE_S)
        members.leave(MEMBERS)
        assert members.check_commits() == ends
        members.check_order()
        check_processed(members, writer, ends)
        records, processed = sum(ends.values()), members.processed()
        twice = sum(count - 1 for count in processed.values())
        line = f"{group.name}: {KILLS} kills ({', '.join(kinds[:KILLS])}), {members}: {records} records"
        report("Members of groups that were killed", [f"SEED={seed}: {line}, {twice} processed again"])


def check_processed(members: Members, writer: Writer, ends: Mapping[int, int]) -> None:
    """Assert that each record of the topic was processed, with the value that was written."""
    values = members.values()
    assert sorted(values) == [(number, offset) for number in range(PARTITIONS) for offset in range(ends[number])]
    for number, acknowledged in enumerate(writer.acknowledged):
        found = {values[number, offset].decode(): offset for offset in range(ends[number])}
        assert [value for value in acknowledged if value not in found] == [], f"lost in partition {number}"
        moved = {value: offset for value, offset in acknowledged.items() if offset not in {-1, found[value]}}
        assert moved == {}, f"not at the acknowledged offset in partition {number}"
