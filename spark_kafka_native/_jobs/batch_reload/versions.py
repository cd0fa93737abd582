"""The versions of a target: read the latest, publish the next with one PUT that only one run can make.

A version is the file ``_manifests/<number, ten digits>.json``; readers use the highest number. A run publishes by
**creating** the file of the next number, which succeeds for one run only. Steps:

1. The run's data files are durable. *Crash here*: no manifest names these files; ``--clean`` deletes them, and the next
   run begins where the last version ends. If there are more entries than ``tail_entries``, they are written to parts
   among the run's files. *Crash here*: the same.
2. Create ``version + 1`` atomically. *Crash before*: as above. *Crash after*: the version is published; the next run
   continues after it.

If another run has created that number, its version is read. If it has not changed the partitions of this run (it has
loaded another topic, or cleaned the target), this run's files are added to it and the next number is tried. Otherwise
this run fails with ``Conflict``, and no part of it is visible.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import crc32c

from spark_kafka_native._jobs.batch_reload.errors import Conflict, ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.manifest import (
    TAIL_ENTRIES,
    Entry,
    Manifest,
    ManifestError,
    ManifestPart,
    by_partition,
    from_json,
    part_from_json,
    part_to_json,
    problems,
    to_json,
)
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage, create_own

LOADS: Final = "_loads"
MANIFESTS: Final = "_manifests"
_NAME: Final = re.compile(rf"{MANIFESTS}/([0-9]{{10}})\.json")
_TRIES: Final = 20
"""Most attempts to create a number before other runs."""


def manifest_path(version: int) -> str:
    """The file of a version."""
    return f"{MANIFESTS}/{version:010d}.json"


def versions(storage: Storage) -> list[int]:
    """The existing versions, ascending. Raises OSError."""
    return sorted(int(match[1]) for path in storage.list(MANIFESTS) if (match := _NAME.fullmatch(path)))


def read_version(storage: Storage, version: int | None = None) -> Manifest | None:
    """A version, by default the latest, without the entries in its parts; None: nothing has been published.

    Raises UsageError: there is no such version; ReloadError, OSError.
    """
    for _ in range(_TRIES):
        present = versions(storage)
        if version is not None and version not in present:
            there = f"its versions are {present[0]} to {present[-1]}" if present else "nothing has been published"
            raise UsageError(f"{storage.url} does not have version {version}; {there}")
        if not present:
            return None
        wanted = present[-1] if version is None else version
        try:
            return _read(storage, wanted)
        except FileNotFoundError:
            continue  # cleaned after the listing
    raise ReloadError(f"{storage.url}: versions are deleted faster than they can be read")


def with_all_entries(storage: Storage, manifest: Manifest) -> Manifest:
    """A version with all entries of its parts. Raises ReloadError: a part is missing or damaged; OSError."""
    if not manifest.parts:
        return manifest
    found = by_partition([*entries_of_parts(storage, manifest.parts), *manifest.entries])
    entries = tuple(entry for tp in found for entry in found[tp])
    return replace(manifest, entries=entries, parts=(), parts_until={})


def entries_of_parts(storage: Storage, parts: Iterable[ManifestPart]) -> list[Entry]:
    """The entries of parts. Raises ReloadError: one is missing or damaged; OSError."""
    entries: list[Entry] = []
    for part in parts:
        name = f"{storage.url}/{part.path}"
        try:
            data = storage.read(part.path)
        except FileNotFoundError:
            raise ReloadError(
                f"{name}: this part of a version does not exist; --clean removes versions and parts"
            ) from None
        if (len(data), crc32c.crc32c(data)) != (part.bytes, part.crc32c):
            raise ReloadError(f"{name}: damaged: its bytes are not those that were written")
        try:
            entries += part_from_json(data, name)
        except ManifestError as error:
            raise ReloadError(str(error)) from error
    return entries


def publish(
    storage: Storage,
    base: Manifest | None,
    rebase: Callable[[Manifest | None], Manifest],
    *,
    tail_entries: int = TAIL_ENTRIES,
) -> Manifest:
    """Create and return the next version, including the entries that this version has moved to parts.

    ``rebase(head)`` returns the version to publish after ``head``, or raises Conflict. ``base`` is the latest version
    that the caller knows. Raises Conflict, ReloadError: the version was not created, or was deleted again; OSError: it
    is unknown whether the version was created, if the storage cannot be read any more either.
    """
    head, wanted = base, None
    for _ in range(_TRIES):
        newest = versions(storage)
        if newest and (head is None or newest[-1] != head.version):
            head = _read(storage, newest[-1])
        if wanted is not None and head is not None and _includes(head, wanted):
            return wanted  # created by a PUT whose response was lost, and cleaned since
        wanted = rebase(head)
        if wrong := problems(wanted):
            raise ReloadError(f"the new version would be invalid and is not published: {'; '.join(wrong[:3])}")
        if _create(storage, _rolled(storage, wanted, tail_entries)):
            _check_on_top(storage, wanted)
            return wanted
        head = None
    raise Conflict(f"{storage.url}: other runs have published {_TRIES} versions meanwhile; run it again")


def _create(storage: Storage, wanted: Manifest) -> bool:
    """Whether the file exists now and is this run's."""
    try:
        create_own(storage, manifest_path(wanted.version), to_json(wanted))
    except FileExistsError:
        return False
    return True


def _rolled(storage: Storage, manifest: Manifest, tail_entries: int) -> Manifest:
    """The version, its entries in parts if there are too many. ``--clean`` removes parts that no version names."""
    if len(manifest.entries) <= tail_entries:
        return manifest
    starts = range(0, len(manifest.entries), tail_entries)
    chunks = [manifest.entries[start : start + tail_entries] for start in starts]
    parts = [_make_part(storage, manifest.load_id, entries) for entries in chunks]
    until = {tp: entries[-1].until_offset for tp, entries in by_partition(manifest.entries).items()}
    return replace(manifest, entries=(), parts=(*manifest.parts, *parts), parts_until={**manifest.parts_until, **until})


def _make_part(storage: Storage, load_id: str, entries: Sequence[Entry]) -> ManifestPart:
    data = part_to_json(entries)
    path = f"{LOADS}/{load_id}/entries-{secrets.token_hex(8)}.json"
    create_own(storage, path, data)
    rows = sum(entry.rows for entry in entries)
    return ManifestPart(path=path, entries=len(entries), rows=rows, bytes=len(data), crc32c=crc32c.crc32c(data))


def _check_on_top(storage: Storage, wanted: Manifest) -> None:
    """Raise Conflict, and delete ``wanted``, if a later version is known not to include it.

    A run that was suspended while other runs published many versions, and cleaned, may create an old number. If a later
    version cannot be read, ``wanted`` is kept, because that version may name its files.
    """
    latest = max(versions(storage), default=wanted.version)
    if latest <= wanted.version:  # lower: a listing that does not show the new version yet
        return
    try:
        head = _read(storage, latest)
    except ReloadError:
        return
    if not _includes(head, wanted):
        storage.remove(manifest_path(wanted.version))
        raise Conflict(f"{storage.url} has version {latest} without this run; run it again")


def _includes(head: Manifest, wanted: Manifest) -> bool:
    return any(made.load_id == wanted.load_id for made in head.history)


def _read(storage: Storage, version: int) -> Manifest:
    path = manifest_path(version)
    try:
        return from_json(storage.read(path), f"{storage.url}/{path}")
    except ManifestError as error:
        raise ReloadError(str(error)) from error
