"""Clients find brokers in ZooKeeper: the registered brokers now, and each change of brokers and topics.

A thread has the session. It reads what the events of watches name, compares it with the reading before
(`registry.changes_between`), and calls the listeners. While ZooKeeper cannot be reached, the last reading stays in use.
A session that has ended, or whose connection was lost for the session timeout, is replaced by a new one, which reads
everything again. ZooKeeper's client has threads of its own; they only note which znodes have changed.
"""

import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Self

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.broker_znode import BROKER_IDS, decode_broker
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.registry import (
    BROKER_TOPICS,
    Change,
    Registration,
    Registry,
    Scope,
    addresses_of,
    changes_between,
    topic_paths,
    topic_znodes,
)
from spark_kafka_native._zookeeper.znode_client import SessionState, ZnodeClient

_log = logging.getLogger(__name__)

MAX_WATCHED_TOPICS: Final = 10_000
"""Most topics whose partitions are watched. Beyond them the topic that was named first is not watched any more."""
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 5.0
"""Pauses between two attempts to open a session, or to read, double up to this bound."""
_CLOSE_S: Final = 10.0
"""How long ``close`` waits for the end of the session, which has time limits of its own."""
_MAX_DIGITS: Final = 10
"""Of a broker id, which is an int32."""
_SHOWN: Final = 100
"""Most characters of a znode's name in a log line."""
Listener = Callable[[Change], None]


class BrokerDiscovery:
    """The brokers that are registered in ZooKeeper, and changes of brokers and topics. Threads may share it.

    A context manager. A forked child opens a session of its own at the first use.
    """

    def __init__(
        self,
        connect: ConnectString,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int | None = None,
        read_num_retries: int = 3,
    ) -> None:
        """Does not connect yet. ``connection_timeout_ms`` is the session timeout by default.

        ``read_num_retries``: how often ``addresses`` reads the brokers again if it found none.
        """
        self.connect = connect
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms or session_timeout_ms
        self._read_num_retries = read_num_retries
        self._listeners: list[Listener] = []
        self._watched: OrderedDict[str, None] = OrderedDict()
        self._registry: Registry | None = None
        self._abandoned: list[ZnodeClient] = []
        """Readers of the process that this one was forked from. A collected one would close its sockets."""
        self._reset()
        _discoveries.add(self)

    def _reset(self) -> None:
        """What belongs to one process."""
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._was_read = threading.Condition(self._lock)
        self._readings = 0
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._scope = Scope.ALL
        self._reader: ZnodeClient | None = None
        self._thread: threading.Thread | None = None
        self._is_away = False
        self._pause_s = _FIRST_PAUSE_S

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"ZooKeeper {self.connect}"

    # --- for clients

    def open(self) -> Self:
        """Open a session and read the brokers and the names of topics, unless that is done.

        Blocks for the connection timeout at most. Raises ZooKeeperError: there is no session, the chroot does not
        exist, a znode cannot be read, or the discovery is closed.
        """
        with self._opening:
            self._check_open()
            if self._registry is None:
                self._open_first()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=f"discovery {self.connect}", daemon=True)
                thread.start()
                self._thread = thread  # after its start, because another thread may close the discovery
        return self

    def addresses(self, security_protocol: str) -> tuple[HostPort, ...]:
        """The registered brokers' addresses for a security protocol, such as PLAINTEXT.

        Without any the brokers are read again ``zk.read.num.retries`` times, within the connection timeout. While
        ZooKeeper is away, the brokers are those of the last reading. Raises ZooKeeperError: no broker is registered,
        none has such an endpoint; and as ``open``.
        """
        self.open()
        deadline_s = time.monotonic() + self._connection_timeout_ms / 1000
        pause_s = _FIRST_PAUSE_S
        for retries_left in range(self._read_num_retries, -1, -1):
            assert self._registry is not None
            brokers = [each.broker for each in self._registry.brokers.values()]
            try:
                return addresses_of(brokers, security_protocol, self.connect)
            except ZooKeeperError:
                if not retries_left or not self._read_again(pause_s, deadline_s):
                    raise
            pause_s *= 2
        raise AssertionError("the last try returns or raises")

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each change from now on, in the thread of the discovery. It must not block."""
        with self._lock:
            self._listeners.append(listener)

    def watch_topic(self, name: str) -> None:
        """Report changes of a topic's partitions and replicas, beginning with the present ones (`TopicChanged`).

        The topic need not exist. Raises ZooKeeperError as ``open``.
        """
        with self._lock:
            if name in self._watched:
                return
            self._watched[name] = None
            while len(self._watched) > MAX_WATCHED_TOPICS:
                self._watched.popitem(last=False)
            self._scope = self._scope.with_topic(name)
        self.open()
        self._wake.set()

    def close(self) -> None:
        """End the session. Blocks for some seconds at most. The discovery is of no use from then on."""
        self._closed.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    # --- the first reading

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ZooKeeperError(f"{self}: the discovery of brokers is closed; open another one")

    def _open_first(self) -> None:
        deadline_s = time.monotonic() + self._connection_timeout_ms / 1000
        reader = self._open_reader()
        try:
            reader.timeout_s = max(deadline_s - time.monotonic(), _FIRST_PAUSE_S)
            reader.check_chroot()
            self._note_changes(reader)
            self._read(reader, Registry())
        except BaseException:
            reader.close()
            raise
        reader.timeout_s = self._connection_timeout_ms / 1000
        self._reader = reader

    def _open_reader(self) -> ZnodeClient:
        return ZnodeClient.open(
            self.connect,
            session_timeout_ms=self._session_timeout_ms,
            connection_timeout_ms=self._connection_timeout_ms,
            wake=self._wake.set,
            is_cancelled=self._closed.is_set,
        )

    def _read_again(self, pause_s: float, deadline_s: float) -> bool:
        """Have the brokers read after a pause, and wait for it. False: that was not done before the deadline."""
        if self._closed.wait(max(min(pause_s, deadline_s - time.monotonic()), 0.0)):
            return False
        with self._was_read:
            before = self._readings
            self._scope = self._scope.with_brokers()
            self._wake.set()
            return self._was_read.wait_for(
                lambda: self._readings > before or self._closed.is_set(), max(deadline_s - time.monotonic(), 0.0)
            )

    # --- in the thread of the discovery

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while not self._closed.is_set():
            self._wake.wait(wait_s)
            self._wake.clear()
            if not self._closed.is_set():
                wait_s = self._attempt()
        self._drop_reader()

    def _attempt(self) -> float | None:
        """As ``_work``. After an error that is not a ZooKeeperError, open a new session after a pause."""
        try:
            return self._work()
        except Exception as error:
            self._note_away(f"{type(error).__name__}: {error}")
            self._drop_reader()
            return self._next_pause_s()

    def _work(self) -> float | None:
        """Do what can be done now -> seconds until the next attempt, None if only an event is waited for."""
        reader = self._reader
        if reader is None:
            return self._open_again()
        if reader.state is SessionState.CONNECTED:
            return self._update(reader)
        self._note_away("the connection was lost")
        lost_for_s = time.monotonic() - reader.suspended_at
        left_s = self._session_timeout_ms / 1000 - lost_for_s
        if reader.state is SessionState.SUSPENDED and left_s > 0:
            return left_s
        # A server that has lost its data refuses the session forever.
        self._drop_reader()
        return 0.0

    def _open_again(self) -> float | None:
        try:
            self._reader = self._open_reader()
        except ZooKeeperError as error:
            self._note_away(error)
            return self._next_pause_s()
        return 0.0

    def _update(self, reader: ZnodeClient) -> float | None:
        """Read what has changed, and call the listeners."""
        self._note_changes(reader)
        if self._scope == Scope():
            return None
        before = self._registry or Registry()
        try:
            after = self._read(reader, before)
        except ZooKeeperError as error:
            self._note_away(error)
            return self._next_pause_s()
        if self._is_away:
            self._is_away = False
            _log.info("%s can be read again", self)
        self._pause_s = _FIRST_PAUSE_S
        for change in changes_between(before, after):
            self._report(change)
        return None

    def _note_changes(self, reader: ZnodeClient) -> None:
        changes = reader.take_changes()
        with self._lock:
            for path in changes:
                self._scope = self._scope.with_path(path)

    def _read(self, reader: ZnodeClient, before: Registry) -> Registry:
        """Read what may have changed, and keep it. Raises ZooKeeperError, and all is read the next time."""
        with self._lock:
            scope, self._scope = self._scope, Scope()
            watched = set(self._watched)
        try:
            brokers = self._brokers(reader) if scope.brokers else before.brokers
            topics = frozenset(reader.children(BROKER_TOPICS)) if scope.topics else before.topics
            exist = watched & topics
            wanted = exist if scope.every_topic else exist & (scope.names | (topics - before.topics))
            read = topic_znodes(reader.get(topic_paths(sorted(wanted))))
        except BaseException:
            with self._lock:
                self._scope = Scope.ALL
            raise
        kept = {name: znode for name, znode in before.watched.items() if name in exist - wanted}
        after = Registry(brokers=brokers, topics=topics, watched=kept | read)
        with self._was_read:
            self._registry = after
            self._readings += 1
            self._was_read.notify_all()
        return after

    def _brokers(self, reader: ZnodeClient) -> dict[int, Registration]:
        paths = {}
        for name in reader.children(BROKER_IDS):
            if len(name) > _MAX_DIGITS:
                _log.warning("%s: %s/%s is not a broker id; it is ignored", self, BROKER_IDS, name[:_SHOWN])
            elif name.isascii() and name.isdecimal():
                paths[f"{BROKER_IDS}/{name}"] = int(name)
        found = {}
        for path, znode in reader.get(paths).items():
            try:
                broker = decode_broker(paths[path], znode.data)
            except ZooKeeperError as error:
                _log.warning("%s: %s; this broker is not used", self, error)
                continue
            found[broker.broker_id] = Registration(epoch=znode.created, broker=broker)
        return found

    def _report(self, change: Change) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(change)
            except Exception:
                _log.exception("%s: a listener failed at %s; the discovery continues", self, change)

    def _note_away(self, problem: object) -> None:
        """Log one line until ZooKeeper can be read again."""
        if not self._is_away and not self._closed.is_set():
            self._is_away = True
            text = "%s cannot be read (%s); the last known brokers stay in use, trying again"
            _log.warning(text, self, problem)

    def _next_pause_s(self) -> float:
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _MAX_PAUSE_S)
        return pause_s

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                reader.close()
            except Exception as error:
                _log.warning("%s: the session could not be closed (%s); it ends after its timeout", self, error)

    def _reset_after_fork(self) -> None:
        """In a forked child: its session is another one, and what the parent has read stays in use until then."""
        if self._reader is not None:
            self._abandoned.append(self._reader)
        was_closed = self._closed.is_set()
        self._reset()
        if was_closed:
            self._closed.set()


_discoveries: "weakref.WeakSet[BrokerDiscovery]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Another thread may have held a lock when the process forked, and the session is the parent's."""
    for discovery in list(_discoveries):
        discovery._reset_after_fork()  # noqa: SLF001 -- same module


os.register_at_fork(after_in_child=_after_fork_in_child)
