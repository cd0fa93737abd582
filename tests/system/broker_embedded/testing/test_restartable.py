from pathlib import Path

import pytest

from broker_embedded._platform.platform import ManualClock
from broker_embedded._testing.restartable import NotRunning, RestartableBroker, with_addresses
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic
from spark_kafka_native._protocol.topic import TopicPartition

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0"}


async def test_every_run_has_the_same_address(tmp_path: Path) -> None:
    broker = RestartableBroker(SETTINGS, tmp_path)
    for ask in (lambda: broker.server, lambda: broker.address):
        with pytest.raises(NotRunning, match="does not run"):
            ask()
    await broker.start()
    address = broker.address
    for end in (broker.stop, broker.kill, broker.stop):
        await end()
        assert not broker.is_running
        await end()
        await broker.start()
        await broker.start()
        assert broker.address == address
    await broker.stop()


async def test_a_kill_stops_what_the_broker_had_planned(tmp_path: Path) -> None:
    clock = ManualClock()
    broker = RestartableBroker({**SETTINGS, "log.retention.check.interval.ms": 1000}, tmp_path, clock=clock)
    await broker.start()
    killed = broker.server.broker
    await killed.topics.create(CreatableTopic(name="t", num_partitions=1, replication_factor=1))
    done: list[str] = []
    killed.timers.at(clock.now_ms() + 5, lambda: done.append("planned before"))
    await broker.kill()
    killed.timers.at(clock.now_ms() + 5, lambda: done.append("planned after"))
    await broker.advance(10_000)
    assert done == []
    await broker.start()
    assert broker.server.broker.partitions.get(*TopicPartition("t", 0)) is not None
    await broker.advance(10_000)
    assert done == []
    await broker.stop()


def test_every_listener_is_bound_again() -> None:
    bound = ["127.0.0.1:77", "[::1]:78"]
    assert with_addresses("A://h:0, B://[::1]:0", bound) == "A://127.0.0.1:77,B://[::1]:78"
