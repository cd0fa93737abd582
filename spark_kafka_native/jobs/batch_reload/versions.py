"""The versions of a target: read the latest, publish the next. All it takes is one PUT that only one run can make.

A version is the file ``_manifests/<number, ten digits>.json``; readers take the highest. To publish is to **create**
the next number, which storage lets one run do. Steps, and what a crash leaves behind each:

1. The run's data files are durable. *Crash here*: files that no manifest names; nobody reads them, ``--clean`` takes
   them away, and the next run begins where the last version ends.
2. Create ``version + 1``. *Crash before*: as above. *After*: it is published; the same run again finds it done and goes
   on behind it. There is no between: the file is there as a whole or not at all.

If somebody else has created that number, their version is read. Where it leaves the partitions of this run as they were
(another topic was loaded, or the target cleaned), the run's files are added to it and the number after is tried.
Otherwise this run ends in ``Conflict``, and nothing of it is visible.
"""

import re
from collections.abc import Callable
from typing import Final

from spark_kafka_native.jobs.batch_reload.errors import Conflict, ReloadError
from spark_kafka_native.jobs.batch_reload.manifest import Manifest, ManifestError, from_json, problems, to_json
from spark_kafka_native.jobs.batch_reload.storage import Storage

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
    """A version, by default the latest; None: nothing has been published. Raises ReloadError, OSError."""
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


def publish(storage: Storage, base: Manifest | None, rebase: Callable[[Manifest | None], Manifest]) -> Manifest:
    """Make the next version, and return it.

    ``rebase(head)`` is what to publish behind ``head``, and raises Conflict if that cannot be. ``base`` is the latest
    version that the caller knew. Raises Conflict, ReloadError, OSError; only an OSError may leave it open whether the
    version was made, and then only if the storage cannot be read any more either.
    """
    head = base
    for _ in range(_TRIES):
        newest = versions(storage)
        if newest and (head is None or newest[-1] != head.version):
            head = _read(storage, newest[-1])
        wanted = rebase(head)
        if wrong := problems(wanted):
            raise ReloadError(f"the new version would be wrong, and is not published: {'; '.join(wrong[:3])}")
        if _create(storage, wanted):
            _check_on_top(storage, wanted)
            return wanted
        head = None
    raise Conflict(f"{storage.url}: other runs have been quicker {_TRIES} times; run it again")


def _create(storage: Storage, wanted: Manifest) -> bool:
    """Whether the file is there now, and ours: a store's client may try a PUT again that had gone through unnoticed."""
    path, data = manifest_path(wanted.version), to_json(wanted)
    try:
        storage.create(path, data)
    except FileExistsError:
        return _holds(storage, path, data)
    except OSError:
        if not _holds(storage, path, data):
            raise
    return True


def _holds(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except FileNotFoundError:
        return False


def _check_on_top(storage: Storage, wanted: Manifest) -> None:
    """A run that slept while others made many versions, and cleaned, may have made one that is long past."""
    latest = versions(storage)[-1]
    if latest == wanted.version:
        return
    head = _read(storage, latest)
    if not any(made.load_id == wanted.load_id for made in head.history):
        storage.remove(manifest_path(wanted.version))
        raise Conflict(f"{storage.url} has gone on to version {latest} without this run; run it again")


def _read(storage: Storage, version: int) -> Manifest:
    path = manifest_path(version)
    try:
        return from_json(storage.read(path), f"{storage.url}/{path}")
    except ManifestError as error:
        raise ReloadError(str(error)) from error
