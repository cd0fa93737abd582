"""Burrow, from Debian, reads `__consumer_offsets`, or offsets in ZooKeeper, and works out from it how far groups are.

It asks for offsets in a version that Apache Kafka dropped with 4.0, so brokers are those of 3.9 and 0.10.2 here.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from dirty_equals import AnyThing

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import REBALANCE_S, values, wait_until_shared
from tests.support.clients.agent import ForeignRecord
from tests.support.clients.agent_programs import CLIENTS
from tests.support.programs.toolchains import ToolMissing, debian_program
from tests.support.report import skip_if
from tests.support.scripts import free_port
from tests.support.servers.apache_kafka import apache_kafka_unavailable
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.servers.kafka_on_zookeeper import KafkaOnZooKeeper, run_class, zookeeper_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

OLD_RELEASE = "0.10.2.2"
CONFIG = """
[general]
pidfile="{directory}/burrow.pid"
[logging]
filename="{directory}/burrow.log"
level="info"
[zookeeper]
servers=["{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.any]
client-id="burrow"
kafka-version="0.10.2"
[cluster.local]
class-name="kafka"
servers=["{servers}"]
client-profile="any"
topic-refresh=1
offset-refresh=1
{consumer}
[httpserver.default]
address="{address}"
[storage.default]
class-name="inmemory"
workers=2
intervals=15
expire-group=604800
min-distance=0
"""
CONSUMER = """
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{servers}"]
client-profile="any"
"""
ZOOKEEPER_CONSUMER = """
[consumer.local]
class-name="kafka_zk"
cluster="local"
servers=["{zookeeper}"]
zookeeper-path="{chroot}"
zookeeper-timeout=30
"""

Response = dict[str, Any]
Burrow = Callable[[str], Response | None]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """Burrow does not start without one, although it keeps in it nothing that matters here."""
    with EmbeddedZooKeeper() as running:
        yield running


@pytest.fixture
def burrow(server_3_9: AnyBroker, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Burrow]:
    """A Burrow that reads the commits of the broker."""
    servers = server_3_9.bootstrap_servers
    with running_burrow(tmp_path, servers, zookeeper.connect_string, CONSUMER.format(servers=servers)) as running:
        yield running


@contextmanager
def running_burrow(directory: Path, servers: str, zookeeper: str, consumer: str) -> Iterator[Burrow]:
    """Asks a Burrow for a path of its HTTP interface; None when it knows of no such thing."""
    try:
        program = debian_program("burrow", "Burrow")
    except ToolMissing as error:
        pytest.skip(f"Burrow is not available: {error}")
    address = f"127.0.0.1:{free_port()}"
    config = CONFIG.format(
        directory=directory, zookeeper=zookeeper, servers=servers, address=address, consumer=consumer
    )
    (directory / "burrow.toml").write_text(config)

    def ask(path: str) -> Response | None:
        try:
            with urlopen(f"http://{address}/v3/kafka/local/{path}", timeout=10) as response:
                found: Response = json.load(response)
                return found
        except HTTPError as error:
            error.close()
            return None

    def ask_while_it_runs() -> Response | None:
        assert process.poll() is None, (directory / "output").read_text()
        return ask("consumer")

    with (directory / "output").open("wb") as output:
        process = subprocess.Popen([*program, "--config-dir", str(directory)], stdout=output, stderr=output)
    try:
        eventually(ask_while_it_runs, AnyThing, within_s=60, retrying=(URLError,))
        yield ask
    finally:
        process.kill()
        process.wait()


def last_offsets(burrow: Burrow, group: str, topic: str) -> list[int] | None:
    """What Burrow takes for the last commit of each partition."""
    found = burrow(f"consumer/{group}")
    if found is None or topic not in found["topics"]:
        return None
    histories = [[one for one in partition["offsets"] if one] for partition in found["topics"][topic]]
    return [history[-1]["offset"] if history else -1 for history in histories]


def test_burrow_sees_what_groups_commit(burrow: Burrow, server_3_9: AnyBroker, agents: Agents) -> None:
    agent, servers, topic = agents(CLIENTS[0]), server_3_9.bootstrap_servers, TopicMaker(server_3_9)(2)
    group = f"group-of-{topic}"
    member = agent.join(servers, group, [topic], f"{topic}-member")
    wait_until_shared([member], topic, 2)
    agent.produce(servers, topic, [ForeignRecord(str(number), partition=number % 2) for number in range(30)])
    eventually(lambda: len(values([member])), 30, within_s=REBALANCE_S)

    produced = 30

    def unseen() -> list[int] | None:
        """The records between Burrow's last commit of each partition and a new one.

        Burrow reads commits from its own start on, and skips those of partitions that it does not know yet.
        """
        nonlocal produced
        agent.produce(servers, topic, [ForeignRecord(str(number), partition=number % 2) for number in range(2)])
        produced += 2
        eventually(lambda: len(values([member])), produced, within_s=REBALANCE_S)
        member.commit()
        assert agent.committed(servers, group, topic, [0, 1]) == {0: produced // 2, 1: produced // 2}
        offsets = last_offsets(burrow, group, topic)
        return None if offsets is None else [produced // 2 - offset for offset in offsets]

    eventually(unseen, [0, 0], within_s=60)
    listed = burrow("consumer")
    assert listed is not None
    assert group in listed["consumers"]
    member.leave()

    def lag() -> list[int]:
        found = burrow(f"consumer/{group}/lag")
        assert found is not None
        assert found["status"]["status"] == "OK"
        return [partition["current_lag"] for partition in found["status"]["partitions"]]

    eventually(lag, [0, 0])
    agent.produce(servers, topic, [ForeignRecord("late", partition=0) for _ in range(3)])
    eventually(lag, [3, 0])


def test_burrow_sees_commits_without_a_member(burrow: Burrow, server_3_9: AnyBroker, agents: Agents) -> None:
    agent, servers, topic = agents(CLIENTS[0]), server_3_9.bootstrap_servers, TopicMaker(server_3_9)(2)
    group = f"group-of-{topic}"
    agent.produce(servers, topic, [ForeignRecord(str(number), partition=number % 2) for number in range(10)])

    def committed() -> (
        list[int] | None
    ):  # again and again, as Burrow skips commits of partitions that it has not heard of yet
        agent.ask("alter_offsets", servers=servers, group=group, topic=topic, offsets={0: 4, 1: 2})
        return last_offsets(burrow, group, topic)

    eventually(committed, [4, 2], within_s=60)


@pytest.mark.parametrize("kind", ["bundled", "apache"])
def test_burrow_sees_offsets_in_zookeeper(kind: str, zookeeper_connect: str, tmp_path: Path) -> None:
    """Consumers of 0.10.2 find the broker in ZooKeeper, and commit there."""
    skip_if(apache_kafka_unavailable(OLD_RELEASE))
    broker: EmbeddedBroker | KafkaOnZooKeeper
    if kind == "bundled":
        broker = EmbeddedBroker(settings={"as.version": OLD_RELEASE, "zookeeper.connect": zookeeper_connect})
    else:
        broker = KafkaOnZooKeeper(connect=zookeeper_connect, release=OLD_RELEASE)
    server, slash, chroot = zookeeper_connect.partition("/")
    consumer = ZOOKEEPER_CONSUMER.format(zookeeper=server, chroot=slash + chroot)
    properties = tmp_path / "consumer.properties"
    properties.write_text("group.id=readers\nauto.offset.reset=smallest\n")
    with broker:
        broker.create_topic("events", 2)
        with running_burrow(tmp_path, broker.bootstrap_servers, server, consumer) as burrow:

            def lags() -> list[int] | None:
                found = burrow("consumer/readers/lag")
                return None if found is None else [each["current_lag"] for each in found["status"]["partitions"]]

            produce(broker.bootstrap_servers, 10)
            arguments = ("--zookeeper", zookeeper_connect, "--topic", "events", "--consumer.config", str(properties))
            options = ("--from-beginning", "--max-messages", "10")
            read = run_class(OLD_RELEASE, "kafka.tools.ConsoleConsumer", *arguments, *options)
            assert sorted(read.split()) == sorted(map(str, range(10)))
            with zookeeper_client(zookeeper_connect) as client:
                offsets = [f"/consumers/readers/offsets/events/{partition}" for partition in range(2)]
                assert [client.get(path)[0] for path in offsets] == [b"5", b"5"]

                def committed_again() -> (
                    list[int] | None
                ):  # Burrow skips commits of partitions that it does not know yet
                    for path in offsets:
                        client.set(path, b"5")
                    return last_offsets(burrow, "readers", "events")

                eventually(committed_again, [5, 5], within_s=60)
            eventually(lags, [0, 0], within_s=60)
            produce(broker.bootstrap_servers, 6)
            eventually(lags, [3, 3], within_s=60)


def produce(servers: str, count: int) -> None:
    """Write numbers, the same count to each of the two partitions."""
    lines = "".join(f"{number}\n" for number in range(count))
    run_class(OLD_RELEASE, "kafka.tools.ConsoleProducer", "--broker-list", servers, "--topic", "events", given=lines)
