import asyncio
import errno
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_embedded._metadata.image import TopicImage
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash
from tests.support.broker.driver import BrokerDriver, batch
from tests.support.refusals import refused

DATA_DIR = Path("/data")


class CrashingBroker:
    """A broker on a disk in memory that may stop at any step; topic ``old`` with a record was there before."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.faults = FaultyFileSystem(self.disk)
        self.driver = BrokerDriver(DATA_DIR, file_system=self.faults)
        self.driver.create("old", partitions=2, file_delete_delay_ms="0")
        self.driver.produce("old", batch(b"kept"))
        self.driver.broker.partitions.get("old", 0).log.local.flush()
        self.faults.revive()

    def create(self, partitions: int = 3) -> TopicImage:
        wanted = CreatableTopic(name="new", num_partitions=partitions, replication_factor=1)
        return self.driver.run(self.driver.broker.topics.create(wanted))

    def widen(self) -> TopicImage:
        wanted = CreatePartitionsTopic(name="old", count=5, assignments=None)
        return self.driver.run(self.driver.broker.topics.add_partitions(wanted))

    def delete(self) -> None:
        self.driver.run(self.driver.broker.topic_lifecycle.delete(self.driver.broker.image.topics["old"]))

    def lose(self, chance: random.Random | None, *, machine: bool) -> None:
        """A crash of the process, or of the machine with all unsynced bytes; then a start."""
        self.driver.drop()
        if machine:
            self.disk.crash(chance)
        else:
            self.disk.restart()
        self.faults.revive()
        self.driver.open()

    def directories(self) -> set[str]:
        return {entry.name for entry in self.disk.list_directory(str(DATA_DIR)) if entry.is_directory}

    def check(self) -> None:
        """Every topic has exactly its directories, and each of its partitions takes records."""
        topics = self.driver.broker.image.topics.values()
        expected = {f"{topic.name}-{index}" for topic in topics for index in range(len(topic.partitions))}
        assert {name for name in self.directories() if not name.endswith("-delete")} == expected
        for topic in topics:
            for index in range(len(topic.partitions)):
                assert self.driver.produce(topic.name, batch(b"more"), index).error_code == 0


@pytest.fixture
def broker() -> Iterator[CrashingBroker]:
    made = CrashingBroker()
    yield made
    made.faults.heal()
    made.driver.drop()
    made.driver._loop.close()


CHANGES: dict[str, Callable[[CrashingBroker], object]] = {
    "create": CrashingBroker.create,
    "widen": CrashingBroker.widen,
    "delete": CrashingBroker.delete,
}


def outcomes(broker: CrashingBroker, change: str) -> bool:
    """Whether the change has happened, completely or not at all."""
    image = broker.driver.broker.image
    match change:
        case "create":
            topic = image.topic("new")
            assert topic is None or len(topic.partitions) == 3
            return topic is not None
        case "widen":
            count = len(image.topics["old"].partitions)
            assert count in {2, 5}
            return count == 5
        case _:
            return image.topic("old") is None


@pytest.mark.parametrize("loss", ["process", "machine", "some"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_crash_at_any_step_leaves_a_topic_whole_or_not_at_all(change: str, loss: str) -> None:
    happened: list[bool] = []
    step = 0
    while True:
        broker = CrashingBroker()
        broker.faults.crash_at = step
        try:
            CHANGES[change](broker)
            done = True
        except SimulatedCrash:
            done = False
        broker.lose(random.Random(step) if loss == "some" else None, machine=loss != "process")
        happened.append(outcomes(broker, change))
        broker.check()
        if change != "delete" or not happened[-1]:
            assert broker.driver.values("old")[0] == b"kept"
        broker.driver.drop()
        broker.driver._loop.close()
        if done:
            break
        step += 1
    assert step > 5
    assert happened[0] is False
    assert happened[-1] is True
    if loss != "some":
        assert happened == sorted(happened), "once it has happened, a later crash does not undo it"


def test_a_deleted_topic_does_not_come_back_under_a_new_one(broker: CrashingBroker) -> None:
    broker.faults.crash_at = "rename old-0"
    with pytest.raises(SimulatedCrash):
        broker.delete()
    broker.lose(None, machine=False)
    broker.driver.create("old", partitions=2)
    broker.lose(None, machine=False)
    assert broker.driver.values("old") == []
    broker.check()


@pytest.mark.parametrize("pattern", ["write topics.json.tmp", "sync topics.json.tmp", "rename topics.json.tmp"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_when_the_file_cannot_be_written_nothing_changes(broker: CrashingBroker, change: str, pattern: str) -> None:
    broker.faults.fail(pattern, errno.ENOSPC)
    assert refused(lambda: CHANGES[change](broker)).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert outcomes(broker, change) is False
    broker.faults.heal()
    broker.check()
    CHANGES[change](broker)
    assert outcomes(broker, change) is True
    broker.check()


@pytest.mark.parametrize("change", ["create", "widen"])
def test_when_a_directory_cannot_be_made_the_topic_is_as_before(broker: CrashingBroker, change: str) -> None:
    broker.faults.fail("make_directory *-2" if change == "create" else "make_directory *-4", errno.ENOSPC)
    assert refused(lambda: CHANGES[change](broker)).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert outcomes(broker, change) is False
    broker.faults.heal()
    broker.check()
    broker.lose(None, machine=True)
    assert outcomes(broker, change) is False
    CHANGES[change](broker)
    broker.check()


def test_when_directories_cannot_be_renamed_the_topic_is_gone_and_they_go_at_the_next_start(
    broker: CrashingBroker,
) -> None:
    broker.faults.fail("rename old-*")
    broker.delete()
    assert outcomes(broker, "delete")
    broker.faults.heal()
    broker.lose(None, machine=True)
    assert outcomes(broker, "delete")
    assert not any(name.startswith("old-") and not name.endswith("-delete") for name in broker.directories())


def test_a_change_whose_request_was_cancelled_is_completed(broker: CrashingBroker) -> None:
    async def leave_half_way() -> None:
        wanted = CreatableTopic(name="new", num_partitions=3, replication_factor=1)
        task = asyncio.create_task(broker.driver.broker.topics.create(wanted))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await broker.driver.broker.shielded_tasks.wait()

    broker.driver.run(leave_half_way())
    assert outcomes(broker, "create")
    broker.check()


def test_concurrent_changes_are_serialized(broker: CrashingBroker) -> None:
    async def all_at_once() -> list[object]:
        topics = broker.driver.broker.topics
        wanted = [CreatableTopic(name=f"t{number % 3}", num_partitions=1, replication_factor=1) for number in range(9)]
        return await asyncio.gather(*map(topics.create, wanted), return_exceptions=True)

    results = broker.driver.run(all_at_once())
    assert sum(isinstance(result, TopicImage) for result in results) == 3
    assert {error.code for error in results if isinstance(error, KafkaError)} == {ErrorCode.TOPIC_ALREADY_EXISTS}
    broker.check()


def test_requiring_a_topic_makes_it_once(broker: CrashingBroker) -> None:
    wanted = CreatableTopic(name="new", num_partitions=2, replication_factor=1)
    first, second = (broker.driver.run(broker.driver.broker.topics.require(wanted)) for _ in range(2))
    assert first == second
    with pytest.raises(KafkaError, match="characters"):
        broker.driver.run(broker.driver.broker.topics.require(CreatableTopic(name="a/b", num_partitions=1)))
