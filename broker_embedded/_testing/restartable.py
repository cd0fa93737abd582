"""A broker that can be stopped, killed and restarted within one event loop, with the same port and clock."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.clocks import MovableClock, ShiftedClock
from broker_embedded._platform.platform import Platform
from broker_embedded._platform.timers import VirtualTimers
from broker_embedded._server.run import kill_broker, start_broker, stop_broker
from broker_embedded._server.server import BrokerServer
from broker_embedded._testing.injection import Injector
from broker_embedded._testing.recording import MAX_REQUESTS, Recorder
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.errors import ZooKeeperError


class NotRunning(RuntimeError):
    """The broker does not run."""


class RestartableBroker:
    """Belongs to one event loop. Faults, recorded requests and the clock are the same in all runs."""

    def __init__(
        self,
        settings: Mapping[str, object],
        data_dir: str | os.PathLike[str],
        *,
        clock: MovableClock | None = None,
        recorded_requests: int = MAX_REQUESTS,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing starts yet. Without ``clock`` it is the machine's, which can be advanced.

        ``on_failed`` is called when every log is offline, as that of `BrokerServer`.
        """
        self._on_failed = on_failed
        self._settings = dict(settings)
        self._data_dir = os.fspath(data_dir)
        self.clock: MovableClock = clock or ShiftedClock()
        self.injector = Injector(Recorder(recorded_requests))
        self._server: BrokerServer | None = None
        self._changing = asyncio.Lock()
        """Held during a start, a stop and a kill, because a start may wait for ZooKeeper."""

    @property
    def is_running(self) -> bool:
        """Whether it serves clients."""
        return self._server is not None

    @property
    def server(self) -> BrokerServer:
        """The present run. Raises NotRunning."""
        if self._server is None:
            raise NotRunning("the broker does not run")
        return self._server

    @property
    def address(self) -> str:
        """``host:port`` of the first listener. Raises NotRunning."""
        return self.server.addresses[0]

    async def start(self) -> None:
        """Start, if it does not run; from the second time on at the same port. Blocks while logs are recovered.

        Raises ListenError, DataDirectoryError, SettingError, ZooKeeperError, OSError.
        """
        async with self._changing:
            if self._server is not None:
                return
            config = BrokerConfig.parse(self._settings)
            platform = Platform(clock=self.clock)
            try:
                self._server = await start_broker(
                    config, self._data_dir, platform, intercept=self.injector.interceptor, on_failed=self._on_failed
                )
            except ZooKeeperError as error:
                raise ZooKeeperError(f"zookeeper.connect: {error}") from error
            self._settings["listeners"] = with_addresses(str(self._settings["listeners"]), self.server.addresses)

    async def stop(self) -> None:
        """Stop cleanly, if it runs."""
        async with self._changing:
            if self._server is not None:
                server, self._server = self._server, None
                await stop_broker(server)

    async def kill(self) -> None:
        """Stop as a crash of the process would, if it runs."""
        async with self._changing:
            if self._server is not None:
                server, self._server = self._server, None
                await kill_broker(server)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError: unknown topic, or it cannot be deleted. NotRunning."""
        broker = self.server.broker
        topic = broker.image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        await broker.topic_lifecycle.delete(topic)

    def wake_fetches(self) -> None:
        """Let delayed fetches read again, because partitions are no longer paused."""
        if self._server is not None:
            broker = self._server.broker
            for topic in broker.image.topics.values():
                for index in range(len(topic.partitions)):
                    broker.delayed.changed(TopicPartition(topic.name, index))

    async def advance(self, ms: int) -> int:
        """Advance the clock, and run all due timers; the time. Raises ValueError: ms < 0."""
        timers = VirtualTimers(self.clock) if self._server is None else self._server.broker.timers
        assert isinstance(timers, VirtualTimers)
        await timers.advance(ms)
        return self.clock.now_ms()


def with_addresses(listeners: str, addresses: Sequence[str]) -> str:
    """The setting ``listeners`` with the bound addresses, for the next start."""
    names = [endpoint.name for endpoint in BrokerConfig(listeners=listeners).endpoints()]
    return ",".join(f"{name}://{address}" for name, address in zip(names, addresses, strict=True))
