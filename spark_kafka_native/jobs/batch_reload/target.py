"""What is checked of a target before Spark starts and before anything is written: it is this job's, and can be written.

A first load that was interrupted leaves folders of the job without a version, so that a folder of the job is enough.
"""

from typing import Final

from spark_kafka_native.jobs.batch_reload.errors import UsageError
from spark_kafka_native.jobs.batch_reload.leases import LEASES
from spark_kafka_native.jobs.batch_reload.storage import Storage
from spark_kafka_native.jobs.batch_reload.versions import LOADS, MANIFESTS

_OWN: Final = frozenset({LEASES, LOADS, MANIFESTS})
_OF_FILE_SYSTEM: Final = "lost+found"
_NAMED: Final = 3
"""How many of the names that were found an error lists."""


def check_own(storage: Storage, option: str) -> None:
    """Raise UsageError if a target without a version holds entries, none of them this job's; ``option`` names it.

    Hidden entries (``.name``) and ``lost+found``, which a new volume has, do not count.
    """
    try:
        found = storage.sample("")
        foreign = [name for name in found if not name.startswith(".") and name != _OF_FILE_SYSTEM]
        # A sample of a full target may not have the job's folders in it.
        if not foreign or not _OWN.isdisjoint(found) or any(storage.sample(folder) for folder in _OWN):
            return
    except NotADirectoryError:
        raise UsageError(f"{option}: {storage.url} is not a directory") from None
    except PermissionError as error:
        raise UsageError(f"{option}: {storage.url}: {error.strerror}") from None
    named = ", ".join(foreign[:_NAMED]) + (", ..." if len(foreign) > _NAMED else "")
    raise UsageError(
        f"{option}: {storage.url} holds something else ({named}) and nothing of this job; "
        "name a directory that is empty, or not there yet"
    )


def prepare(storage: Storage, option: str) -> None:
    """Make the target and try to write there. Raises UsageError: it cannot be made or written; ``option`` names it."""
    try:
        storage.prepare()
    except OSError as error:
        raise UsageError(f"{option}: {storage.url} cannot be written to: {error.strerror or error}") from None
