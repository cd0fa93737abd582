"""Open connections that wait to be used again.

A connection is lent to one borrower at a time, who may have many requests in flight on it; a second borrower of the
same broker gets another connection. So no request waits for another borrower's long Fetch, and the lock is never held
while a socket is waited for.

Idle connections to all brokers are checked for ``connections.max.idle.ms`` whenever a connection is lent or given back.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Final

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.retry import Outages
from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._client.security.reloadable import ReloadableSecurity
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import DEFAULT_MAX_FRAME_BYTES, Connection, SocketOptions
from spark_kafka_native._net.channel_security import ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConfigError
from spark_kafka_native._net.response_cache import ResponseCache
from spark_kafka_native._protocol.messages.metadata import MetadataResponse

_LENDS_ANY: Final = 0.5
_FRAME_OVERHEAD_BYTES: Final = 1 << 20
"""What a response may have besides the requested records."""


class ConnectionPool:
    """Idle connections by address. Threads may share it; a forked child starts with none."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._idle: dict[HostPort, list[Connection]] = {}
        self._unreachable = Outages("connected")
        """How often in a row no connection could be made."""
        self.lost_connections = Outages("a response was received")
        """How often in a row the connection was lost, of requests that any broker can answer."""
        self._connecting: Counter[HostPort] = Counter()
        """How many threads are connecting."""
        self._timed_out: set[HostPort] = set()
        """Brokers that did not respond in time, until the next connection is open."""
        self._security = ReloadableSecurity(config, _make_security)
        self._rotation = itertools.count()
        self._is_final = False
        self._response_cache = ResponseCache(MetadataResponse)

    def rank(self, address: HostPort) -> tuple[int, bool, float, bool]:
        """Sort key of a broker for a request that any broker can answer; the smallest is asked first.

        In this order: failed connection attempts in a row; whether another thread is connecting to it, or it timed out;
        its throttle time; whether it has no idle connection. Unlike Kafka's ``NetworkClient.leastLoadedNode``, a broker
        that is being connected to is not waited for.
        """
        failures = self._unreachable.failures(address)
        with self._lock:
            is_slow = address in self._timed_out or self._connecting[address] > 0
            has_idle = bool(self._idle.get(address))
        return failures, is_slow, self.throttle_ms(address), not has_idle

    def note_timeout(self, address: HostPort) -> None:
        """Rank a broker that did not respond in time after those that respond, until a new connection to it is open."""
        with self._lock:
            self._timed_out.add(address)

    def throttle_ms(self, address: HostPort) -> float:
        """How long the idle connection to ``address`` that is lent next takes no request; 0 if there is none."""
        with self._lock:
            idle = self._idle.get(address)
            return 0.0 if not idle or idle[-1].is_stale() else idle[-1].throttle_ms

    def borrow(self, address: HostPort, deadline: Deadline) -> Connection:
        """A connection for one caller alone: an idle one that is still open, or a new one.

        Raises BrokerUnreachable; AuthenticationFailed; ConfigError: a key store cannot be read.
        """
        return self.borrow_idle(address) or self._open(address, deadline)

    def borrow_idle(self, address: HostPort) -> Connection | None:
        """An idle connection that is still open, for one caller alone; None if there is none."""
        self._close_expired()
        while connection := self._pop_idle(address):
            if not connection.is_stale():
                return connection
            connection.close()
        return None

    def borrow_for(self, node_id: int, addresses: Sequence[HostPort], deadline: Deadline) -> Connection:
        """A connection for requests to a broker, where each address is that of any broker. Raises as ``borrow``.

        A new connection is to the address that failed least. If that is not the broker, the caller closes it.
        """
        connection = self.borrow_idle_for(node_id, addresses)
        if connection is None:
            first = next(self._rotation) % len(addresses)
            in_order = [*addresses[first:], *addresses[:first]]
            connection = self._open(min(in_order, key=lambda address: self.rank(address)[:-1]), deadline)
        connection.lent_for = node_id
        return connection

    def borrow_idle_for(self, node_id: int, addresses: Sequence[HostPort]) -> Connection | None:
        """As ``borrow_for``, without connecting.

        A connection that was lent for another broker is not lent: a TCP connection stays with the broker that the load
        balancer has chosen. One that was lent for none may be to any broker, and is lent half of the times: with a load
        balancer that takes brokers in turn, a fixed order of connections could be to the wrong brokers each time.
        """
        self._close_expired()
        for lent_for in (node_id, None) if random.random() < _LENDS_ANY else (node_id,):
            for address in addresses:
                while connection := self._pop_idle(address, {lent_for}):
                    if not connection.is_stale():
                        connection.lent_for = node_id
                        return connection
                    connection.close()
        return None

    def close_idle(self, address: HostPort) -> None:
        """Close the idle connections to an address, because its broker is lost."""
        with self._lock:
            idle = self._idle.pop(address, [])
        for connection in idle:
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """Take a connection back. One that is broken, or has responses that were not taken, is closed."""
        self._close_expired()
        if connection.timed_out:
            self.note_timeout(connection.address)
        if connection.is_stale():
            connection.close()
            return
        connection.release_memory()
        connection.idle_since = time.monotonic()
        with self._lock:
            if not self._is_final:
                self._idle.setdefault(connection.address, []).append(connection)
                return
        connection.close()

    def close(self, *, final: bool = False) -> None:
        """Close all idle connections. Lent ones are closed when they come back stale, or by their borrowers.

        With ``final`` each connection is closed when it comes back from now on.
        """
        with self._lock:
            self._is_final = final
            idle, self._idle = self._idle, {}
        for connection in (connection for connections in idle.values() for connection in connections):
            connection.close()

    def reset_after_fork(self) -> None:
        """In a forked child: drop what the parent uses. Closing here does not end the parent's connections."""
        self._lock = threading.Lock()
        self._unreachable.reset_after_fork()
        self.lost_connections.reset_after_fork()
        self._connecting.clear()
        self._security = ReloadableSecurity(self._config, _make_security)
        self.close()

    def _pop_idle(self, address: HostPort, lent_for: Container[int | None] | None = None) -> Connection | None:
        """An idle connection, with ``lent_for`` only one that was lent for one of these brokers."""
        with self._lock:
            connections = self._idle.get(address, [])
            for index in range(len(connections) - 1, -1, -1):
                if lent_for is None or connections[index].lent_for in lent_for:
                    return connections.pop(index)
            return None

    def _close_expired(self) -> None:
        """Close the connections, to any broker, that were idle for ``connections.max.idle.ms``."""
        max_idle_ms = self._config.connections_max_idle_ms
        if max_idle_ms < 0:
            return
        limit = time.monotonic() - max_idle_ms / 1000
        expired: list[Connection] = []
        with self._lock:
            for address, connections in list(self._idle.items()):
                expired += [connection for connection in connections if connection.idle_since <= limit]
                kept = [connection for connection in connections if connection.idle_since > limit]
                if kept:
                    self._idle[address] = kept
                else:
                    del self._idle[address]
        for connection in expired:
            connection.close()

    def _open(self, address: HostPort, deadline: Deadline) -> Connection:
        config, failures = self._config, self._unreachable.failures(address)
        # A server that is slow to accept gets twice the time at each try (KIP-601).
        base_ms = config.socket_connection_setup_timeout_ms
        timeout_ms = min(base_ms << min(failures, 10), max(config.socket_connection_setup_timeout_max_ms, base_ms))
        options = SocketOptions(
            client_id=config.client_name,
            connect_timeout_ms=timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            receive_buffer_bytes=config.receive_buffer_bytes,
            send_buffer_bytes=config.send_buffer_bytes,
            max_frame_bytes=max(DEFAULT_MAX_FRAME_BYTES, config.max_partition_fetch_bytes + _FRAME_OVERHEAD_BYTES),
            security=self._current_security(),
            response_cache=self._response_cache,
        )
        with self._lock:
            self._connecting[address] += 1
        try:
            connection = Connection.open(address, options, deadline)
        except BrokerUnreachable as error:
            self._unreachable.note_failure(address, error.tried.get(address, error.detail), deadline)
            raise
        finally:
            with self._lock:
                self._connecting[address] -= 1
        with self._lock:
            self._timed_out.discard(address)
        self._unreachable.note_success(address)
        return connection

    def _current_security(self) -> ChannelSecurity:
        try:
            return replace(self._security.current(), option_prefix=self._config.option_prefix)
        except ConfigError as error:
            raise ConfigError(f"{self._config.option_prefix}{error.option}", error.message) from error


def _make_security(config: SecurityConfig, earlier: ChannelSecurity | None) -> ChannelSecurity:
    from spark_kafka_native._client.security.factory import security_of  # noqa: PLC0415 -- a tenth of a worker's start

    return security_of(config, earlier)
