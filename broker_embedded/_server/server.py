"""The network server of a broker."""

import asyncio
import contextlib
import functools
import ipaddress
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker_embedded._broker import Broker
from broker_embedded._config.addresses import WILDCARD_HOSTS
from broker_embedded._metadata.image import BrokerNode
from broker_embedded._platform.periodic import PeriodicTask, PeriodicTasks
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._platform.timers import Timer
from broker_embedded._security.session import Session
from broker_embedded._server.connection import Connection, Serve, Shared
from broker_embedded._server.connection_quotas import ConnectionQuotas, TooManyConnections
from broker_embedded._server.dispatch import Dispatcher, Peer
from broker_embedded._server.listener import Listener
from broker_embedded._server.memory import RequestMemory
from broker_embedded._server.metrics_port import MetricsPort
from broker_embedded._server.sasl_authenticator import SaslAuthenticator

if TYPE_CHECKING:
    from broker_embedded._zookeeper.synchronizer import ZooKeeperSynchronizer

logger = logging.getLogger(__name__)

_DRAIN_S: Final = 10.0
"""How long a stopping broker waits for responses in progress."""
_SHRINK_AFTER_MS: Final = 5000
_CHECK_CONNECTIONS_MS: Final = 1000
_SHORTEST_CHECK_MS: Final = 20
_CHECK_LOGS_MS: Final = 1000


class BrokerServer:
    """A broker's listeners, connections and periodic tasks. Belongs to one event loop."""

    def __init__(
        self,
        broker: Broker,
        listeners: Sequence[Listener],
        dispatcher: Dispatcher,
        metrics_port: MetricsPort | None = None,
        zookeeper: "ZooKeeperSynchronizer | None" = None,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """``dispatcher`` answers the requests of all connections.

        ``on_failed`` is called once, on the event loop, when every log is offline. The caller must stop the server.
        """
        self.broker = broker
        self._metrics_port = metrics_port
        self._zookeeper = zookeeper
        self._dispatcher = dispatcher
        self._on_failed = on_failed
        self._has_failed = False
        self._config = broker.config
        self._listeners = listeners
        self._sasl = {listener.name: self._config.sasl_of(listener.name) for listener in listeners}
        self._connections: dict[Connection, Peer] = {}
        self._all_closed = asyncio.Event()
        self._connection_quotas = ConnectionQuotas(lambda: broker.config, broker.quotas.connection_rate)
        self._refused: set[socket.socket] = set()
        self._is_full = False
        self._waiting_for_space: Timer | None = None
        self._nodes: dict[str, BrokerNode] = {}
        self._shared = Shared(
            timers=broker.timers,
            max_request_bytes=broker.config.socket_request_max_bytes,
            memory=RequestMemory(broker.config.queued_max_request_bytes),
        )
        self._periodic = PeriodicTasks(broker.timers)

    def start(self) -> None:
        """Serve clients, and start the periodic tasks."""
        self.broker.groups.resume()
        self.broker.transactions.resume()
        for listener in self._listeners:
            listener.start(functools.partial(self._on_connection, listener), self._has_space)
        if self._metrics_port is not None:
            self._metrics_port.start(self.broker, self.addresses, self._connections)
        self._periodic.start(*self._periodic_tasks(), *self.broker.periodic_tasks())
        if self._zookeeper is not None:
            self._zookeeper.begin()

    async def stop(self) -> None:
        """Answer the requests in progress, within a time limit, then close all connections. The broker stays open."""
        if self._zookeeper is None:
            await self._stop()
        else:
            await asyncio.gather(self._zookeeper.stop(), self._stop())  # ZooKeeper may not respond

    async def _stop(self) -> None:
        self._stop_listening()
        self.broker.compaction.stop()
        await self._periodic.stop()
        self.broker.delayed.release()
        self.broker.groups.release()
        self.broker.transactions.release()
        self._all_closed.clear()
        for connection in list(self._connections):
            connection.close_when_idle()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), _DRAIN_S)
        if self._metrics_port is not None:
            await self._metrics_port.close()
        for connection in list(self._connections):
            connection.close("the broker stops, and its response took too long", logging.WARNING)

    async def abandon(self) -> None:
        """Close all connections without responses, as a crash of the process would."""
        self._stop_listening()
        self._periodic.abandon()
        self.broker.groups.abandon()
        self.broker.transactions.abandon()
        for connection in list(self._connections):
            connection.close_when_idle()
        await asyncio.sleep(0)  # queued work begins, so that it can be cancelled
        for connection in list(self._connections):
            connection.close("the broker is killed")
        if self._zookeeper is not None:
            await self._zookeeper.abandon()
        if self._metrics_port is not None:
            await self._metrics_port.close()

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each listener, with the ports that were bound."""
        return [listener.address for listener in self._listeners]

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics, or None."""
        return None if self._metrics_port is None else self._metrics_port.metrics_url

    @property
    def status_page_url(self) -> str | None:
        """The URL of the status page, or None."""
        return None if self._metrics_port is None else self._metrics_port.status_page_url

    # --- connections -----------------------------------------------------------------------------------------------

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._metrics_port is not None:
            self._metrics_port.stop_listening()
        if self._waiting_for_space is not None:
            self._waiting_for_space.cancel()
        for sock in self._refused:
            sock.close()
        self._refused.clear()

    def _has_space(self) -> bool:
        """Whether another connection may be accepted now. If not, the listeners are resumed later."""
        if self._connection_quotas.is_full(len(self._refused)):
            if not self._is_full:
                total, reason = self._connection_quotas.total, self._connection_quotas.limit[1]
                logger.warning("open connections: %d (%s): new connections wait in the backlog", total, reason)
            self._is_full = True
            return False
        self._is_full = False
        timers = self.broker.timers
        wait_ms = self._connection_quotas.wait_ms(timers.elapsed_ms())
        if wait_ms and self._waiting_for_space is None:
            self._waiting_for_space = timers.at(timers.now_ms() + wait_ms, self._on_room)
        return not wait_ms

    def _on_room(self) -> None:
        self._waiting_for_space = None
        for listener in self._listeners:
            listener.resume()

    def _on_connection(self, listener: Listener, sock: socket.socket, peer: str) -> None:
        ip = _ip_of(peer)
        try:
            self._connection_quotas.inc(ip, self.broker.timers.elapsed_ms())
        except TooManyConnections as refused:
            self._refuse(sock, peer, refused)
            return
        self._set_buffers(sock)
        connection, client = self._connect(listener, sock, peer, _as_java_writes(ip))
        self._connections[connection] = client
        self.broker.traffic.connection_opened()
        connection.start()

    def _connect(self, listener: Listener, sock: socket.socket, peer: str, client_host: str) -> tuple[Connection, Peer]:
        broker, dispatcher = self.broker, self._dispatcher
        node, presence = self._node(listener, sock), ClientPresence()
        sasl = self._sasl[listener.name]
        serve: Serve
        if sasl is None:
            client = Peer(node=node, listener=listener.name, client_host=client_host, presence=presence)
            serve = functools.partial(dispatcher.serve, client)
        else:
            session = Session(
                sasl,
                scram_credential=broker.scram_users.credential,
                now_ms=broker.timers.elapsed_ms,
                on_open=lambda: connection.limit_requests(self._shared.max_request_bytes, "socket.request.max.bytes"),
            )
            client = Peer(
                node=node, listener=listener.name, client_host=client_host, session=session, presence=presence
            )
            serve = SaslAuthenticator(
                session,
                functools.partial(dispatcher.serve, client),
                broker.delayed,
                self._config.connection_failed_authentication_delay_ms,
            )
        connection = Connection(
            sock, peer, serve=serve, shared=self._shared, presence=presence, on_closed=self._on_closed
        )
        if sasl is not None:
            connection.limit_requests(sasl.max_receive_bytes, "sasl.server.max.receive.size")
        return connection, client

    def _on_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._connection_quotas.dec(_ip_of(connection.peer))
        self.broker.traffic.connection_closed()
        if self._is_full:
            self._on_room()
        if not self._connections:
            self._all_closed.set()

    def _refuse(self, sock: socket.socket, peer: str, refused: TooManyConnections) -> None:
        """Close a refused connection, later if the client is over its quota."""
        logger.warning("refused the connection from %s: %s", peer, refused)
        self.broker.traffic.connections_refused[refused.limit] += 1
        if not refused.after_ms:
            sock.close()
            return

        def close() -> None:
            self._refused.discard(sock)
            sock.close()
            if self._is_full:
                self._on_room()

        self._refused.add(sock)
        self.broker.timers.at(self.broker.timers.now_ms() + refused.after_ms, close)

    def _set_buffers(self, sock: socket.socket) -> None:
        for option, size in (
            (socket.SO_SNDBUF, self._config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self._config.socket_receive_buffer_bytes),
        ):
            if size >= 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def _node(self, listener: Listener, sock: socket.socket) -> BrokerNode:
        """This broker with the address for the client of ``sock``."""
        node_id, advertised = self._config.node_id, self._config.advertised().get(listener.name)
        if advertised is not None:
            host, port = advertised.host, advertised.port or listener.port
        else:
            host = sock.getsockname()[0] if listener.host in WILDCARD_HOSTS else listener.host
            port = listener.port
        node = BrokerNode(node_id=node_id, host=host, port=port, rack=self._config.broker_rack)
        return self._nodes.setdefault(f"{node.host}:{node.port}", node)  # connections with one address share the value

    # --- timers ----------------------------------------------------------------------------------------------------

    def _periodic_tasks(self) -> list[PeriodicTask]:
        idle_ms = self._config.connections_max_idle_ms
        check_ms = (
            _CHECK_CONNECTIONS_MS if idle_ms < 0 else min(_CHECK_CONNECTIONS_MS, max(_SHORTEST_CHECK_MS, idle_ms // 2))
        )
        return [
            PeriodicTask("check of idle connections", check_ms, self._check_connections),
            PeriodicTask("check of offline logs", _CHECK_LOGS_MS, self._check_logs),
        ]

    def _check_logs(self) -> None:
        """Stop the broker when every log is offline, as Apache Kafka does when all log directories are offline."""
        logs = self.broker.logs
        if not self._has_failed and logs.logs and logs.offline_count == len(logs.logs):
            self._has_failed = True
            logger.critical("stopping: all logs in %s are offline (%d)", logs.data_dir, logs.offline_count)
            self._on_failed()

    def _check_connections(self) -> None:
        now_ms, limit_ms = self.broker.timers.elapsed_ms(), self._config.connections_max_idle_ms
        if self._is_full and not self._connection_quotas.is_full(len(self._refused)):  # max.connections has changed
            self._on_room()
        is_short = self._shared.memory.is_short
        for connection in list(self._connections):
            connection.look_for_end()
            idle_ms = now_ms - connection.last_active_ms
            if 0 <= limit_ms <= idle_ms and not connection.is_parked:
                reason = f"it was idle for {idle_ms / 1000:.1f} s (connections.max.idle.ms)"
                connection.close(reason, logging.INFO)
            elif connection.receives_too_slowly(now_ms) and is_short:
                reason = "its request arrives too slowly while other connections wait for memory"
                connection.close(f"{reason} (queued.max.request.bytes)", logging.WARNING)
            elif idle_ms >= _SHRINK_AFTER_MS:
                connection.shrink()


def _ip_of(peer: str) -> str:
    return peer.rpartition(":")[0].strip("[]")


def _as_java_writes(ip: str) -> str:
    """An address in Java's format, as in descriptions of group members: ``/127.0.0.1``, ``/0:0:0:0:0:0:0:1``."""
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return f"/{ip}"
    if address.version == 4:
        return f"/{address}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
