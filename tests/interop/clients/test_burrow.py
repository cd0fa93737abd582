"""Burrow, from Debian, reads `__consumer_offsets` by itself and works out from it how far groups are.

It asks for offsets in a version that Apache Kafka dropped with 4.0, so both brokers are 3.9 here.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from dirty_equals import AnyThing

from broker_embedded.testing import EmbeddedZooKeeper
from tests.interop.clients.conftest import Agents
from tests.interop.clients.stories import REBALANCE_S, values, wait_until_shared
from tests.support.clients.agent import ForeignRecord
from tests.support.clients.agent_programs import CLIENTS
from tests.support.programs.toolchains import ToolMissing, debian_program
from tests.support.scripts import free_port
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

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
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{servers}"]
client-profile="any"
[httpserver.default]
address="{address}"
[storage.default]
class-name="inmemory"
workers=2
intervals=15
expire-group=604800
min-distance=0
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
    """Asks a Burrow for a path of its HTTP interface; None when it knows of no such thing."""
    try:
        program = debian_program("burrow", "Burrow")
    except ToolMissing as error:
        pytest.skip(f"Burrow is not available: {error}")
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "burrow.toml").write_text(
        CONFIG.format(
            directory=tmp_path,
            zookeeper=zookeeper.connect_string,
            servers=server_3_9.bootstrap_servers,
            address=address,
        )
    )

    def ask(path: str) -> Response | None:
        try:
            with urlopen(f"http://{address}/v3/kafka/local/{path}", timeout=10) as response:
                found: Response = json.load(response)
                return found
        except HTTPError as error:
            error.close()
            return None

    def ask_while_it_runs() -> Response | None:
        assert process.poll() is None, (tmp_path / "output").read_text()
        return ask("consumer")

    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen([*program, "--config-dir", str(tmp_path)], stdout=output, stderr=output)
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
