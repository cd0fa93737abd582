"""The versions of a target: read the latest, publish the next. All it takes is one PUT that only one run can make.

A version is the file ``_manifests/<number, ten digits>.json``; readers take the highest. To publish is to **create**
the next number, which storage lets one run do. Steps, and what a crash leaves behind each:

1. The run's data files are durable. *Crash here*: files that no manifest names; nobody reads them, ``--clean`` takes
   them away, and the next run begins where the last version ends.
   With more entries than ``tail_entries``, these are written to parts among the run's files. *Crash here*: the same.
2. Create ``version + 1``. *Crash before*: as above. *After*: it is published; the same run again finds it done and goes
   on behind it. There is no between: the file is there as a whole or not at all.

If somebody else has created that number, their version is read. Where it leaves the partitions of this run as they were
(another topic was loaded, or the target cleaned), the run's files are added to it and the number after is tried.
Otherwise this run ends in ``Conflict``, and nothing of it is visible.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import crc32c

from spark_kafka_native.jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native.jobs.batch_reload.manifest import (
    TAIL_ENTRIES,
    Entry,
    Manifest,
    ManifestError,
    Part,
    by_partition,
    from_json,
    part_from_json,
    part_to_json,
    problems,
    to_json,
)
from spark_kafka_native.jobs.batch_reload.storage.storage import Storage, create_own

LOADS: Final = "_loads"
MANIFESTS: Final = "_manifests"
_NAME: Final = re.compile(rf"{MANIFESTS}/([0-9]{{10}})\.json")
_TRIES: Final = 20
"""How often in a row others may be quicker."""


def manifest_path(version: int) -> str:
    """The file of a version."""
    return f"{MANIFESTS}/{version:010d}.json"


def versions(storage: Storage) -> list[int]:
    """The versions that there are, ascending. Raises OSError."""
    return sorted(int(match[1]) for path in storage.list(MANIFESTS) if (match := _NAME.fullmatch(path)))


def read_version(storage: Storage, version: int | None = None) -> Manifest | None:
    """A version, by default the latest, without the entries in its parts; None: nothing has been published.

    Raises ReloadError, OSError.
    """
    for _ in range(_TRIES):
        present = versions(storage)
        if version is not None and version not in present:
            there = f"there are {present[0]} to {present[-1]}" if present else "nothing has been published"
            raise ReloadError(f"{storage.url} has no version {version}; {there}")
        if not present:
            return None
        wanted = present[-1] if version is None else version
        try:
            return _read(storage, wanted)
        except FileNotFoundError:
            continue  # cleaned between two looks; look again
    raise ReloadError(f"{storage.url}: versions go faster than they can be read")


def with_all_entries(storage: Storage, manifest: Manifest) -> Manifest:
    """A version without parts: all of its entries. Raises ReloadError: a part is gone or damaged; OSError."""
    if not manifest.parts:
        return manifest
    found = by_partition([*entries_of_parts(storage, manifest.parts), *manifest.entries])
    entries = tuple(entry for tp in found for entry in found[tp])
    return replace(manifest, entries=entries, parts=(), parts_until={})


def entries_of_parts(storage: Storage, parts: Iterable[Part]) -> list[Entry]:
    """The entries of parts. Raises ReloadError: one is gone or damaged; OSError."""
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
    """Make the next version, and return it, with the entries that were moved to parts in this version still in it.

    ``rebase(head)`` is what to publish behind ``head``, and raises Conflict if that cannot be. ``base`` is the latest
    version that the caller knew. Raises Conflict, ReloadError: the version was not made, or is deleted again; OSError,
    which alone may leave it open whether the version was made, and only if the storage cannot be read any more either.
    """
    head, wanted = base, None
    for _ in range(_TRIES):
        newest = versions(storage)
        if newest and (head is None or newest[-1] != head.version):
            head = _read(storage, newest[-1])
        if wanted is not None and head is not None and _includes(head, wanted):
            return wanted  # made by a PUT whose answer was lost, and cleaned before it was looked for
        wanted = rebase(head)
        if wrong := problems(wanted):
            raise ReloadError(f"the new version would be wrong, and is not published: {'; '.join(wrong[:3])}")
        if _create(storage, _rolled(storage, wanted, tail_entries)):
            _check_on_top(storage, wanted)
            return wanted
        head = None
    raise Conflict(f"{storage.url}: other runs have been quicker {_TRIES} times; run it again")


def _create(storage: Storage, wanted: Manifest) -> bool:
    """Whether the file is there now, and ours."""
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


def _make_part(storage: Storage, load_id: str, entries: Sequence[Entry]) -> Part:
    data = part_to_json(entries)
    path = f"{LOADS}/{load_id}/entries-{secrets.token_hex(8)}.json"
    create_own(storage, path, data)
    rows = sum(entry.rows for entry in entries)
    return Part(path=path, entries=len(entries), rows=rows, bytes=len(data), crc32c=crc32c.crc32c(data))


def _check_on_top(storage: Storage, wanted: Manifest) -> None:
    """Raise Conflict, and delete ``wanted``, if a later version is known not to include it.

    A run that slept while others made many versions, and cleaned, may have made one that is long past. A later version
    that cannot be read proves nothing: ``wanted`` stays, because that version may name its files.
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
        raise Conflict(f"{storage.url} has gone on to version {latest} without this run; run it again")


def _includes(head: Manifest, wanted: Manifest) -> bool:
    return any(made.load_id == wanted.load_id for made in head.history)


def _read(storage: Storage, version: int) -> Manifest:
    path = manifest_path(version)
    try:
        return from_json(storage.read(path), f"{storage.url}/{path}")
    except ManifestError as error:
        raise ReloadError(str(error)) from error
