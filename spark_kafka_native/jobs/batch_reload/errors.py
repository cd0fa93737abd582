"""What can go wrong with a load, by what its user does next; each has the exit status that the job ends with."""

from typing import ClassVar


class ReloadError(Exception):
    """The load failed and nothing of it is visible; ``str()`` is for the user."""

    status: ClassVar[int] = 1


class UsageError(ReloadError):
    """What was asked for cannot be done: an option, or a target that holds something else."""

    status = 2


class Conflict(ReloadError):
    """Another run has published a version that this one did not know of; nothing of this run is visible."""

    status = 3


def changed(what: str) -> ReloadError:
    """The error of a run whose topics or logs have changed since its plan; ``what`` is a clause that says how."""
    return ReloadError(f"{what} while the load ran, so nothing of it is published; run it again")
