"""A broker and its registration in a real ZooKeeper, through the end of sessions, of ZooKeeper and of the broker."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from broker_embedded._broker import DataDirectoryError
from broker_embedded.testing import BrokerProcess, EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from tests.support.scripts import free_port
from tests.support.waiting import eventually


@pytest.fixture
def zookeeper(zookeeper_connect: str) -> Iterator[KazooClient]:
    """Another program's client of the test's chroot, which it creates."""
    client = KazooClient(zookeeper_connect)
    assert client.start_async().wait(30)
    client.ensure_path("/")
    yield client
    client.stop()
    client.close()


def settings(connect: str, **others: object) -> dict[str, object]:
    """Settings with a short session."""
    return {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": 1500,
        **{key.replace("_", "."): value for key, value in others.items()},
    }


def node(zookeeper: KazooClient, path: str) -> Any:
    """The JSON data of a node."""
    return json.loads(zookeeper.get(path)[0])


def topics_in(zookeeper: KazooClient) -> list[str]:
    """The registered topics."""
    return sorted(zookeeper.get_children("/brokers/topics"))


def test_a_broker_is_registered_while_it_runs(zookeeper: KazooClient, zookeeper_connect: str) -> None:
    with EmbeddedBroker(topics={"events": 2}, settings=settings(zookeeper_connect, node_id=3)) as broker:
        found = node(zookeeper, "/brokers/ids/3")
        assert f"{found['host']}:{found['port']}" == broker.bootstrap_servers
        assert node(zookeeper, "/controller")["brokerid"] == 3
        eventually(lambda: topics_in(zookeeper), ["events"])
        eventually(lambda: zookeeper.get_children("/brokers/topics/events/partitions/1"), ["state"])
        assert node(zookeeper, "/brokers/topics/events/partitions/1/state")["leader"] == 3
        broker.create_topic("more")
        eventually(lambda: topics_in(zookeeper), ["events", "more"])
    assert zookeeper.get_children("/brokers/ids") == []
    assert topics_in(zookeeper) == ["events", "more"]


def test_the_cluster_id_is_that_of_zookeeper(zookeeper_connect: str, zookeeper: KazooClient, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "first", settings=settings(zookeeper_connect)) as broker:
        cluster_id = node(zookeeper, "/cluster/id")["id"]
        lines = (broker.log_directory / "meta.properties").read_text().splitlines()
        assert {f"cluster.id={cluster_id}", "broker.id=1", "version=0"} <= set(lines)
    with EmbeddedBroker(tmp_path / "second", settings=settings(zookeeper_connect)) as broker:
        assert f"cluster.id={cluster_id}" in (broker.log_directory / "meta.properties").read_text().splitlines()
    with EmbeddedBroker(tmp_path / "third"):
        pass
    with pytest.raises(ZooKeeperError, match=f"has the cluster id {cluster_id}, but this broker belongs to cluster"):
        EmbeddedBroker(tmp_path / "third", settings=settings(zookeeper_connect)).start()
    with EmbeddedBroker(tmp_path / "third"):  # the failed start has left no lock
        pass


def test_a_contradicting_cluster_id_changes_nothing_in_zookeeper(
    zookeeper: KazooClient, zookeeper_connect: str, tmp_path: Path
) -> None:
    with EmbeddedBroker(tmp_path):
        pass
    with pytest.raises(DataDirectoryError, match=r"belongs to cluster .*, not typo; set cluster\.id="):
        EmbeddedBroker(tmp_path, settings=settings(zookeeper_connect, cluster_id="typo")).start()
    assert zookeeper.get_children("/") == []


def test_a_killed_broker_vanishes_with_its_session(zookeeper: KazooClient, zookeeper_connect: str) -> None:
    with BrokerProcess(settings=settings(zookeeper_connect)) as broker:
        broker.kill()
        eventually(lambda: zookeeper.get_children("/brokers/ids"), [])


@pytest.mark.parametrize("kind", [EmbeddedBroker, BrokerProcess])
def test_a_restart_after_a_kill_waits_for_the_end_of_the_earlier_session(
    zookeeper: KazooClient, zookeeper_connect: str, kind: type[EmbeddedBroker | BrokerProcess]
) -> None:
    with kind(topics={"events": 1}, settings=settings(zookeeper_connect)) as broker:
        owner = zookeeper.get("/brokers/ids/1")[1].ephemeralOwner
        broker.kill()
        broker.start()
        assert zookeeper.get("/brokers/ids/1")[1].ephemeralOwner != owner
        assert broker.topics() == {"events": 1}


def test_an_id_in_use_is_an_error_at_the_start(zookeeper: KazooClient, zookeeper_connect: str, tmp_path: Path) -> None:
    with EmbeddedBroker(settings=settings(zookeeper_connect)) as broker:
        before = zookeeper.get("/brokers/ids/1")
        with pytest.raises(ZooKeeperError, match=f"with the address {broker.bootstrap_servers}; set another node.id"):
            EmbeddedBroker(tmp_path / "data", settings=settings(zookeeper_connect)).start()
        assert zookeeper.get("/brokers/ids/1") == before
        assert not (tmp_path / "data").exists()


def test_a_data_directory_in_use_is_named_before_zookeeper_is_asked(zookeeper_connect: str, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, settings=settings(zookeeper_connect)):
        for connect in (zookeeper_connect, f"127.0.0.1:{free_port()}"):
            with pytest.raises(DataDirectoryError, match=f"^data directory {tmp_path}: in use by another broker"):
                EmbeddedBroker(tmp_path, settings=settings(connect)).start()


def test_a_start_without_zookeeper_unlocks_the_data_directory(tmp_path: Path) -> None:
    limit = {"zookeeper.connection.timeout.ms": 200}
    for _ in range(2):
        with pytest.raises(ZooKeeperError, match="no ZooKeeper server has opened a session within 200 ms"):
            EmbeddedBroker(tmp_path, settings=settings(f"127.0.0.1:{free_port()}") | limit).start()
    with EmbeddedBroker(tmp_path):
        pass


def test_a_lost_session_registers_again(zookeeper: KazooClient, zookeeper_connect: str) -> None:
    with EmbeddedBroker(topics={"events": 1}, settings=settings(zookeeper_connect)) as broker:
        owner = zookeeper.get("/brokers/ids/1")[1].ephemeralOwner
        session = broker._server._zookeeper._session._client.client_id  # type: ignore[union-attr]  # it has one
        thief = KazooClient(zookeeper_connect, client_id=session)
        thief.start()
        thief.stop()  # the end of the session
        thief.close()
        eventually(lambda: zookeeper.exists("/brokers/ids/1") is not None, expected=True)
        assert zookeeper.get("/brokers/ids/1")[1].ephemeralOwner != owner
        broker.create_topic("later")
        eventually(lambda: topics_in(zookeeper), ["events", "later"])


@pytest.mark.parametrize("path", ["/brokers/ids/1", "/controller", "/brokers/topics/events", "/brokers"])
def test_deleted_nodes_are_created_again(zookeeper: KazooClient, zookeeper_connect: str, path: str) -> None:
    with EmbeddedBroker(topics={"events": 1}, settings=settings(zookeeper_connect)):
        eventually(lambda: topics_in(zookeeper), ["events"])
        with suppress(NotEmptyError):  # the broker creates nodes meanwhile
            zookeeper.delete(path, recursive=True)
        eventually(lambda: topics_in(zookeeper), ["events"], retrying=(NoNodeError,))
        eventually(lambda: zookeeper.get_children("/brokers/ids"), ["1"], retrying=(NoNodeError,))
        eventually(lambda: zookeeper.exists("/controller") is not None, expected=True)


def test_a_broker_serves_clients_while_zookeeper_is_away() -> None:
    with EmbeddedZooKeeper() as server, EmbeddedBroker(settings=settings(server.connect_string)) as broker:
        server.kill()
        broker.create_topic("meanwhile")
        broker.create_topic("deleted")
        broker.delete_topic("deleted")
        assert broker.topics() == {"meanwhile": 1}
        server.start()
        client = KazooClient(server.connect_string)
        client.start()
        eventually(lambda: topics_in(client), ["meanwhile"])
        eventually(lambda: client.get_children("/brokers/ids"), ["1"])
        client.stop()
        client.close()


def test_a_broker_registers_in_a_zookeeper_that_has_lost_its_data() -> None:
    """Such a server refuses the connections of the earlier session."""
    with (
        EmbeddedZooKeeper() as server,
        EmbeddedBroker(topics={"events": 1}, settings=settings(f"{server.connect_string}/kafka")) as broker,
    ):
        server.stop()
        broker.create_topic("meanwhile")
        server.start()
        client = KazooClient(f"{server.connect_string}/kafka")
        assert client.start_async().wait(30)
        eventually(lambda: topics_in(client), ["events", "meanwhile"], retrying=(NoNodeError,))
        assert node(client, "/brokers/ids/1")["version"] == 5
        client.stop()
        client.close()


def test_a_broker_stops_while_zookeeper_does_not_respond() -> None:
    with EmbeddedZooKeeper() as server:
        broker = EmbeddedBroker(settings=settings(server.connect_string))
        broker.start()
        server.pause()
        broker.stop()
        server.resume()


def test_tools_create_and_delete_topics_through_zookeeper(zookeeper: KazooClient, zookeeper_connect: str) -> None:
    with EmbeddedBroker(topics={"old": 1}, settings=settings(zookeeper_connect)) as broker:
        zookeeper.create("/config/topics/new", b'{"version":1,"config":{"retention.ms":"5"}}')
        zookeeper.create("/brokers/topics/new", b'{"version":1,"partitions":{"0":[1],"1":[1]}}')
        zookeeper.create("/admin/delete_topics/old")
        eventually(broker.topics, {"new": 2})
        zookeeper.set("/brokers/topics/new", b'{"version":1,"partitions":{"0":[1],"1":[1],"2":[1]}}')
        eventually(broker.topics, {"new": 3})
        eventually(lambda: zookeeper.get_children("/admin/delete_topics"), [])


def test_without_a_zookeeper_a_start_fails_with_one_line(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "broker_embedded", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    options = [f"--set=zookeeper.connect={address}/kafka", "--set=zookeeper.connection.timeout.ms=200"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "python -m broker_embedded: --set zookeeper.connect: no ZooKeeper server has opened a session within 200 ms "
        f"({address}: Connection refused)\n"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_waits_for_zookeeper(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "broker_embedded", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, f"--set=zookeeper.connect={address}", "--set=zookeeper.connection.timeout.ms=2147483647"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            silent.accept()[0].close()
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
            assert output == ""
            assert process.returncode == 0
