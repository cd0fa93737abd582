"""Keeps a running broker and its znodes in ZooKeeper consistent.

1. ``OpenedZooKeeper.open``: connect, create the chroot, and check that no other broker is registered. Crash here: the
   session ends.
2. ``claim_cluster_id``: the cluster has the id of ZooKeeper, or ZooKeeper gets that of the broker. Crash here: a new
   data directory gets this id at the next start.
3. ``register``: create the znodes of the broker, after its logs are open. Crash here: they vanish with the session.
4. ``begin``: a task registers the topics, new ones as they come, and applies what tools change in ZooKeeper. After a
   lost session it registers the broker again. An error is logged, and the task repeats its work. Clients are served
   meanwhile. Crash here: `topic_registry` has the steps.
5. ``stop``: the session ends, and with it the registration.

An error in the steps 1 to 3 is an error of the broker's start.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Self

from broker_embedded._broker import Broker
from broker_embedded._config.config import BrokerConfig
from broker_embedded._zookeeper.consumer_offsets import ConsumerOffsets
from broker_embedded._zookeeper.entity_configs import EntityConfigs
from broker_embedded._zookeeper.registration import Registrar, claim_cluster_id, create_paths, registered_broker
from broker_embedded._zookeeper.session import ZooKeeperSession
from broker_embedded._zookeeper.topic_registry import TopicRegistry
from broker_embedded._zookeeper.znodes import Watches
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 10.0
"""Pauses after errors in a row: each is twice as long as the one before."""
_SHORTEST_INTERVAL_S: Final = 0.05
"""Between two beginnings of the task's work. While topics are created one by one, several are registered at a time."""
_CANCEL_AGAIN_S: Final = 0.5


class OpenedZooKeeper:
    """A session with ZooKeeper before the broker is open. Belongs to the event loop."""

    def __init__(
        self, connect: ConnectString, config: BrokerConfig, registrar: Registrar, session: ZooKeeperSession
    ) -> None:
        """Use ``open``."""
        self._connect = connect
        self._config = config
        self._registrar = registrar
        self._session = session
        self._cluster_id: str | None = None

    @classmethod
    async def open(cls, connect: ConnectString, config: BrokerConfig, ports: Mapping[str, int]) -> Self:
        """Step 1. ``ports`` are the bound ports by listener. Raises ZooKeeperError."""
        broker = await asyncio.get_running_loop().run_in_executor(None, registered_broker, config, ports)
        registrar = Registrar(connect, broker, config)
        return cls(connect, config, registrar, await _open_session(connect, config, registrar))

    async def claim_cluster_id(self, own: str | None) -> str:
        """Step 2. ``own`` is the id that the broker has, if it has one. Raises ZooKeeperError."""
        self._cluster_id = await claim_cluster_id(self._session, self._connect, own)
        return self._cluster_id

    async def register(self, broker: Broker) -> "ZooKeeperSynchronizer":
        """Step 3. Raises ZooKeeperError."""
        synchronizer = ZooKeeperSynchronizer(
            self._connect, self._config, self._registrar, self._session, self._cluster_id, broker
        )
        await synchronizer.register()
        return synchronizer

    async def close(self) -> None:
        """End the session. Waits some seconds at most."""
        await self._session.close()


class ZooKeeperSynchronizer:
    """The registration of one broker. Belongs to the event loop."""

    def __init__(
        self,
        connect: ConnectString,
        config: BrokerConfig,
        registrar: Registrar,
        session: ZooKeeperSession,
        cluster_id: str | None,
        broker: Broker,
    ) -> None:
        """Use ``OpenedZooKeeper.register``."""
        self._connect = connect
        self._config = config
        self._registrar = registrar
        self._cluster_id = cluster_id
        self._broker = broker
        self._session = session
        self._watches = Watches(session)
        self._registry: TopicRegistry | None = None
        self._is_registered = False
        self._is_stopping = False
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        broker.on_topics_changed(self._has_work.set)
        self._offsets = ConsumerOffsets(session, config.zookeeper_session_timeout_ms)
        broker.zookeeper_offsets.offsets = self._offsets

    async def register(self) -> None:
        """Create the broker's znodes in the present session, or check them. Raises ZooKeeperError."""
        self._is_registered = True  # before the watches are set, which can make it false
        await create_paths(self._session, self._config.release)
        now_ms = self._broker.timers.now_ms()
        controller_epoch = await self._registrar.register(self._watches, now_ms, self._on_registration_changed)
        if self._registry is None:
            broker = self._broker
            self._registry = TopicRegistry(
                broker.topics,
                broker.topic_lifecycle,
                EntityConfigs(broker.quotas, broker.scram_users, broker.configs, broker.config_resources),
                lambda: broker.config,
                self._has_work.set,
                self._watches,
                controller_epoch,
            )
        else:
            self._registry.use(self._watches, controller_epoch)
        logger.info("broker %d is registered in ZooKeeper %s", self._config.node_id, self._connect)

    def begin(self) -> None:
        """Step 4."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ZooKeeper")

    async def stop(self) -> None:
        """Step 5. Waits some seconds at most."""
        self._offsets.stop()
        await self._end_task()
        await self._session.close()

    async def abandon(self) -> None:
        """Stop as a crash of the process would: the registration stays until the session times out."""
        self._offsets.stop()
        await self._end_task()
        await self._session.abandon()

    async def _run(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S
        while not self._is_stopping:
            began_s = loop.time()
            self._has_work.clear()
            is_complete = False
            try:
                is_complete = await self._synchronize()
            except (ZooKeeperError, KafkaError) as error:
                logger.warning("%s; trying again in %g s", error, pause_s)
                self._is_registered = False  # all znodes are checked again
                await asyncio.sleep(pause_s)
            except Exception:  # an error of the broker itself, which must not end the task
                logger.exception("topics and ZooKeeper are not synchronized; trying again in %g s", pause_s)
                self._is_registered = False
                await asyncio.sleep(pause_s)
            else:
                await self._wait_for_work(None if is_complete else pause_s)
                await asyncio.sleep(max(0.0, began_s + _SHORTEST_INTERVAL_S - loop.time()))
            pause_s = _FIRST_PAUSE_S if is_complete else min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _wait_for_work(self, at_most_s: float | None) -> None:
        """Wait until there is work, or the session is lost."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._has_work, self._session.lost)]
        try:
            await asyncio.wait(waits, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _synchronize(self) -> bool:
        """Register the broker, if it is not, and the topics. False: single topics must be tried again."""
        if self._session.lost.is_set():
            logger.warning("the session with ZooKeeper %s has ended; opening another one", self._connect)
            self._is_registered = False
            await self._session.close()
            self._session = await _open_session(self._connect, self._config, self._registrar)
            self._watches = Watches(self._session)
            self._offsets.use(self._session)
        if not self._is_registered:
            await claim_cluster_id(self._session, self._connect, self._cluster_id)
            await self.register()
        assert self._registry is not None
        if not self._registry.is_complete:
            await create_paths(self._session, self._config.release)  # another program may have deleted them
        return await self._registry.synchronize()

    def _on_registration_changed(self) -> None:
        """A znode of the broker has changed or vanished, or the connection was lost."""
        self._is_registered = False
        self._has_work.set()

    async def _end_task(self) -> None:
        self._is_stopping = True
        while self._task is not None and not self._task.done():
            self._task.cancel()  # more than once: before Python 3.13 a task group that fails at this moment swallows it
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN_S)


async def _open_session(connect: ConnectString, config: BrokerConfig, registrar: Registrar) -> ZooKeeperSession:
    """A session in which the broker may register. Raises ZooKeeperError."""
    session = await ZooKeeperSession.open(connect, config)
    try:
        await registrar.check(session)
    except BaseException:
        await session.close()
        raise
    return session
