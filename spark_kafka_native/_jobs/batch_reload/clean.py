"""Deletes files that no version needs: files of dead runs, of failed attempts, and of versions that are not kept.

A run is dead when its lease, or its newest file if it has none, is older than ``lease_s``. A suspended run can look
dead, so such a run is first prevented from publishing. Steps:

1. List versions, leases and files; decide.
2. Publish a version with the content of the last one that names the dead runs. A dead run that resumes finds its number
   used, reads this version, finds itself named, and fails. *Crash after this*: the next clean continues.
3. Remove leases of dead runs, then versions that are not kept, oldest first, then files that no kept version names.
   *Crash here*: the next clean finds the remaining files, which no version names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native._jobs.batch_reload.leases import LEASES, Lease, new_load_id, other_runs
from spark_kafka_native._jobs.batch_reload.manifest import HISTORY_LENGTH, NO_FORMAT, Manifest
from spark_kafka_native._jobs.batch_reload.merge import with_history
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage, Stored, is_whole
from spark_kafka_native._jobs.batch_reload.versions import (
    LOADS,
    MANIFESTS,
    entries_of_parts,
    manifest_path,
    publish,
    read_version,
    versions,
)

_OF_LOAD: Final = re.compile(rf"{LOADS}/([^/]+)/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """The files that a clean deletes."""

    dead_loads: tuple[str, ...]
    versions: tuple[int, ...]
    files: tuple[str, ...]
    leases: tuple[str, ...]
    bytes: int


def clean(storage: Storage, *, now_s: float, lease_s: float, keep_versions: int) -> Unneeded:
    """Clean a target and return the deleted files. Safe while loads run. Raises ReloadError, OSError."""
    head = read_version(storage)
    own_id = new_load_id(now_s)
    lease = Lease(storage, own_id)
    with lease.held():
        storage_now_s = lease.written_at_s()
        found = find_unneeded(storage, storage_now_s, lease_s=lease_s, keep_versions=keep_versions, own_id=own_id)
        if found.dead_loads:
            _expel(storage, head, found, own_id, round(now_s * 1000))
        for path in (*found.leases, *map(manifest_path, found.versions), *found.files):
            storage.remove(path)
        return found


def find_unneeded(storage: Storage, now_s: float, *, lease_s: float, keep_versions: int, own_id: str = "") -> Unneeded:
    """The files that can be deleted, by the storage's clock. The lease of ``own_id`` is the caller's."""
    # Leases first: a run without a lease has published by now, which is read below, or never will.
    leases = {run.load_id: run.age_s for run in other_runs(storage, own_id, now_s)}
    files = storage.list(LOADS)
    present = versions(storage)
    going = present[:-keep_versions]
    kept = _kept(storage, present[-keep_versions:])
    parts = {part.path: part for manifest in kept for part in manifest.parts}
    entries = {entry for manifest in kept for entry in manifest.entries}.union(
        entries_of_parts(storage, parts.values())
    )
    published = {entry.load_id for entry in entries}
    published |= {made.load_id for manifest in kept for made in manifest.history}
    named = {entry.path for entry in entries} | parts.keys()
    live = _live(leases, files, published, now_s, lease_s)
    doomed = {path: stored for path, stored in files.items() if path not in named and _load_of(path) not in live}
    dead = {_load_of(path) for path in doomed} | leases.keys()
    half_made = {
        path: stored
        for folder in (MANIFESTS, LEASES)
        for path, stored in storage.list(folder).items()
        if not is_whole(path) and now_s - stored.modified_s > lease_s
    }
    return Unneeded(
        dead_loads=tuple(sorted(dead - live - published)),
        versions=tuple(going),
        files=(*sorted(doomed), *sorted(half_made)),
        leases=tuple(f"{LEASES}/{load}.json" for load, age_s in sorted(leases.items()) if age_s > lease_s),
        bytes=sum(stored.size for stored in (*doomed.values(), *half_made.values())),
    )


def _kept(storage: Storage, numbers: Iterable[int]) -> list[Manifest]:
    manifests = [read_version(storage, number) for number in numbers]
    if any(manifest is None for manifest in manifests):
        raise ReloadError(f"{storage.url} is being cleaned by another run")
    return [manifest for manifest in manifests if manifest is not None]


def _live(
    leases: Mapping[str, float], files: Mapping[str, Stored], published: set[str], now_s: float, lease_s: float
) -> set[str]:
    """Runs that may still publish. A run that has just begun may not have a lease yet."""
    newest: dict[str, float] = {}
    for path, stored in files.items():
        newest[_load_of(path)] = max(newest.get(_load_of(path), 0.0), stored.modified_s)
    live = {load for load, age_s in leases.items() if age_s <= lease_s}
    live |= {load for load, time_s in newest.items() if load not in leases and now_s - time_s <= lease_s}
    return live - published


def _load_of(path: str) -> str:
    match = _OF_LOAD.fullmatch(path)
    return match[1] if match else ""


def _expel(storage: Storage, base: Manifest | None, found: Unneeded, load_id: str, created_ms: int) -> None:
    def after(head: Manifest | None) -> Manifest:
        current = head or Manifest(version=0, load_id="", kind="", created_ms=0, format=NO_FORMAT)
        if returned := set(found.dead_loads) & {made.load_id for made in current.history}:
            raise Conflict(f"{storage.url}: run {min(returned)} has resumed and published; clean again")
        removed = sorted({*current.removed_loads, *found.dead_loads})[-HISTORY_LENGTH:]
        made = replace(
            current,
            version=current.version + 1,
            load_id=load_id,
            kind="clean",
            created_ms=created_ms,
            removed_loads=tuple(removed),
        )
        return with_history(made, head)

    publish(storage, base, after)
