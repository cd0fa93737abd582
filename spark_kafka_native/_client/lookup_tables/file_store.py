"""Look-up tables (``BucketTable``) in a file: JSON, replaced as a whole.

    flock <path>.lock -> read -> change -> write <path>.new, fsync -> rename -> fsync of the directory

A process that stops in between leaves the old file or the new one. Two changes at once cannot lose one: the second one
fails, because the first one has the lock.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_kafka_native._client.partitioning.bucket_table import BucketTable, parse_json, tables_by_topic
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError

Change = Callable[[BucketTable | None], BucketTable | None]
"""A topic's table, None if there is none -> the table to store, None to delete it."""

MAX_FILE_BYTES: Final = 1 << 26
"""Of about a thousand tables with 3840 buckets."""
_FORMAT: Final = 1


class FileStore:
    """The tables in one file, which need not exist before the first one is created."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = Path(path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise LookupTableError(f"{path!r} is not the path of a file of look-up tables: {error}") from error
        """Of a symbolic link the file that it names, so that all names have the same lock."""

    def __str__(self) -> str:
        return f"file:{self._path}"

    def read(self, topics: Iterable[str] | None = None) -> dict[str, BucketTable]:
        """The tables of all topics, or of those of ``topics`` that have one. Raises LookupTableError."""
        found = self._read()
        return found if topics is None else {topic: found[topic] for topic in topics if topic in found}

    def change(self, topic: str, change: Change) -> BucketTable | None:
        """Replace a topic's table, and return the new one. Raises LookupTableError, also of ``change``."""
        with self._failing("written"), self._locked():
            tables = self._read()
            before = tables.pop(topic, None)
            after = change(before)
            if after is before:
                return after
            if after is not None:
                tables[topic] = after
            self._write(tables)
            stored = self._read().get(topic)
            if (after is None) != (stored is None) or (after is not None and not after.same_as(stored)):
                raise LookupTableError(f"{self} has another table of topic {topic} than was written; run it again")
            return after

    def _read(self) -> dict[str, BucketTable]:
        with self._failing("read"):
            try:
                with self._file.open("rb") as file:
                    data = file.read(MAX_FILE_BYTES + 1)
            except FileNotFoundError:
                return {}
        if len(data) > MAX_FILE_BYTES:
            raise LookupTableError(f"{self} is larger than {MAX_FILE_BYTES} bytes; use a topic, or several files")
        value = parse_json(data, str(self))
        tables = value.get("tables") if isinstance(value, dict) else None
        if not isinstance(tables, dict) or value.keys() != {"format", "tables"} or not _is_format(value["format"]):
            raise LookupTableError(
                f"{self} is no file of look-up tables of format {_FORMAT}; name another file, or restore this one"
            )
        return tables_by_topic(tables, str(self))

    def _write(self, tables: Mapping[str, BucketTable]) -> None:
        value = {"format": _FORMAT, "tables": {topic: table.to_json() for topic, table in sorted(tables.items())}}
        data = json.dumps(value).encode()
        if len(data) > MAX_FILE_BYTES:
            raise LookupTableError(f"{self} would be larger than {MAX_FILE_BYTES} bytes; use a topic, or several files")
        new = self._file.with_name(f"{self._file.name}.new")
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if self._file.exists():
            shutil.copymode(self._file, new)
        new.replace(self._file)
        directory = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock of changes, on a file of its own, because the file of the tables is replaced."""
        with self._file.with_name(f"{self._file.name}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LookupTableError(
                    f"{self} is being changed by another process; nothing was changed. Run the command again"
                ) from None
            yield

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LookupTableError(f"{self} cannot be {what}: {error.strerror or error}") from error


def _is_format(value: object) -> bool:
    return type(value) is int and value == _FORMAT
