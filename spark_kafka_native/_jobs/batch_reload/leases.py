"""The leases of a target: one small file per run, renewed while it runs.

A lease does not prevent other runs from publishing; creating the version does. It prevents ``--clean`` from deleting
the files of a live run, and warns a user who starts a second run. Ages are measured by the storage's clock.
"""

import contextlib
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage, create_own

LEASES: Final = "_leases"
RENEW_EVERY_S: Final = 20.0
_NAME: Final = re.compile(rf"{LEASES}/([^/]+)\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRun:
    """A run that holds a lease."""

    load_id: str
    age_s: float
    """Time since the last renewal."""
    holder: str


def new_load_id(now_s: float) -> str:
    """A unique load id; ids sort by time, in seconds."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now_s))}-{secrets.token_hex(4)}"


class Lease:
    """This run's lease, from ``take`` to ``release``, or in the block ``held``."""

    def __init__(self, storage: Storage, load_id: str) -> None:
        self._storage = storage
        self._path = f"{LEASES}/{load_id}.json"
        self._data = json.dumps({"load_id": load_id, "host": socket.gethostname(), "pid": os.getpid()}).encode()
        self._renewed_s = 0.0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Take the lease, and release it after the block. Raises as ``take``, and what the block raises."""
        self.take()
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # it ages, and is removed by a clean
                self.release()

    def take(self) -> None:
        """Create the lease twice: the second must fail. Raises UsageError: the storage has no conditional writes."""
        create_own(self._storage, self._path, self._data)
        self._renewed_s = time.monotonic()
        try:
            self._storage.create(self._path, self._data)
        except FileExistsError:
            return
        raise UsageError(f"{self._storage.url} creates a file that exists already; loads need conditional writes")

    def renew(self) -> None:
        """Renew the lease after ``RENEW_EVERY_S``. A failure is retried at the next call."""
        if time.monotonic() - self._renewed_s >= RENEW_EVERY_S:
            with contextlib.suppress(OSError):  # a lease that ages is no harm by itself
                self._storage.put(self._path, self._data)
                self._renewed_s = time.monotonic()

    def release(self) -> None:
        """Delete the lease."""
        self._storage.remove(self._path)

    def written_at_s(self) -> float:
        """When this lease was last written, by the clock of the storage. Raises OSError."""
        stored = self._storage.list(LEASES).get(self._path)
        if stored is None:
            raise OSError(f"{self._storage.url}/{self._path} is not listed after it was made; run the clean again")
        return stored.modified_s


def other_runs(storage: Storage, load_id: str, now_s: float) -> list[OtherRun]:
    """All other leases, live or dead. Raises OSError."""
    found: list[OtherRun] = []
    for path, stored in sorted(storage.list(LEASES).items()):
        match = _NAME.fullmatch(path)
        if match and match[1] != load_id:
            age_s = max(now_s - stored.modified_s, 0.0)
            found.append(OtherRun(load_id=match[1], age_s=age_s, holder=_holder(storage, path)))
    return found


def _holder(storage: Storage, path: str) -> str:
    try:
        stored: dict[str, Any] = json.loads(storage.read(path))
        return f"process {stored['pid']} on {stored['host']}"
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return "another run"
