"""Verification of a version: the offsets of its entries, the checksums of its files, the number of its rows.

Every file is read again and its CRC-32C compared, and the records of its range are counted in the topic. If the topic
no longer has all of them, or was deleted and created again, they are not counted, which is no error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

import crc32c

from spark_kafka_native._jobs.batch_reload.manifest import Entry, Manifest, What, problems
from spark_kafka_native._jobs.batch_reload.running import Runner, Watch
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.ranges import range_of
from spark_kafka_native._spark.source.layout import Layout
from spark_kafka_native._spark.source.reader import read_ranges

_CHUNK_BYTES: Final = 1 << 22
MAX_TASKS: Final = 1000
_TASK_BYTES: Final = 1 << 26
"""Least bytes of a task, so that its start takes a small part of its time."""
_ENTRY_BYTES: Final = 1 << 20
"""Bytes that take as long to read as opening a file and requesting its range."""


class RangeVerdict(StrEnum):
    """The result of checking one range."""

    SAME = "same"
    """The file is as written, and the topic has as many records."""
    AGED_OUT = "aged out"
    """The file is as written; the topic no longer has all of its records, so they were not counted."""
    RECREATED = "topic recreated"
    """The file is as written; the topic has another id now, so its records were not counted."""
    COMPACTED = "compacted since"
    """The file is as written; the topic, which is compacted, has fewer records now."""
    NOT_KEPT = "not in a file"
    """Lost before it was loaded, as the manifest says, or appended elsewhere."""
    DIFFERENT = "different"
    """The topic has another number of records than the file."""
    MISSING = "missing"
    """There is no such file."""
    DAMAGED = "damaged"
    """The file's bytes are not those that were written."""

    @property
    def correct(self) -> bool:
        """Whether it is no error."""
        return self not in {RangeVerdict.DIFFERENT, RangeVerdict.MISSING, RangeVerdict.DAMAGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of one range; strings and integers, as tasks return them."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    path: str
    verdict: str
    rows: int
    """As the manifest has it."""
    counted: int
    """In the topic; -1: not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGroup:
    """The result of one task: a list of ``Checked`` as JSON, because tasks return strings and integers."""

    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result for a version."""

    version: int
    problems: tuple[str, ...]
    """Errors in the manifest."""
    checked: tuple[Checked, ...]
    """By partition and offset."""

    @property
    def counted(self) -> int:
        """Number of ranges whose records were counted in the topic."""
        return sum(each.counted >= 0 for each in self.checked)

    @property
    def correct(self) -> bool:
        """Whether there is no error."""
        return not self.problems and all(RangeVerdict(each.verdict).correct for each in self.checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyJob:
    """The parameters of all tasks of a check; picklable."""

    location: StorageLocation
    source: SourceOptions
    layout: Layout
    first: Mapping[TopicPartition, int]
    """First offsets of existing partitions whose topic has the loaded topic id."""
    recreated: frozenset[str]
    """Topics whose id is not the loaded one."""
    compacted: frozenset[str]
    """Compacted topics."""

    def run(self, entries: Sequence[Entry]) -> CheckedGroup:
        """Check the ranges of one task. Raises TaskError, OSError."""
        storage = self.location.open()
        checked = [
            check_entry(
                storage,
                entry,
                self._count(entry),
                recreated=entry.topic in self.recreated,
                compacted=entry.topic in self.compacted,
            )
            for entry in entries
        ]
        return CheckedGroup(checked=json.dumps([asdict(each) for each in checked]))

    def _count(self, entry: Entry) -> int | None:
        tp = entry.topic_partition
        if entry.what not in {What.FILE, What.EMPTY} or entry.from_offset < self.first.get(tp, entry.until_offset):
            return None
        piece = range_of(tp, entry.from_offset, entry.until_offset)
        try:
            return sum(batch.num_rows for batch in read_ranges(self.source, self.layout, [piece]))
        except DataLossError:
            return None  # its records were deleted meanwhile


def grouped(entries: Sequence[Entry], max_tasks: int = MAX_TASKS) -> list[tuple[Entry, ...]]:
    """The entries of each task, in order, with about the same bytes to read; at most ``max_tasks`` + 1 tasks."""
    costs = [entry.bytes + _ENTRY_BYTES for entry in entries]
    enough = max(sum(costs) / max_tasks, _TASK_BYTES)
    groups: list[tuple[Entry, ...]] = []
    group: list[Entry] = []
    cost = 0
    for entry, entry_cost in zip(entries, costs, strict=True):
        group.append(entry)
        cost += entry_cost
        if cost >= enough:
            groups.append(tuple(group))
            group, cost = [], 0
    return [*groups, tuple(group)] if group else groups


def check_version(
    manifest: Manifest, groups: Sequence[Sequence[Entry]], job: VerifyJob, runner: Runner, watch: Watch
) -> Report:
    """Check all of a version, a task for each of ``groups``. Raises what the runner raises.

    ``manifest`` has all of its entries in it, and ``groups`` are those (``grouped``).
    """
    found: Sequence[CheckedGroup] = runner(job.run, groups, CheckedGroup, watch)
    checked = [Checked(**each) for group in found for each in json.loads(group.checked)]
    by_offset = sorted(checked, key=lambda each: (each.topic, each.partition, each.from_offset))
    return Report(version=manifest.version, problems=tuple(problems(manifest)), checked=tuple(by_offset))


def check_entry(
    storage: Storage, entry: Entry, counted: int | None, *, recreated: bool = False, compacted: bool = False
) -> Checked:
    """The result of one range; ``counted``: its records in the topic, None: the topic does not have all of them."""
    return Checked(
        topic=entry.topic,
        partition=entry.partition,
        from_offset=entry.from_offset,
        until_offset=entry.until_offset,
        path=entry.path,
        verdict=_verdict(storage, entry, counted, recreated=recreated, compacted=compacted).value,
        rows=entry.rows,
        counted=-1 if counted is None else counted,
    )


def _verdict(storage: Storage, entry: Entry, counted: int | None, *, recreated: bool, compacted: bool) -> RangeVerdict:
    if entry.what in {What.LOST, What.APPENDED}:
        return RangeVerdict.NOT_KEPT
    if entry.what is What.FILE:
        try:
            if _is_damaged(storage, entry):
                return RangeVerdict.DAMAGED
        except FileNotFoundError:
            return RangeVerdict.MISSING
    if counted is None:
        return RangeVerdict.RECREATED if recreated else RangeVerdict.AGED_OUT
    if counted == entry.rows:
        return RangeVerdict.SAME
    return RangeVerdict.COMPACTED if compacted and counted < entry.rows else RangeVerdict.DIFFERENT


def _is_damaged(storage: Storage, entry: Entry) -> bool:
    size = checksum = 0
    with storage.open_input(entry.path) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            checksum = crc32c.crc32c(chunk, checksum)
    return (size, checksum) != (entry.bytes, entry.crc32c)
