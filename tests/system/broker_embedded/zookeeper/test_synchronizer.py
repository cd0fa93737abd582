"""The task that synchronizes topics with ZooKeeper, with znodes in memory."""

import asyncio
from types import SimpleNamespace
from typing import Any

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.zookeeper_offsets import OffsetsInZooKeeper
from broker_embedded._zookeeper.registration import Registrar, registered_broker
from broker_embedded._zookeeper.synchronizer import ZooKeeperSynchronizer
from broker_embedded._zookeeper.znodes import run_limited
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ConnectionLost
from tests.support.waiting import eventually_async
from tests.support.zookeeper.znodes_in_memory import ZnodesInMemory, ZooKeeperInMemory

CONNECT = ConnectString.parse("zookeeper.test/kafka")
CONFIG = BrokerConfig.parse({"zookeeper.connect": str(CONNECT)})


class Session(ZnodesInMemory):
    """A session that is never lost."""

    lost = asyncio.Event()

    async def close(self) -> None:
        """Without effect."""


def synchronizer(zookeeper: ZooKeeperInMemory, session: Session) -> ZooKeeperSynchronizer:
    """Of a broker without topics."""
    registrar = Registrar(CONNECT, registered_broker(CONFIG, {"PLAINTEXT": 9092}), CONFIG)
    topics = SimpleNamespace(image=SimpleNamespace(unregistering=(), topics={}))
    broker: Any = SimpleNamespace(
        timers=SimpleNamespace(now_ms=lambda: 77),
        on_topics_changed=lambda _: None,
        topics=topics,
        topic_lifecycle=None,
        config=CONFIG,
        configs=None,
        config_resources=None,
        quotas=None,
        scram_users=None,
        zookeeper_offsets=OffsetsInZooKeeper(),
    )
    as_session: Any = session
    return ZooKeeperSynchronizer(CONNECT, CONFIG, registrar, as_session, None, broker)


async def test_a_stop_ends_the_task_also_if_a_request_fails_at_this_moment() -> None:
    """Before Python 3.13 a task group that ends with an error swallows a cancellation."""
    zookeeper = ZooKeeperInMemory()
    session = Session(zookeeper, 1, None)
    running = synchronizer(zookeeper, session)
    await running.register()
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[None]] = [loop.create_future() for _ in range(10)]
    waiting = asyncio.Event()

    class Registry:
        is_complete = True

        async def synchronize(self) -> bool:
            async def request(answer: "asyncio.Future[None]") -> None:
                waiting.set()
                await answer

            await run_limited(session, request, answers)
            return True

        def use(self, *_: object) -> None:
            """Without effect."""

    stand_in: Any = Registry()
    running._registry = stand_in
    running.begin()
    await waiting.wait()
    stopping: list[asyncio.Task[None]] = []
    answers[0].set_exception(ConnectionLost("the connection was lost"))
    loop.call_soon(lambda: loop.call_soon(lambda: stopping.append(loop.create_task(running.stop()))))
    await eventually_async(lambda: [task.done() for task in stopping], [True])


async def test_a_registration_that_vanishes_while_it_is_made_is_made_again() -> None:
    zookeeper = ZooKeeperInMemory()
    session = Session(zookeeper, 1, None)
    running = synchronizer(zookeeper, session)

    async def before_the_watch_of_the_controller() -> None:
        zookeeper.delete("/brokers/ids/1")

    async def before_the_first_look_at_it() -> None:
        session.before("get /controller", before_the_watch_of_the_controller)

    session.before("get /controller", before_the_first_look_at_it)
    await running.register()
    running.begin()
    await eventually_async(lambda: "/brokers/ids/1" in zookeeper.nodes, expected=True)
    await running.stop()
