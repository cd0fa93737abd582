"""Brokers and topics are found in a real ZooKeeper, through lost sessions, restarts and forks."""

import json
import logging
import os
import socket
import traceback
from collections.abc import Callable, Iterator

import pytest
from dirty_equals import Contains
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedZooKeeper
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper import discovery as discovery_module
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.discovery import BrokerDiscovery
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.registry import (
    BrokerAdded,
    BrokerLost,
    Change,
    TopicAdded,
    TopicChanged,
    TopicDeleted,
)
from spark_kafka_native._zookeeper.znode_client import ZnodeClient
from tests.support.scripts import free_port
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually


@pytest.fixture
def zookeeper(zookeeper_connect: str) -> Iterator[KazooClient]:
    """Another program's client of the test's chroot, in which broker 1 is registered."""
    with zookeeper_client(zookeeper_connect) as client:
        client.ensure_path("/brokers/topics")
        register(client, 1)
        yield client


@pytest.fixture
def discovery(zookeeper: KazooClient, zookeeper_connect: str) -> Iterator[BrokerDiscovery]:
    """An open discovery."""
    with discovery_of(zookeeper_connect) as opened:
        yield opened


def discovery_of(connect: str, **options: int) -> BrokerDiscovery:
    """A discovery with short timeouts."""
    timeouts = {"session_timeout_ms": 2000, "connection_timeout_ms": 30_000} | options
    return BrokerDiscovery(ConnectString.parse(connect), **timeouts)


def register(client: KazooClient, number: int, *endpoints: str) -> None:
    """Create the znode of a broker."""
    data = {"version": 4, "endpoints": endpoints or [f"PLAINTEXT://b{number}:9092"]}
    client.create(f"/brokers/ids/{number}", json.dumps(data).encode(), makepath=True)


def znode(*replicas: list[int]) -> bytes:
    """The data of a topic's znode."""
    return json.dumps({"version": 1, "partitions": dict(enumerate(replicas))}).encode()


def plain(discovery: BrokerDiscovery) -> Callable[[], list[str]]:
    """A reading of the addresses for PLAINTEXT."""
    return lambda: [str(address) for address in discovery.addresses("PLAINTEXT")]


def changes_of(discovery: BrokerDiscovery) -> list[Change]:
    """The changes that are reported from now on."""
    changes: list[Change] = []
    discovery.listen(changes.append)
    return changes


def test_brokers_are_found_and_lost(zookeeper: KazooClient, discovery: BrokerDiscovery) -> None:
    changes = changes_of(discovery)
    assert plain(discovery)() == ["b1:9092"]
    register(zookeeper, 2)
    eventually(plain(discovery), ["b1:9092", "b2:9092"])
    zookeeper.delete("/brokers/ids/1")
    eventually(plain(discovery), ["b2:9092"])
    eventually(lambda: len(changes), 2)
    assert [type(change) for change in changes] == [BrokerAdded, BrokerLost]


def test_a_broker_whose_endpoints_change_has_the_new_address(
    zookeeper: KazooClient, discovery: BrokerDiscovery
) -> None:
    changed = {"version": 4, "endpoints": ["PLAINTEXT://other:1"]}
    zookeeper.set("/brokers/ids/1", json.dumps(changed).encode())
    eventually(plain(discovery), ["other:1"])


def test_endpoints_are_chosen_by_the_security_protocol(zookeeper: KazooClient, discovery: BrokerDiscovery) -> None:
    register(zookeeper, 2, "PLAINTEXT://b2:1", "SSL://b2:2")
    eventually(plain(discovery), ["b1:9092", "b2:1"])
    assert discovery.addresses("SSL") == (HostPort("b2", 2),)
    with pytest.raises(ZooKeeperError, match=r"security\.protocol=SASL_SSL; the protocols .* are: PLAINTEXT, SSL"):
        discovery.addresses("SASL_SSL")


def test_a_broker_with_an_invalid_znode_is_not_used(
    zookeeper: KazooClient, discovery: BrokerDiscovery, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper.create("/brokers/ids/2", b"creator:host:port")
    register(zookeeper, 3)
    eventually(plain(discovery), ["b1:9092", "b3:9092"])
    assert "/brokers/ids/2 is not a broker's registration" in caplog.text


def test_an_id_that_is_not_a_broker_id_is_ignored(
    zookeeper: KazooClient, discovery: BrokerDiscovery, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper.create(f"/brokers/ids/{'7' * 5000}", b"{}")
    register(zookeeper, 3)
    eventually(plain(discovery), ["b1:9092", "b3:9092"])
    (message,) = {message for message in caplog.messages if "is not a broker id; it is ignored" in message}
    assert len(message) < 300


def test_topics_are_reported_as_they_are_created_changed_and_deleted(
    zookeeper: KazooClient, discovery: BrokerDiscovery
) -> None:
    changes = changes_of(discovery)
    discovery.watch_topic("t")
    discovery.watch_topic("missing")
    zookeeper.create("/brokers/topics/t", znode([1]))
    zookeeper.create("/brokers/topics/not-watched", znode([1]))
    created: list[Change] = [
        TopicAdded(topic="t"),
        TopicChanged(topic="t", assignment={0: (1,)}),
        TopicAdded(topic="not-watched"),
    ]
    eventually(lambda: [change in changes for change in created], [True] * 3)
    zookeeper.set("/brokers/topics/t", znode([1], [2, 1]))
    eventually(lambda: changes, Contains(TopicChanged(topic="t", assignment={0: (1,), 1: (2, 1)})))
    zookeeper.delete("/brokers/topics/t")
    eventually(lambda: changes, Contains(TopicDeleted(topic="t")))


def test_a_watched_topic_is_reported_as_it_is_now(zookeeper: KazooClient, discovery: BrokerDiscovery) -> None:
    zookeeper.create("/brokers/topics/t", znode([1], [1]))
    changes = changes_of(discovery)
    discovery.watch_topic("t")
    eventually(lambda: changes, Contains(TopicChanged(topic="t", assignment={0: (1,), 1: (1,)})))


def test_the_number_of_watched_topics_is_bounded(
    zookeeper: KazooClient, discovery: BrokerDiscovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery_module, "MAX_WATCHED_TOPICS", 2)
    for name in "abc":
        zookeeper.create(f"/brokers/topics/{name}", znode([1]))
        discovery.watch_topic(name)
    eventually(lambda: discovery._registry is not None and set(discovery._registry.watched), {"b", "c"})


def test_a_listener_that_fails_does_not_end_the_discovery(
    zookeeper: KazooClient, discovery: BrokerDiscovery, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Change) -> None:
        raise RuntimeError("a defect of the listener")

    discovery.listen(fail)
    changes = changes_of(discovery)
    register(zookeeper, 2)
    register(zookeeper, 3)
    eventually(lambda: len(changes), 2)
    assert "a defect of the listener" in caplog.text


@pytest.mark.parametrize("retries", [0, 2])
def test_brokers_are_read_again_before_the_error(
    zookeeper: KazooClient, zookeeper_connect: str, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    zookeeper.delete("/brokers/ids/1")
    read_again = []

    def counted(pause_s: float, deadline_s: float) -> bool:
        read_again.append(pause_s)
        return real(pause_s, deadline_s)

    with discovery_of(zookeeper_connect, read_num_retries=retries) as discovery:
        real = discovery._read_again
        monkeypatch.setattr(discovery, "_read_again", counted)
        with pytest.raises(ZooKeeperError, match="no broker is registered below /brokers/ids; start a broker"):
            discovery.addresses("PLAINTEXT")
        assert len(read_again) == retries


def test_an_error_of_the_operating_system_does_not_end_the_discovery(
    zookeeper: KazooClient,
    discovery: BrokerDiscovery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = []

    def without_descriptors(*_: object, **__: object) -> None:
        failures.append(1)
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(ZnodeClient, "children", without_descriptors)
        patched.setattr(ZnodeClient, "open", without_descriptors)
        register(zookeeper, 2)
        eventually(lambda: len(failures) >= 3, expected=True)
        assert plain(discovery)() == ["b1:9092"]
    eventually(plain(discovery), ["b1:9092", "b2:9092"])
    assert caplog.text.count("cannot be read (OSError: [Errno 24] Too many open files)") == 1


# --- errors of the start


def test_without_a_server_the_error_names_each_address() -> None:
    port = free_port()
    with pytest.raises(ZooKeeperError, match=rf"within 200 ms .127\.0\.0\.1:{port}: Connection refused"):
        discovery_of(f"127.0.0.1:{port}", connection_timeout_ms=200).addresses("PLAINTEXT")


def test_a_silent_server_is_an_error_within_the_connection_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ZooKeeperError, match=r"within 200 ms .* has not answered as a ZooKeeper server"):
            discovery_of(f"127.0.0.1:{port}", connection_timeout_ms=200).open()


def test_a_missing_chroot_is_an_error(zookeeper_server: EmbeddedZooKeeper) -> None:
    connect = f"{zookeeper_server.connect_string}/no-such/chroot"
    with pytest.raises(ZooKeeperError, match=r"the chroot /no-such/chroot of zookeeper\.connect does not exist"):
        discovery_of(connect).open()


def test_a_closed_discovery_says_so(discovery: BrokerDiscovery) -> None:
    discovery.close()
    with pytest.raises(ZooKeeperError, match="the discovery of brokers is closed"):
        discovery.addresses("PLAINTEXT")


# --- lost sessions


def test_an_expired_session_is_opened_again_and_reports_what_changed_meanwhile(
    zookeeper: KazooClient, zookeeper_connect: str, discovery: BrokerDiscovery
) -> None:
    changes = changes_of(discovery)
    assert discovery._reader is not None
    client = discovery._reader._client
    assert client is not None
    thief = KazooClient(zookeeper_connect, client_id=client.client_id)
    thief.start()
    register(zookeeper, 2)
    thief.stop()  # the end of the session
    thief.close()
    eventually(plain(discovery), ["b1:9092", "b2:9092"])
    eventually(lambda: discovery._reader is not None and discovery._reader._client is not client, expected=True)
    register(zookeeper, 3)
    eventually(lambda: [change.broker.broker_id for change in changes if isinstance(change, BrokerAdded)], [2, 3])


def test_the_last_known_brokers_stay_in_use_while_zookeeper_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with EmbeddedZooKeeper() as server:
        with zookeeper_client(server.connect_string) as client:
            client.ensure_path("/brokers/topics")
            register(client, 1)
        with discovery_of(server.connect_string, connection_timeout_ms=300) as discovery:
            server.kill()
            lost = f"ZooKeeper {server.connect_string} cannot be read ("
            eventually(lambda: caplog.text.count(lost), 1)
            eventually(lambda: discovery._reader is None, expected=True)
            assert plain(discovery)() == ["b1:9092"]
            server.start()
            with zookeeper_client(server.connect_string) as client:
                register(client, 2)
                eventually(plain(discovery), ["b1:9092", "b2:9092"])
            eventually(lambda: "can be read again" in caplog.text, expected=True)
    assert caplog.text.count(lost) == 1


def test_closing_is_bounded_while_zookeeper_does_not_respond() -> None:
    with EmbeddedZooKeeper() as server:
        discovery = discovery_of(server.connect_string).open()
        server.pause()
        discovery.close()
        assert discovery._thread is not None
        eventually(discovery._thread.is_alive, expected=False)
        server.resume()


# --- forks


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_has_a_session_of_its_own(zookeeper: KazooClient, discovery: BrokerDiscovery) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _exit_with(lambda: _child(discovery, reading))
    os.close(reading)
    register(zookeeper, 2)
    eventually(plain(discovery), ["b1:9092", "b2:9092"])
    os.write(writing, b"x")
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    register(zookeeper, 3)
    eventually(plain(discovery), ["b1:9092", "b2:9092", "b3:9092"])


def _child(discovery: BrokerDiscovery, reading: int) -> None:
    assert discovery._thread is None
    assert plain(discovery)() == ["b1:9092"]
    os.read(reading, 1)
    eventually(plain(discovery), ["b1:9092", "b2:9092"])
    discovery.close()


def _exit_with(work: Callable[[], None]) -> None:
    """Run ``work`` in a forked child, and end the child."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
