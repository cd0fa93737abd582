"""All logs of a data directory on a disk in memory, driven in few words."""

import random
from typing import Any
from uuid import UUID

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import ManualClock, Platform, read_file
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.records.log_batches import NOW_MS, batch

TOPIC_ID = UUID(int=77)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=1000)


class ManagerDriver:
    """A data directory and the manager on it; ``disk`` is what is there, ``faults`` what may fail on the way."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.disk = MemoryFileSystem(self.clock)
        self.faults = FaultyFileSystem(self.disk)
        self.manager = self.new_manager()
        self.manager.load_all()
        self.faults.revive()

    def new_manager(self, **options: Any) -> LogManager:
        platform = Platform(clock=self.clock, file_system=self.faults, max_open_files=8)
        return LogManager("/data", SMALL, platform, **options)

    def start(self, configs: dict[str, LogConfig] | None = None, **options: Any) -> None:
        self.manager = self.new_manager(**options)
        self.manager.load_all(configs)

    def restart(self) -> None:
        self.manager.close()
        self.start()

    def kill(self) -> None:
        """Stop the process without closing anything, and start again."""
        self.disk.restart()
        self.start()

    def crash(self, chance: random.Random | None = None) -> None:
        """Stop the machine, and start again."""
        self.disk.crash(chance)
        self.faults.revive()
        self.start()

    def create(self, partition: TopicPartition, records: int = 0) -> None:
        """Create a partition's log, and append some records."""
        self.manager.create_all([partition], TOPIC_ID)
        self.append(partition, records)

    def append(self, partition: TopicPartition, count: int = 1) -> None:
        log = self.manager.get(partition)
        assert log is not None
        for _ in range(count):
            log.append(batch(b"%06d" % log.log_end_offset, timestamps=self.clock.now_ms()), leader_epoch=0)

    def ends(self) -> dict[str, int]:
        return {str(partition): log.log_end_offset for partition, log in self.manager.logs.items()}

    def names(self) -> list[str]:
        return [entry.name for entry in self.disk.list_directory("/data")]

    def text(self, name: str) -> str:
        return read_file(self.disk, f"/data/{name}").decode()
