"""The connections of a fetcher: when they are opened, kept, given back and closed."""

import errno
import functools
import select
import socket
import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest
from dirty_equals import IsInstance

from spark_kafka_native._client import pausable_clock
from spark_kafka_native._client.cluster import pending_connection
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.cluster.pending_connection import PendingConnection, PendingConnections
from spark_kafka_native._client.cluster.pool import ConnectionPool
from spark_kafka_native._client.config import READ_UNCOMMITTED
from spark_kafka_native._client.consumer import sources as sources_module
from spark_kafka_native._client.consumer.broker_source import BrokerSource
from spark_kafka_native._client.consumer.cursor import Cursor
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.consumer.sources import Sources
from spark_kafka_native._client.errors import OffsetOutOfRange
from spark_kafka_native._client.pausable_clock import PausableClock
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.channel_security import ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConfigError, ConnectionLost
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.interrupts import interrupted_everywhere
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import ROWS, fill, offsets_of
from tests.support.scripted.several_partitions import ALL, brokers_of_two_leaders, ranges, read, tp, whole
from tests.support.scripted.steps import HalfFrame, Held, Pass, Silent, Slow
from tests.support.waiting import eventually

Offsets = dict[TopicPartition, list[int]]


brokers = brokers_of_two_leaders


def accepted(brokers: ScriptedCluster) -> int:
    return sum(broker.accepted for broker in brokers.brokers.values())


# --- between two iterations


def test_fifty_partitions_that_fail_one_after_another_need_no_new_connections() -> None:
    with ScriptedCluster(brokers=3, topics={"t": 50}) as brokers, Cluster(brokers.config()) as cluster:
        for number in range(50):
            fill(brokers.partition("t", number), batches=3)
            brokers.partition("t", number).log_start = ROWS
        found: Offsets = {}
        failed: list[TopicPartition] = []
        with row_fetcher(cluster, ranges(range(50), 0, 3 * ROWS)) as fetcher:
            while len(failed) < 50:
                with pytest.raises(OffsetOutOfRange):
                    take(fetcher, found)
                assert fetcher.failed is not None
                failed.append(fetcher.failed)
                fetcher.assign(*ranges([fetcher.failed.partition], ROWS, 3 * ROWS))
            take(fetcher, found)
        assert found == whole(ranges(range(50), ROWS, 3 * ROWS))
        assert accepted(brokers) <= 2 * len(brokers.brokers), "one for Fetch, one for Metadata and ListOffsets"


def take(fetcher: Fetcher[pa.RecordBatch], found: Offsets, most: int | None = None) -> None:
    for number, (partition, records) in enumerate(fetcher, 1):
        found.setdefault(partition, []).extend(offsets_of([records]))
        if number == most:
            return


@pytest.mark.parametrize("most", [1, 3, 7])
def test_an_iteration_that_is_left_early_is_continued_without_loss_or_repetition(
    brokers: ScriptedCluster, cluster: Cluster, most: int
) -> None:
    found: Offsets = {}
    with row_fetcher(cluster, ALL, target_rows=1) as fetcher:
        for _ in range(10):
            take(fetcher, found, most)
            assert all(offsets == list(range(fetcher.position(partition))) for partition, offsets in found.items())
        take(fetcher, found)
    assert found == whole(ALL)


def test_a_fetcher_that_is_closed_early_can_be_iterated_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found: Offsets = {}
    with row_fetcher(cluster, ALL, target_rows=1) as fetcher:
        take(fetcher, found, 4)
        fetcher.close()
        take(fetcher, found)
    assert found == whole(ALL)


def test_time_between_two_iterations_does_not_count(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    away_s = 0.0
    monkeypatch.setattr(pausable_clock, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + away_s))
    found: Offsets = {}
    with row_fetcher(cluster, ranges([0, 2]), target_rows=1) as fetcher:
        away_s += 3_600
        brokers.script(FetchRequest, Pass(), Slow(300))
        take(fetcher, found, 1)  # the second Fetch is in flight
        away_s += 3_600
        fetcher.assign(*ranges([4]))
        away_s += 3_600
        take(fetcher, found)
        assert fetcher.metrics.retries == 0
    assert found == whole(ranges([0, 2, 4]))
    assert fetcher.metrics.retries == 0


def test_connections_are_used_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for _ in range(3):
        read(cluster, ranges([0, 1], 0, 100))
    assert accepted(brokers) <= 3


def test_metadata_does_not_go_to_a_broker_whose_fetch_timed_out(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, Silent(), broker=1)
    config = brokers.config(bootstrap_servers=str(brokers.brokers[1].address), request_timeout_ms=100)
    with Cluster(config) as cluster:
        node, deadline = cluster.leader(tp(0)).node, Deadline.after_ms(60_000)
        with cluster.lent(node, deadline), cluster.lent(node, deadline):
            pass  # two idle connections: one for Fetch, and because of the other one the broker comes first
        assert read(cluster, ranges([0])).offsets == whole(ranges([0]))
    assert brokers.nodes(MetadataRequest)[:2] == [1, 2]


# --- responses in part


class SteppedClock(PausableClock):
    at = 0.0

    def now(self) -> float:
        return self.at


def test_a_response_that_comes_slowly_does_not_expire_the_others(brokers: ScriptedCluster, cluster: Cluster) -> None:
    late = threading.Event()
    brokers.script(FetchRequest, HalfFrame(300, stays_open=True), broker=1)
    brokers.script(FetchRequest, Held(late), broker=2)
    clock = SteppedClock()
    sources = Sources(cluster, READ_UNCOMMITTED, clock)
    slow, other = (sent(sources, cluster, number) for number in (0, 1))
    assert sources.poll() == (slow, [])
    assert slow.receive() is None
    clock.at = 50.0
    sources.received(slow, whole=False)
    assert slow.expires_at == 200.0, "its response may take as long once more"
    clock.at = 75.0
    sources.received(slow, whole=False)
    assert slow.expires_at == 200.0, "but only once"
    late.set()
    eventually(lambda: select.select([other.connection], [], [], 0)[0], [other.connection])
    clock.at = 125.0
    assert sources.poll() == (None, []), "only the slow one is polled, and expires later"
    assert sources.poll() == (other, []), "it has come, although the time for it is over"
    sources.received(slow, whole=False)
    clock.at = 225.0
    assert sources.poll() == (None, [slow])
    sources.close()


def attached(sources: Sources, cluster: Cluster, number: int) -> Cursor:
    (wanted,) = ranges([number])
    cursor = Cursor(wanted, cluster.config, timeout_ms=60_000, jitter=1.0, now=0.0)
    cursor.leader = cluster.leader(wanted.partition)
    sources.attach(cursor, cursor.leader.node, "")
    return cursor


def sent(sources: Sources, cluster: Cluster, number: int) -> BrokerSource:
    """A source for one partition whose Fetch is in flight, and expires at 100.0."""
    cursor = attached(sources, cluster, number)
    source = next(each for each in sources if cursor in each.cursors)
    eventually(lambda: source.connect(Deadline.after_ms(60_000)), True)
    source.send(Deadline.after_ms(60_000))
    source.response_timeout_ms, source.expires_at = 100_000.0, 100.0
    return source


# --- connecting


def test_a_broker_that_does_not_respond_in_connecting_does_not_delay_another(brokers: ScriptedCluster) -> None:
    answers = threading.Event()
    brokers.script(ApiVersionsRequest, Held(answers), broker=2)
    config = brokers.config(
        bootstrap_servers=str(brokers.brokers[1].address), socket_connection_setup_timeout_ms=30_000
    )
    found: Offsets = {}
    with Cluster(config) as cluster, row_fetcher(cluster, ALL, target_rows=1) as fetcher:
        for partition, records in fetcher:
            found.setdefault(partition, []).extend(offsets_of([records]))
            if found == whole(ranges([0, 2, 4])):
                answers.set()
        assert brokers.brokers[2].accepted == 1, "broker 1 is read during the first attempt"
    assert found == whole(ALL)


def test_close_ends_connecting(brokers: ScriptedCluster) -> None:
    answers = threading.Event()
    brokers.script(ApiVersionsRequest, Held(answers), broker=2)
    config = brokers.config(bootstrap_servers=str(brokers.brokers[1].address))
    with Cluster(config) as cluster:
        with row_fetcher(cluster, ALL, target_rows=1) as fetcher:
            assert next(iter(fetcher))[0] in {tp(0), tp(2), tp(4)}
        eventually(lambda: brokers.brokers[2].accepted, 1)
        answers.set()
        eventually(lambda: brokers.brokers[2].open_connections, 0)
        eventually(connecting_threads, [])


def test_a_connection_that_no_partition_needs_any_more_ends_no_wait(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = Sources(cluster, READ_UNCOMMITTED, SteppedClock())
    cursor = attached(sources, cluster, 0)
    (source,) = sources
    opening = source.opening = connecting(cluster, source.node)
    eventually(lambda: select.select([opening], [], [], 0)[0], [opening])
    assert sources.poll() == (None, [])
    slept: list[float] = []
    monkeypatch.setattr(sources_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    sources.wait(cursor, 250)
    assert sources.poll() == (None, [])
    assert slept == [pytest.approx(0.25, abs=0.2)]
    sources.close()


def test_without_a_descriptor_connecting_is_tried_again(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(errno.EMFILE, "Too many open files")]
    socketpair = socket.socketpair

    def scarce() -> tuple[socket.socket, socket.socket]:
        if errors:
            raise errors.pop()
        return socketpair()

    monkeypatch.setattr(socket, "socketpair", scarce)
    assert read(cluster, ALL).offsets == whole(ALL)
    assert errors == []


def test_without_a_thread_connecting_is_tried_again(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, pairs = [RuntimeError("can't start new thread")], list[tuple[socket.socket, socket.socket]]()
    socketpair, start = socket.socketpair, threading.Thread.start

    def recorded() -> tuple[socket.socket, socket.socket]:
        pairs.append(socketpair())
        return pairs[-1]

    def scarce(thread: threading.Thread) -> None:
        if errors and thread.name.startswith("connect to "):
            raise errors.pop()
        start(thread)

    monkeypatch.setattr(socket, "socketpair", recorded)
    monkeypatch.setattr(threading.Thread, "start", scarce)
    assert read(cluster, ALL).offsets == whole(ALL)
    assert errors == []
    assert [end.fileno() for end in pairs[0]] == [-1, -1]


def test_an_error_of_the_configuration_is_raised_by_one_iteration_only(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = ConnectionPool._current_security
    errors = [ConfigError("ssl.keystore.location", "/etc/keys.p12 cannot be read")]

    def unreadable(pool: ConnectionPool) -> ChannelSecurity:
        if errors and threading.current_thread() is not threading.main_thread():
            raise errors.pop()
        return current(pool)

    monkeypatch.setattr(ConnectionPool, "_current_security", unreadable)
    with row_fetcher(cluster, ALL) as fetcher:
        found: Offsets = {}
        with pytest.raises(ConfigError, match=r"keys\.p12"):
            take(fetcher, found)
        take(fetcher, found)
    assert found == whole(ALL)


def connecting(cluster: Cluster, node: Node) -> PendingConnection:
    borrow = functools.partial(cluster.borrow, node)
    return cluster.pending_connections.begin(node.address, borrow, Deadline.after_ms(60_000))


def connecting_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("connect to ")]


def test_retries_start_no_second_thread_while_a_name_look_up_does_not_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    address = cluster.leader(tp(0)).node.address

    def connect(_: Deadline) -> Connection:
        released.wait()
        raise BrokerUnreachable({address: "the host name is unknown"})

    monkeypatch.setattr(pending_connection, "_GRACE_MS", 0)
    connections = PendingConnections()
    for _ in range(3):
        pending = connections.begin(address, connect, Deadline.after_ms(0))
        with pytest.raises(BrokerUnreachable, match="no connection within 0 ms"):
            pending.take()
        assert len(connecting_threads()) == 1
        connections.abandon(pending)
    released.set()
    eventually(connecting_threads, [])
    new = connections.begin(address, connect, Deadline.after_ms(0))
    assert new is not pending, "that one is closed"
    connections.abandon(new)
    eventually(connecting_threads, [])


def test_an_interrupt_of_a_source_leaves_its_connection_attempt_to_end(cluster: Cluster) -> None:
    node, go = cluster.leader(tp(0)).node, threading.Event()

    def connect(deadline: Deadline) -> Connection:
        go.wait()
        return cluster.borrow(node, deadline)

    def begin() -> PendingConnection:
        return PendingConnection(node.address, connect, Deadline.after_ms(60_000))

    attempts = [begin()]

    def take() -> None:
        attempts[-1].take()

    for _ in interrupted_everywhere(take, pending_connection):
        attempts += [begin()]
    go.set()
    for attempt in attempts:
        close_once_open(attempt)
    eventually(connecting_threads, [])


def test_a_forked_child_does_not_take_its_parents_connection(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = connecting(cluster, cluster.leader(tp(0)).node)
    with monkeypatch.context() as child:
        child.setattr(pending_connection, "os", SimpleNamespace(getpid=lambda: -1))
        with pytest.raises(ConnectionLost, match="forked"):
            pending.take()
    close_once_open(pending)


def test_a_forked_child_does_not_close_its_parents_connection(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = connecting(cluster, cluster.leader(tp(0)).node)
    with monkeypatch.context() as child:
        child.setattr(pending_connection, "os", SimpleNamespace(getpid=lambda: -1))
        cluster.pending_connections.abandon(pending)
    close_once_open(pending)


def test_a_forked_child_does_not_continue_its_parents_attempt(cluster: Cluster) -> None:
    node, released = cluster.leader(tp(0)).node, threading.Event()

    def connect(deadline: Deadline) -> Connection:
        released.wait()
        return cluster.borrow(node, deadline)

    pending = cluster.pending_connections.begin(node.address, connect, Deadline.after_ms(60_000))
    cluster.pending_connections.abandon(pending)
    cluster._reset_after_fork()
    close_once_open(connecting(cluster, node))
    released.set()
    eventually(connecting_threads, [])


def close_once_open(pending: PendingConnection) -> None:
    eventually(pending.take, IsInstance(Connection)).close()  # type: ignore[union-attr]  # not None: expected
