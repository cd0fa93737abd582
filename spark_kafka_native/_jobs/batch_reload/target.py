"""Checks of a target before Spark starts and before the first write: it belongs to this job, and can be written.

An interrupted first load leaves folders of the job without a version, so one folder of the job is sufficient.
"""

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.leases import LEASES
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.versions import LOADS, MANIFESTS

_OWN: Final = frozenset({LEASES, LOADS, MANIFESTS})
_OF_FILE_SYSTEM: Final = "lost+found"
_UNUSABLE: Final = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
_NAMED: Final = 3
"""Most names in an error."""


@contextlib.contextmanager
def errors_named(storage: Storage, option: str) -> Iterator[None]:
    """Convert OSErrors of a target to errors that name ``option``.

    Raises UsageError if another target or other permissions are needed, ReloadError for any other OSError.
    """
    try:
        yield
    except NotADirectoryError:
        raise UsageError(f"{option}: {storage.url} is not a directory") from None
    except OSError as error:
        reason = error.strerror or str(error)  # errors of an object store's client have no strerror
        name = str(error.filename).rstrip("/") if error.filename else storage.url
        text = f"{option}: {name}: {reason.removeprefix(f'{storage.url}: ')}"
        refused = isinstance(error, PermissionError) or error.errno in _UNUSABLE
        raise (UsageError if refused else ReloadError)(text) from None


def check_own(storage: Storage, option: str) -> bool:
    """Whether a target without a version has folders of this job; False if it is empty or does not exist.

    Hidden entries (``.name``) and ``lost+found``, which a new volume has, do not count. Raises UsageError naming
    ``option`` if the target has only other entries; and as ``errors_named``.
    """
    with errors_named(storage, option):
        found = storage.sample("")
        foreign = [name for name in found if not name.startswith(".") and name != _OF_FILE_SYSTEM]
        # The sample of a large target may not contain the job's folders.
        if not _OWN.isdisjoint(found) or (foreign and any(storage.sample(folder) for folder in _OWN)):
            return True
        if not foreign:
            return False
    named = ", ".join(foreign[:_NAMED]) + (", ..." if len(foreign) > _NAMED else "")
    raise UsageError(
        f"{option}: {storage.url} is not a target of this job and not empty: it has {named}; "
        "name an empty or a new directory, or the target of an earlier load"
    )


def prepare(storage: Storage, option: str) -> None:
    """Create the target and write a test file. Raises UsageError naming ``option``: it cannot be created or written."""
    try:
        storage.prepare()
    except OSError as error:
        raise UsageError(f"{option}: {storage.url} cannot be written to: {error.strerror or error}") from None
