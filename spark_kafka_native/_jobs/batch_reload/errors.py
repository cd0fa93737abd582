"""Errors of a load, each with the exit status of the job."""

from typing import ClassVar


class ReloadError(Exception):
    """The load failed and no part of it is visible; ``str()`` is for the user."""

    status: ClassVar[int] = 1


class UsageError(ReloadError):
    """An invalid option, or a target that belongs to another program."""

    status = 2


class Conflict(ReloadError):
    """Another run has published a version meanwhile; no part of this run is visible."""

    status = 3


def changed(what: str) -> ReloadError:
    """The error of a run whose topics or logs have changed since its plan; ``what`` names the change."""
    return ReloadError(f"{what} while the load ran, so nothing of it is published; run it again")
