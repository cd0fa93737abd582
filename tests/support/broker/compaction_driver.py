"""A compacted log on a disk in memory, driven in few words, and read back by a codec that is not the product's."""

import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.appender import AppendResult
from broker_embedded._log.cleaner.log_cleaner import LogCleaner
from broker_embedded._log.log import Log
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import ManualClock, Platform
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import iter_batches
from spark_kafka_native._records.control import ControlType
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash
from tests.support.broker.log_driver import batches_of
from tests.support.records import reference
from tests.support.records.log_batches import NOW_MS
from tests.support.records.record_batches import marker

PARTITION = TopicPartition("t", 0)
DATA_DIR = "/data"
DIRECTORY = "/data/t-0"
TOPIC_ID = UUID(int=7)
EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "index.interval.bytes": "100"}
"""Settings under which everything that may be compacted is."""

Row = tuple[int, str | None, str | None]
"""Offset, key and value of a record."""


class CompactionDriver:
    """One compacted log, and a cleaner. ``written`` is every record ever appended."""

    def __init__(self, settings: Mapping[str, object] | None = None, cleaner: CleanerConfig | None = None) -> None:
        self.config = LogConfig.parse({**EAGER, **(settings or {})})
        self.cleaner_config = cleaner or CleanerConfig()
        self.clock = ManualClock(NOW_MS)
        self.disk = MemoryFileSystem(self.clock)
        self.faults = FaultyFileSystem(self.disk)
        self.written: list[Row] = []
        self.start()
        self.manager.create_all([PARTITION], TOPIC_ID, self.config)

    def start(self) -> None:
        """Open what is on the disk."""
        self.platform = Platform(clock=self.clock, file_system=self.faults, max_open_files=4)
        self.manager = LogManager(DATA_DIR, self.config, self.platform)
        self.manager.load_all()
        self.cleaner = LogCleaner(self.manager, self.platform, self.cleaner_config)

    def restart(self, *, clean: bool = True) -> None:
        """Stop, in order or not, and start again."""
        if clean:
            self.manager.close()
        self.disk.restart()
        self.start()

    def crash(self, chance: random.Random | None = None) -> None:
        """Stop the machine; what was not synced is lost, or with ``chance`` a part of it. Start again."""
        self.disk.crash(chance)
        self.faults.revive()
        self.faults.heal()
        self.start()

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(
        self, *records: tuple[str | None, str | None], codec: int = reference.NONE, **fields: Any
    ) -> AppendResult:
        """Append a batch of records with these keys and values; ``fields`` as of the reference's Batch."""
        now, first = self.clock.now_ms(), self.log.log_end_offset
        batch = reference.Batch(
            records=tuple(
                reference.Record(_bytes(key), _bytes(value), timestamp=now, offset=index)
                for index, (key, value) in enumerate(records)
            ),
            codec=codec,
            **fields,
        )
        result = self._append(bytearray(reference.write_batch(batch)), AppendConditions(verified=True))
        self.written += [(first + index, key, value) for index, (key, value) in enumerate(records)]
        return result

    def put(self, **records: str | None) -> AppendResult:
        """Append a batch; ``put(a="1", b=None)`` sets a and deletes b."""
        return self.write(*records.items())

    def send(self, producer_id: int, sequence: int, **records: str | None) -> AppendResult:
        """As ``put``, by an idempotent producer."""
        return self.write(*records.items(), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    def send_in_transaction(self, producer_id: int, sequence: int, **records: str | None) -> AppendResult:
        """As ``send``, in the producer's open transaction or a new one."""
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        return self.write(*records.items(), transactional=True, **fields)

    def end(self, producer_id: int, *, abort: bool = False, epoch: int = 0) -> AppendResult:
        """End a producer's transaction."""
        kind = ControlType.ABORT if abort else ControlType.COMMIT
        return self._append(
            marker(kind, producer_id, producer_epoch=epoch, timestamp_ms=self.clock.now_ms()),
            AppendConditions(origin=AppendOrigin.COORDINATOR),
        )

    def _append(self, batch: bytearray, conditions: AppendConditions) -> AppendResult:
        return self.log.append(batch, leader_epoch=0, conditions=conditions)

    def roll(self) -> None:
        """End the active segment."""
        self.log.local.roll()

    def clean(self) -> int:
        """Compact until there is nothing to compact; how many times that was."""
        count = 0
        while self.cleaner.clean_one():
            count += 1
        return count

    def crash_while_cleaning(self, step: int, chance: random.Random | None = None) -> None:
        """Stop the machine at a step of a compaction, if that has so many, and start again."""
        self.log.local.flush()
        self.manager.checkpoint_recovery_points()
        self.faults.steps, self.faults.crash_at = [], step
        with suppress(SimulatedCrash):
            self.clean()
        self.faults.crash_at = None
        self.crash(chance)

    def compact(self) -> None:
        """Roll and compact, so that all that was written is compacted."""
        self.roll()
        assert self.clean() > 0

    # --- looking -----------------------------------------------------------------------------------------------------

    def batches(self) -> list[reference.Batch]:
        """Every batch from the log's start on."""
        return [reference.read_batch(data) for _, data in batches_of(self.log, self.log.log_start_offset)]

    def rows(self) -> list[Row]:
        """Every record but markers."""
        return [
            (record.offset, _text(record.key), _text(record.value))
            for batch in self.batches()
            if not batch.control
            for record in batch.records
        ]

    def table(self) -> dict[str | None, str | None]:
        """The last value of each key, tombstones left out."""
        last = {key: value for _, key, value in self.rows()}
        return {key: value for key, value in last.items() if value is not None}

    def files(self) -> dict[str, int]:
        """Names and sizes in the log's directory."""
        return {entry.name: entry.size for entry in self.disk.list_directory(DIRECTORY)}

    def segment_bytes(self) -> list[bytes]:
        """What is in each ``.log`` file, the oldest first."""
        found = []
        for name in sorted(self.files()):
            if name.endswith(".log"):
                file = self.disk.open(f"{DIRECTORY}/{name}")
                found.append(file.read_at(0, file.size()))
        return found

    def check_segments(self) -> None:
        """Every file of the log holds whole batches, ascending, up to where the next one begins."""
        bases = (*self.log.local.view.bases, self.log.log_end_offset)
        for index, data in enumerate(self.segment_bytes()):
            offset = bases[index]
            for position, header in iter_batches(data):
                reference.read_batch(data[position : position + header.size_in_bytes])
                assert header.base_offset >= offset
                offset = header.next_offset
            assert offset <= bases[index + 1], (
                f"segment {index} ends at {offset}, the next one begins at {bases[index + 1]}"
            )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
