"""A broker in this process, in a separate thread."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, TypeVar

from broker_embedded._platform.clocks import MovableClock
from broker_embedded._server.server import BrokerServer
from broker_embedded._testing.brokers import ControlledBroker, creatable
from broker_embedded._testing.control.address import LOOPBACK, ControlAddress
from broker_embedded._testing.control.commands import Control
from broker_embedded._testing.control.port import ControlPort
from broker_embedded._testing.recording import MAX_REQUESTS, RecordedRequest
from broker_embedded._testing.restartable import RestartableBroker

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 60.0
_SIGNAL_S: Final = 0.2
ResultT = TypeVar("ResultT")


class EmbeddedBroker(ControlledBroker):
    """A broker in this process, in a thread with its own event loop. Starts within tens of milliseconds.

    It is stopped when the main thread ends, even if other threads continue.
    Faults, recorded requests and the clock survive restarts and kills, and may be used before the first start.

    >>> with EmbeddedBroker(topics={"events": 3}, settings={"num.partitions": 2}) as broker:
    ...     broker.create_topic("orders", partitions=2, configs={"retention.ms": "60000"})
    ...     broker.topics()
    {'events': 3, 'orders': 2}
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        clock: MovableClock | None = None,
        control: bool | str = False,
        recorded_requests: int = MAX_REQUESTS,
    ) -> None:
        """As `ControlledBroker`, with its ``settings`` for tests and its ``users``.

        ``clock`` None is the machine's clock, which ``advance`` moves ahead; a ``ManualClock`` stands still otherwise.
        ``control`` opens the port of `broker_embedded._testing.control`: True on a free port, or ``"127.0.0.1:8123"``.
        Raises SettingError: the address can be reached from other machines.
        """
        wanted = ControlAddress.parse("control", LOOPBACK if control is True else control) if control else None
        super().__init__(data_dir, topics=topics, settings=settings, users=users)
        self._thread: threading.Thread | None = None
        self._broker = RestartableBroker(
            self._settings,
            self._data_dir,
            clock=clock,
            recorded_requests=recorded_requests,
            on_failed=self._stop_failed,
        )
        self._control = Control(self._broker)
        self._port = None if wanted is None else ControlPort(self._control, wanted)
        self._started: Future[None]
        self._ended: Future[None]
        self._is_stopping = False
        """Also after a start or a stop that was interrupted, until the broker has been stopped."""
        self._stopping: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event

    @property
    def control_url(self) -> str:
        """The URL of the control port. Raises RuntimeError: there is none, or the broker is not started."""
        if self._port is None or self._thread is None:
            raise RuntimeError("the broker has no control port: create it with control=True, and start it")
        return self._port.url

    @property
    def status_page_url(self) -> str:
        """The URL of the status page. Raises RuntimeError: there is none, or the broker does not run."""
        url = self._broker.server.status_page_url if self._thread is not None and self._broker.is_running else None
        if url is None:
            raise RuntimeError("the broker has no status page: set metrics.listener, and start it")
        return url

    def kill(self) -> None:
        """Stop the broker as a crash of its process would. The thread and the control port continue."""
        if self._thread is None or not self._broker.is_running:
            raise RuntimeError("the broker does not run")
        self._call(self._broker.kill())

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic. Raises KafkaError: it cannot be created."""
        self._call(self._broker.server.broker.topics.create(creatable(name, partitions, configs)))

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError: it cannot be deleted."""
        self._call(self._broker.delete_topic(name))

    def topics(self) -> dict[str, int]:
        """All topics, internal ones included, with their numbers of partitions."""
        return {topic.name: len(topic.partitions) for topic in self._broker.server.broker.image.topics.values()}

    def _requests(self, api: str | None, client_id: str | None, after: int) -> Iterable[RecordedRequest]:
        async def find() -> list[RecordedRequest]:
            return list(self._broker.injector.recorder.find(api=api, client_id=client_id, after=after))

        return self._call(find())

    def _ask(self, method: str, path: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._call(self._control.do(method, path, fields)).result()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._is_stopping:
            self._stop()
        if self._thread is not None:
            self._call(self._broker.start())
            return
        self._started, self._ended = Future(), Future()
        self._thread = threading.Thread(target=self._run, name="embedded-broker", daemon=True)
        _running.add(self)
        try:
            self._thread.start()
            failure = self._started.exception()
        except BaseException:  # interrupted, or the limit of threads
            self._is_stopping = True
            raise
        if failure is not None:
            self._stop()
            raise failure

    def _stop_failed(self) -> None:
        """Stop the broker, whose logs are all offline. The thread continues, as after ``kill``."""
        self._stopping = self._loop.create_task(self._broker.stop())  # a reference, so that it is not garbage collected

    def _run(self) -> None:
        async def serve() -> None:
            async with AsyncExitStack() as stack:
                self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
                await self._broker.start()
                stack.push_async_callback(self._broker.stop)
                self._addresses = self._broker.server.addresses
                if self._port is not None:
                    self._port.open()
                    stack.push_async_callback(self._port.close)
                self._started.set_result(None)
                await self._end.wait()

        if not self._started.set_running_or_notify_cancel():
            return
        try:
            asyncio.run(serve())
        except BaseException as error:  # any error is raised in the thread that waits for the start
            if self._started.done():
                raise
            self._started.set_exception(error)
        finally:
            self._ended.set_result(None)

    def _stop(self) -> None:
        thread = self._thread
        if thread is None:
            return
        if self._started.cancel():  # the thread has not begun: it will not serve
            self._forget()
            return
        self._is_stopping = True
        try:
            _await(self._started)
            if self._started.exception() is None:
                with suppress(RuntimeError):  # the event loop is closed: an earlier call was interrupted
                    self._loop.call_soon_threadsafe(self._end.set)
            _await(self._ended)  # Python 3.11 takes a thread for ended if `join` is interrupted
        except TimeoutError:
            raise TimeoutError(f"the broker did not stop within {STOP_TIMEOUT_S} s") from None
        thread.join()
        self._forget()

    def _forget(self) -> None:
        self._thread = None
        self._is_stopping = False
        _running.discard(self)

    def _call(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the broker's event loop, or before the start on a new one.

        Raises RuntimeError: another process, which has forked this one, has created the broker.
        """
        if self._is_forked:
            work.close()
            self._check_process()
        if self._thread is None:
            with ThreadPoolExecutor(1) as elsewhere:  # the caller may be in an event loop
                return elsewhere.submit(asyncio.run, work).result()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def _server(self) -> BrokerServer:
        return self._broker.server


def _await(future: "Future[None]") -> None:
    """Wait until a future is done, in short waits: a signal that comes just before a wait is handled after it.

    Raises TimeoutError.
    """
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not wait([future], _SIGNAL_S).done:
        if time.monotonic() > deadline:
            raise TimeoutError


_running: Final[set[EmbeddedBroker]] = set()
"""The brokers of this process that were started and not stopped."""


def _stop_running() -> None:
    for broker in list(_running):
        try:
            broker.stop()
        except BaseException as error:  # the others must be stopped, too
            logger.warning(
                "the broker in %s has not stopped, and ends with the process: %r", broker.log_directory, error
            )


# As the main thread ends. At ``atexit`` the executors, which a broker needs to stop, refuse work.
threading._register_atexit(_stop_running)  # type: ignore[attr-defined]  # noqa: SLF001  # concurrent.futures calls it, too
