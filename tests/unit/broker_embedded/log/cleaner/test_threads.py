import asyncio
import os
from pathlib import Path
from uuid import UUID

from dirty_equals import IsTrueLike

from broker_embedded._config.config import BrokerConfig
from broker_embedded._log.cleaner.threads import CleanerThreads
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.compaction_driver import CompactionDriver
from tests.support.broker.driver import BrokerDriver, commit_offset, run_periodic
from tests.support.records import reference
from tests.support.requests.of_topic import offset_fetch
from tests.support.waiting import eventually_async

MANY = [TopicPartition("many", index) for index in range(8)]


def dirty() -> CompactionDriver:
    driver = CompactionDriver({"segment.bytes": 300})
    for log in driver.manager.create_all(MANY, UUID(int=9), driver.config):
        for number in range(6):
            record = reference.Record(b"k", b"%d" % number)
            log.append(bytearray(reference.write_batch(reference.Batch(records=(record,)))), leader_epoch=0)
        log.local.roll()
    return driver


def compaction(driver: CompactionDriver, **settings: object) -> CleanerThreads:
    config = BrokerConfig.parse({f"log.cleaner.{key.replace('_', '.')}": value for key, value in settings.items()})
    return CleanerThreads(config, driver.manager, driver.platform, Timers(driver.clock))


def compacted(driver: CompactionDriver) -> int:
    return sum(driver.manager.cleaned_offsets.get(partition) == 6 for partition in MANY)


def test_every_dirty_log_is_compacted() -> None:
    for threads in (1, 3):
        driver = dirty()
        threaded = compaction(driver, threads=threads)
        asyncio.run(threaded.run())
        assert compacted(driver) == len(MANY)
        assert threaded._cleaner.last is not None
        threaded.stop()
        threaded.join()


def test_the_cleaner_can_be_disabled() -> None:
    driver = dirty()
    for off in (compaction(driver, enable=False), compaction(driver, threads=0)):
        asyncio.run(off.run())
        off.stop()
        off.join()
    assert compacted(driver) == 0


async def test_settings_change_while_it_runs() -> None:
    driver = dirty()
    changing = compaction(driver, threads=0)

    await changing.run()
    assert compacted(driver) == 0
    changing.use_config(BrokerConfig.parse({"log.cleaner.threads": 2}))
    await changing.run()
    changing.use_config(BrokerConfig.parse({"log.cleaner.threads": 3}))
    await changing.run()
    assert compacted(driver) == len(MANY)
    changing.stop()
    changing.join()


async def test_the_event_loop_runs_beside_a_cleaning_which_stop_ends_soon() -> None:
    """At one byte a second it takes hours."""
    driver = dirty()
    slow = compaction(driver, io_max_bytes_per_second=1)

    running = asyncio.create_task(slow.run())
    await eventually_async(lambda: slow._cleaner._busy, IsTrueLike)
    slow.stop()
    await running
    await slow.run()
    slow.join()
    assert compacted(driver) == 0
    assert driver.manager.logs[MANY[0]].offline is None


def test_a_broker_compacts_its_topics(tmp_path: Path) -> None:
    with BrokerDriver(tmp_path) as driver:
        driver.create("table", cleanup_policy="compact", segment_bytes="1000")
        log = driver.broker.partitions.get("table", 0).log
        for number in range(50):
            record = reference.Record(b"k%d" % (number % 3), b"x" * 60, timestamp=driver.clock.now_ms())
            log.append(bytearray(reference.write_batch(reference.Batch(records=(record,)))), leader_epoch=0)
        size = log.local.size_in_bytes
        driver.run(driver.broker.compaction.run())
        assert log.local.size_in_bytes < size / 3
        driver.run(run_periodic(driver.broker, "high watermark checkpoint"))
        checkpoints = {name for name in os.listdir(tmp_path) if name.endswith("-checkpoint")}
        assert checkpoints >= {"cleaner-offset-checkpoint", "replication-offset-checkpoint"}
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\ntable 0 50\n"
        assert driver.broker.compaction._cleaner.uncleanable == set()


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 2000}
    with BrokerDriver(tmp_path, settings) as driver:
        driver.create("t", partitions=3)
        for offset in range(60):
            commit_offset(driver, offset, offset % 3)
        log = driver.broker.partitions.get("__consumer_offsets", 0).log
        assert log.config.cleanup_policy == ("compact",)
        before = log.local.size_in_bytes
        driver.run(driver.broker.compaction.run())
        assert log.local.size_in_bytes < before / 3
        for _ in range(2):
            (topic,) = driver.ask(offset_fetch("t", 0, 1, 2, version=7), 7).topics
            assert [found.committed_offset for found in topic.partitions] == [57, 58, 59]
            driver.restart()
