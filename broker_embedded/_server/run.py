"""Running a broker, for the command line and for embedded brokers."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from broker_embedded._broker import Broker, lock_existing, own_cluster_id
from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.platform import Platform
from broker_embedded._server.dispatch import Dispatcher, Intercept
from broker_embedded._server.listener import Listener
from broker_embedded._server.metrics_port import MetricsPort
from broker_embedded._server.server import BrokerServer

if TYPE_CHECKING:
    from broker_embedded._zookeeper.synchronizer import OpenedZooKeeper

RunningT = TypeVar("RunningT")
LISTENING: Final = "listening on "
"""The prefix of the lines with the broker's addresses."""


@asynccontextmanager
async def running_broker(
    config: BrokerConfig,
    data_dir: str,
    platform: Platform | None = None,
    *,
    on_failed: Callable[[], None] = lambda: None,
) -> AsyncIterator[BrokerServer]:
    """A broker that serves clients until the context ends, and then stops cleanly.

    ``on_failed`` is called when every log is offline.

    1. Bind the addresses. Crash here: nothing has changed.
    2. Lock the data directory, recover its logs, read its topics. Crash here: the next start repeats it. With
       ``zookeeper.connect``, a session with ZooKeeper is opened after the lock, and the broker registered at the end.
       A data directory that does not exist is created after the session is open.
    3. Serve. Crash here: acknowledged records are in the log files, and the next start recovers them.
    4. Stop: answer the requests in progress, close connections. Crash here: as in 3.
    5. Flush all logs, then write ``.kafka_cleanshutdown``. Crash before the last step: as in 3.

    Raises ListenError; DataDirectoryError: the directory is locked or cannot be used; ZooKeeperError; OSError.
    """
    server = await start_broker(config, data_dir, platform, on_failed=on_failed)
    try:
        yield server
    finally:
        await asyncio.shield(stop_broker(server))


async def start_broker(
    config: BrokerConfig,
    data_dir: str,
    platform: Platform | None = None,
    *,
    intercept: Callable[[Broker], Intercept] | None = None,
    on_failed: Callable[[], None] = lambda: None,
) -> BrokerServer:
    """Steps 1 to 3 of ``running_broker``. ``stop_broker`` or ``kill_broker`` must end it.

    It blocks the event loop except while it waits for ZooKeeper.

    ``intercept`` returns a function that is called for every request instead of its handler.
    """
    platform = platform or Platform()
    listeners: list[Listener] = []
    async with AsyncExitStack() as given_back:
        for endpoint in config.endpoints():
            listeners.append(Listener(endpoint, config.socket_listen_backlog_size))
            given_back.callback(listeners[-1].close)
        metrics_port = MetricsPort.from_config(config)
        if metrics_port is not None:
            given_back.callback(metrics_port.stop_listening)
        directory = lock_existing(data_dir, platform)
        given_back.callback(directory.unlock)
        own_id = own_cluster_id(config, directory)
        opened, cluster_id, zookeeper = await _open_zookeeper(config, listeners), None, None
        if opened is not None:
            given_back.push_async_callback(opened.close)
            cluster_id = await opened.claim_cluster_id(own_id)
        broker = Broker.open(config, directory, platform, cluster_id=cluster_id)
        given_back.push_async_callback(broker.close)
        if opened is not None:
            zookeeper = await opened.register(broker)
        dispatcher = Dispatcher(broker, None if intercept is None else intercept(broker))
        given_back.pop_all()
    server = BrokerServer(broker, listeners, dispatcher, metrics_port, zookeeper, on_failed)
    server.start()
    return server


async def _open_zookeeper(config: BrokerConfig, listeners: Sequence[Listener]) -> "OpenedZooKeeper | None":
    """A session with ZooKeeper, if the broker is to register there. Raises ZooKeeperError."""
    connect = config.zookeeper()
    if connect is None:
        return None
    from broker_embedded._zookeeper.synchronizer import OpenedZooKeeper  # noqa: PLC0415  # imports kazoo

    return await OpenedZooKeeper.open(connect, config, {listener.name: listener.port for listener in listeners})


class EndOfRun:
    """Ends the run of a broker at a signal, or if the broker has failed. Belongs to the running event loop."""

    def __init__(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._status = 0
        self._come = asyncio.Event()
        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, self._come.set)

    def fail(self) -> None:
        """End the run with exit status 1."""
        self._status = 1
        self._come.set()

    async def run(self, broker: AbstractAsyncContextManager[RunningT], started: Callable[[RunningT], None]) -> int:
        """Start a broker, call ``started``, and stop it at the end; the exit status. An end cancels the start, too.

        Raises what they raise.
        """

        async def serve() -> None:
            async with broker as running:
                started(running)
                await asyncio.Event().wait()

        serving, end = asyncio.ensure_future(serve()), asyncio.ensure_future(self._come.wait())
        await asyncio.wait({serving, end}, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        return self._status


def lines_at_start(server: BrokerServer) -> list[str]:
    """The lines on stdout after the start: addresses for clients, and the URLs of the metrics and the status page."""
    lines = [f"{LISTENING}{address}" for address in server.addresses]
    if server.metrics_url is not None:
        lines.append(f"metrics at {server.metrics_url}")
    if server.status_page_url is not None:
        lines.append(f"status page at {server.status_page_url}")
    return lines


async def stop_broker(server: BrokerServer) -> None:
    """Steps 4 and 5 of ``running_broker``."""
    try:
        await server.stop()
    finally:
        await server.broker.close()


async def kill_broker(server: BrokerServer) -> None:
    """Stop as a crash of the process would. Requires a clock that can be advanced."""
    await server.abandon()
    await server.broker.abandon()
