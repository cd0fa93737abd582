"""Directories of deleted logs, which leave the disk a little later."""

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from broker_embedded.platform.open_files import OUT_OF_DESCRIPTORS
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_SUFFIX: Final = "-delete"
_NAME: Final = re.compile(r".+-\d+\.[0-9a-f]{32}-delete")
_MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class _Deleted:
    path: str
    due_ms: int


class DeletedDirectories:
    """Directories named ``topic-partition.unique-delete``, with the time from which they may be removed.

    Times are those of ``Clock.elapsed_ms``, so that a clock that is set changes no delay.

    Safe to call from any thread.
    """

    def __init__(self, platform: Platform, data_dir: str) -> None:
        self._platform = platform
        self._data_dir = data_dir
        self._waiting: list[_Deleted] = []
        self._lock = threading.Lock()

    @staticmethod
    def is_one(name: str) -> bool:
        """Whether a directory of that name was deleted."""
        return _NAME.fullmatch(name) is not None

    def found(self, name: str, elapsed_ms: int) -> None:
        """One that was there at the start: it may go."""
        self._add(f"{self._data_dir}/{name}", elapsed_ms)

    def mark(self, partition: TopicPartition, due_ms: int, rename: Callable[[str], None]) -> None:
        """Let ``rename`` give the directory of a partition its new path. The caller syncs the data directory.

        Raises OSError as ``rename``.
        """
        suffix = f"-{partition.partition}.{uuid4().hex}{_SUFFIX}"
        path = f"{self._data_dir}/{partition.topic[: _MAX_NAME - len(suffix)]}{suffix}"
        rename(path)
        self._add(path, due_ms)

    def remove_due(self, elapsed_ms: int) -> int:
        """Remove the directories that are due; how many were removed.

        A directory that cannot be removed for lack of file descriptors is retried by the next call, any other at the
        next start.
        """
        with self._lock:
            due = [directory for directory in self._waiting if directory.due_ms <= elapsed_ms]
            self._waiting = [directory for directory in self._waiting if directory.due_ms > elapsed_ms]
        removed = 0
        for directory in due:
            try:
                self._platform.file_system.remove_tree(directory.path)
                removed += 1
            except OSError as error:
                retried = "at the next start"
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._add(directory.path, directory.due_ms)
                    retried = "soon"
                logger.warning("%s cannot be removed, retrying %s: %s", directory.path, retried, error)
            self._platform.open_files.forget_directory(directory.path)  # now no response can open a file of it
        return removed

    def _add(self, path: str, due_ms: int) -> None:
        with self._lock:
            self._waiting.append(_Deleted(path, due_ms))
