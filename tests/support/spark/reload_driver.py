"""A target and the topics that are loaded into it, for tests of batch loads: no Spark, no cluster, real files.

    driver.produce("t", 0, 10)
    driver.load()
    assert driver.records() == driver.produced()

A record is its topic, partition and offset.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._jobs.batch_reload.bounds import (
    check_unchanged,
    resolve_wanted,
)
from spark_kafka_native._jobs.batch_reload.clean import Unneeded, clean
from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.formats import file_format
from spark_kafka_native._jobs.batch_reload.leases import new_load_id
from spark_kafka_native._jobs.batch_reload.loading import FileLoad, load_files
from spark_kafka_native._jobs.batch_reload.manifest import TAIL_ENTRIES, Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.merge import Written
from spark_kafka_native._jobs.batch_reload.plan import Plan, make_plan
from spark_kafka_native._jobs.batch_reload.running import Runner, Watch
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.versions import read_version, with_all_entries
from spark_kafka_native._jobs.batch_reload.writing import write_piece
from spark_kafka_native._jobs.points import Point, cluster_state, parse_point
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.ranges import OffsetRange
from tests.support.spark.fake_offsets import FakeCluster

Record = tuple[str, int, int]

COLUMNS = (("topic", "string"), ("partition", "int"), ("offset", "bigint"))
JSON = StoredFormat(name="json", columns=COLUMNS)
NOW_S = 1_790_000_000.0


def run_here(task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
    """A runner without Spark: one task after the other in this process."""
    done: list[Any] = []
    for item in items:
        done.append(task(item))
        if not isinstance(done[-1], result):
            raise ReloadError(f"a task returned {type(done[-1]).__name__}, not {result.__name__}")
        watch(len(done))
    return done


class ReloadDriver:
    """Topics of a fake cluster, a directory, and runs of the job."""

    def __init__(self, root: Path, storage: Storage | None = None) -> None:
        self.root = root
        self.storage: Storage = storage or LocalStorage(str(root))
        self.cluster = FakeCluster()
        self.tail_entries = TAIL_ENTRIES
        """Entries that a manifest has in itself."""
        self.invisible: set[Record] = set()
        """Offsets without a record, as transactions and compaction leave them."""

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append records; makes topic and partition if they are not there."""
        tp = TopicPartition(topic, partition)
        self.cluster.first.setdefault(tp, 0)
        self.cluster.end.setdefault(tp, 0)
        self.cluster.produce(topic, partition, count)

    def age_out(self, topic: str, partition: int, first: int) -> None:
        """Delete the records before an offset."""
        self.cluster.first[TopicPartition(topic, partition)] = first

    def produced(self, *, whole: bool = False) -> list[Record]:
        """The records of the topics, ``whole`` with those that are deleted."""
        return sorted(
            (tp.topic, tp.partition, offset)
            for tp, end in self.cluster.end.items()
            for offset in range(0 if whole else self.cluster.first[tp], end)
            if (tp.topic, tp.partition, offset) not in self.invisible
        )

    def plan(self, base: Manifest | None, start: str | None = None, until: str | None = None, **said: object) -> Plan:
        """What a run would do."""
        limits = {key: value for key, value in said.items() if key != "accept_loss"}
        state = cluster_state(self.cluster, sorted(self.cluster.end))
        wanted = resolve_wanted(
            self.cluster, state, _point(start), _point(until), accept_loss=bool(said.get("accept_loss"))
        )
        return make_plan(base, state, wanted, **limits)  # type: ignore[arg-type]  # the limits of tests are integers

    def load(
        self,
        start: str | None = None,
        until: str | None = None,
        *,
        storage: Storage | None = None,
        runner: Runner = run_here,
        before_task: Callable[[OffsetRange], None] = lambda _: None,
        load_id: str | None = None,
        **said: object,
    ) -> Manifest | None:
        """A run of the job; None: there was nothing to load."""
        place = storage or self.storage
        base = read_version(place)
        if base is not None and start is not None:
            base = with_all_entries(place, base)
        plan = self.plan(base, start, until, **said)
        if not plan.changes(base):
            return None
        name = load_id or new_load_id(NOW_S)

        def task(piece: OffsetRange) -> Written:
            before_task(piece)
            return write_piece(place, file_format("json", None), name, piece, self.read(piece))

        load = FileLoad(
            load_id=name,
            base=base,
            plan=plan,
            format=JSON,
            task=task,
            check=self.check_of(plan),
            tail_entries=self.tail_entries,
        )
        return load_files(place, load, runner, lambda _: None, now_ms=lambda: NOW_S * 1000)

    def check_of(self, plan: Plan) -> Callable[[], None]:
        """What a run checks before it publishes."""
        return lambda: check_unchanged(self.cluster, plan)

    def clean(self, *, lease_s: float = -1.0, keep_versions: int = 1, storage: Storage | None = None) -> Unneeded:
        """A clean; by default every run that has not published is taken for dead."""
        return clean(storage or self.storage, now_s=NOW_S, lease_s=lease_s, keep_versions=keep_versions)

    def read(self, piece: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The records of a range, in batches of seven."""
        rows = [
            {"topic": piece.topic, "partition": piece.partition, "offset": offset}
            for offset in range(piece.from_offset, piece.until_offset)
            if (piece.topic, piece.partition, offset) not in self.invisible
        ]
        for start in range(0, len(rows), 7):
            yield pa.RecordBatch.from_pylist(rows[start : start + 7])

    def version(self, number: int | None = None) -> Manifest:
        """What has been published, with all entries."""
        manifest = self.stored_version(number)
        assert manifest is not None
        return with_all_entries(self.storage, manifest)

    def stored_version(self, number: int | None = None) -> Manifest | None:
        """As ``version``, as it is stored; None: nothing has been published."""
        return read_version(self.storage, number)

    def records(self, version: int | None = None) -> list[Record]:
        """What a reader of a version finds, with what it would find twice."""
        found: list[Record] = []
        with contextlib.suppress(AssertionError):
            for entry in self.version(version).files:
                lines = [json.loads(line) for line in self.storage.read(entry.path).splitlines()]
                assert len(lines) == entry.rows, entry
                found += [(line["topic"], line["partition"], line["offset"]) for line in lines]
        return sorted(found)

    def unnamed_files(self) -> list[str]:
        """Files that the latest version does not name, half-made ones and leases included."""
        stored = self.stored_version()
        assert stored is not None
        named = {entry.path for entry in self.version().files} | {part.path for part in stored.parts}
        named |= {f"_manifests/{stored.version:010d}.json"}
        return sorted(set(self.storage.list("")) - named)


def _point(text: str | None) -> Point | None:
    return None if text is None else parse_point(text)


@pytest.fixture
def driver(tmp_path: Path) -> ReloadDriver:
    """Nothing produced, nothing loaded."""
    return ReloadDriver(tmp_path / "target")
