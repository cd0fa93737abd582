"""A broker that can be stopped, killed and started again within one event loop, on one port and one clock."""

import os
from collections.abc import Callable, Mapping, Sequence

from broker_embedded.config.config import BrokerConfig
from broker_embedded.platform.clocks import MovableClock, ShiftedClock
from broker_embedded.platform.platform import Platform
from broker_embedded.platform.timers import VirtualTimers
from broker_embedded.server.run import kill_broker, start_broker, stop_broker
from broker_embedded.server.server import BrokerServer
from broker_embedded.testing.injection import Injector
from broker_embedded.testing.recording import MOST_REQUESTS, Recorder
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition


class NotRunning(RuntimeError):
    """The broker does not run, so that it cannot be asked."""


class RestartableBroker:
    """Belongs to one event loop. Faults, recorded requests and the clock are the same over all of its runs."""

    def __init__(
        self,
        settings: Mapping[str, object],
        data_dir: str | os.PathLike[str],
        *,
        clock: MovableClock | None = None,
        recorded_requests: int = MOST_REQUESTS,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing starts yet. Without ``clock`` the machine's is used, and can be moved ahead of it.

        ``on_failed`` is called when every log is offline, as that of `BrokerServer`.
        """
        self._on_failed = on_failed
        self._settings = dict(settings)
        self._data_dir = os.fspath(data_dir)
        self.clock: MovableClock = clock or ShiftedClock()
        self.injector = Injector(Recorder(recorded_requests))
        self._server: BrokerServer | None = None

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

    def start(self) -> None:
        """Start, if it does not run; from the second time on at the same port. Blocks while logs are recovered.

        Raises ListenError, DataDirectoryError, ConfigError, OSError.
        """
        if self._server is None:
            config = BrokerConfig.parse(self._settings)
            platform = Platform(clock=self.clock)
            self._server = start_broker(
                config, self._data_dir, platform, intercept=self.injector.interceptor, on_failed=self._on_failed
            )
            self._settings["listeners"] = with_addresses(str(self._settings["listeners"]), self.server.addresses)

    async def stop(self) -> None:
        """Stop in order, if it runs."""
        if self._server is not None:
            server, self._server = self._server, None
            await stop_broker(server)

    async def kill(self) -> None:
        """End as a crash of the process would: nothing is answered, flushed or written any more. If it runs."""
        if self._server is not None:
            server, self._server = self._server, None
            await kill_broker(server)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError: there is none, or it cannot be deleted. NotRunning."""
        broker = self.server.broker
        topic = broker.image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        await broker.topic_lifecycle.delete(topic)

    def wake_fetches(self) -> None:
        """Let fetches that found nothing look again, because partitions are no longer paused."""
        if self._server is not None:
            broker = self._server.broker
            for topic in broker.image.topics.values():
                for index in range(len(topic.partitions)):
                    broker.delayed.changed(TopicPartition(topic.name, index))

    async def advance(self, ms: int) -> int:
        """Move the clock, and let the broker do all that falls due on the way; the time. Raises ValueError: ms < 0."""
        timers = VirtualTimers(self.clock) if self._server is None else self._server.broker.timers
        assert isinstance(timers, VirtualTimers)
        await timers.advance(ms)
        return self.clock.now_ms()


def with_addresses(listeners: str, addresses: Sequence[str]) -> str:
    """The setting ``listeners`` with each at the address that was bound, so that the next start takes them."""
    names = [endpoint.name for endpoint in BrokerConfig(listeners=listeners).endpoints()]
    return ",".join(f"{name}://{address}" for name, address in zip(names, addresses, strict=True))
