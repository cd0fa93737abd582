import asyncio
import contextlib
import random

import pytest

from broker_embedded._metadata.files.producer_ids import BLOCK_SIZE, PRODUCER_IDS
from broker_embedded._metadata.producer_ids import ProducerIdManager
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.disk import FaultyFileSystem, SimulatedCrash, new_disk
from tests.support.broker.metadata import open_store
from tests.support.refusals import refused


class ProducerIdsDriver:
    """Producer ids on a disk in memory."""

    def __init__(self) -> None:
        self.disk = new_disk()
        self.faults = FaultyFileSystem(self.disk)
        self.open()

    def open(self) -> None:
        self.ids = ProducerIdManager(open_store(self.faults), ShieldedTasks())

    def take(self, count: int) -> list[int]:
        async def several() -> list[int]:
            return [await self.ids.next() for _ in range(count)]

        return asyncio.run(several())


def test_blocks_follow_each_other() -> None:
    driver = ProducerIdsDriver()
    first, *others = driver.take(BLOCK_SIZE + 2)
    assert others == list(range(first + 1, first + BLOCK_SIZE + 2))
    driver.open()
    assert driver.take(1) == [first + 2 * BLOCK_SIZE]


def test_a_new_directory_begins_where_no_other_broker_is() -> None:
    firsts = {ProducerIdsDriver().take(1)[0] for _ in range(20)}
    assert len(firsts) > 10
    assert min(firsts) > 2**32
    assert max(firsts) < 2**53


def test_a_block_is_written_once() -> None:
    driver = ProducerIdsDriver()
    driver.take(BLOCK_SIZE)
    assert driver.faults.steps.count(f"rename {PRODUCER_IDS.name}.tmp") == 1


@pytest.mark.parametrize("chance", [None, random.Random(1), random.Random(2)])
def test_a_crash_at_any_step_never_gives_an_id_twice(chance: random.Random | None) -> None:
    driver, given = ProducerIdsDriver(), list[int]()
    for step in range(12):
        driver.faults.crash_at = step
        with contextlib.suppress(SimulatedCrash):
            given += driver.take(BLOCK_SIZE + 1)
        driver.disk.crash(chance)
        driver.faults.revive()
        driver.open()
        given += driver.take(1)
    assert len(set(given)) == len(given)


def test_when_the_disk_fails_no_id_is_given() -> None:
    driver = ProducerIdsDriver()
    driver.faults.fail("sync *")
    error = refused(driver.take, 1)
    assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error.retriable
    driver.faults.heal()
    assert driver.take(1)


def test_concurrent_requests_get_different_producer_ids() -> None:
    driver = ProducerIdsDriver()

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(driver.ids.next() for _ in range(BLOCK_SIZE * 2)))

    given = sorted(asyncio.run(all_at_once()))
    assert given == list(range(given[0], given[0] + BLOCK_SIZE * 2))
