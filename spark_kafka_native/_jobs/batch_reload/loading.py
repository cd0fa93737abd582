"""One load into files, from the plan to the new version. The order of its steps makes it exactly once.

1. Read the last version; plan. *Crash here*: nothing has been written.
2. Take a lease. *Crash here*: the lease expires; ``--clean`` removes it.
3. Run the tasks: each creates one durable file with a unique name. *Crash here*: files that no version names.
   Then check that topics and logs are still those of the plan (``bounds.check_unchanged``).
4. Publish (``versions.py``). *Crash before*: as after 3. *Crash after*: the load is complete.
5. Release the lease. *Crash here*: as after 2; the load is complete all the same.

The next run begins at 1 with the last version, so it loads the missing records and none twice.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native._jobs.batch_reload.leases import Lease
from spark_kafka_native._jobs.batch_reload.manifest import TAIL_ENTRIES, Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.merge import Load, Written, entries_of, next_version
from spark_kafka_native._jobs.batch_reload.plan import Plan
from spark_kafka_native._jobs.batch_reload.running import Runner, Watch
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.versions import LOADS, publish, with_all_entries
from spark_kafka_native._spark.planning.ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """The parameters of a load into files."""

    load_id: str
    base: Manifest | None
    plan: Plan
    format: StoredFormat
    task: Callable[[OffsetRange], Written]
    check: Callable[[], None]
    """Raises ReloadError if topics or logs have changed since the plan."""
    tail_entries: int = TAIL_ENTRIES


def load_files(
    storage: Storage, load: FileLoad, runner: Runner, watch: Watch, *, now_ms: Callable[[], float] | None = None
) -> Manifest:
    """Load and publish; the new version.

    Raises Conflict, ReloadError, OSError, and what the runner raises. No part of the load is visible then, except
    possibly after an OSError of publishing, whose text says so.
    """
    lease = Lease(storage, load.load_id)
    with lease.held():
        try:
            written = _run(load, runner, watch, lease)
            load.check()
            created_ms = round(now_ms() if now_ms else time.time() * 1000)
            done = Load(
                load_id=load.load_id,
                created_ms=created_ms,
                base=load.base,
                plan=load.plan,
                entries=entries_of(load.load_id, written, load.plan),
                format=load.format,
            )
        except BaseException:
            _tidy(storage, load.load_id)
            raise
        try:
            return publish_load(storage, done, tail_entries=load.tail_entries)
        except (Conflict, ReloadError):
            _tidy(storage, load.load_id)
            raise


def publish_load(storage: Storage, done: Load, *, tail_entries: int) -> Manifest:
    """Publish a run's entries after the newest version, which another run may have published meanwhile.

    Raises as ``publish``; after an OSError it is unknown whether the version was published.
    """

    def after(head: Manifest | None) -> Manifest:
        return next_version(head if head is None or done.continues else with_all_entries(storage, head), done)

    try:
        return publish(storage, done.base, after, tail_entries=tail_entries)
    except OSError as error:
        raise OSError(f"publishing failed, and it is unknown whether the version exists: {error}") from error


def _run(load: FileLoad, runner: Runner, watch: Watch, lease: Lease) -> list[Written]:
    def watch_and_live(done: int) -> None:
        lease.renew()
        watch(done)

    written: list[Written] = runner(load.task, load.plan.pieces, Written, watch_and_live)
    wanted = load.plan.pieces
    if sorted(map(_range, written)) != sorted(map(_range, wanted)):
        raise ReloadError(
            f"the ranges that the tasks have written ({len(written)}) are not the planned ones ({len(wanted)})"
        )
    return written


def _range(each: Any) -> tuple[str, int, int, int]:
    return each.topic, each.partition, each.from_offset, each.until_offset


def _tidy(storage: Storage, load_id: str) -> None:
    """Delete the files of a failed load; a clean deletes the rest."""
    with contextlib.suppress(Exception):  # the caller gets the first error; a clean deletes the rest
        for path in storage.list(f"{LOADS}/{load_id}"):
            storage.remove(path)
