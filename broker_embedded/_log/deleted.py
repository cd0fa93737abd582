"""Directories of deleted logs, which are removed after ``file.delete.delay.ms``."""

import logging
import re
import threading
from typing import Final
from uuid import uuid4

from broker_embedded._platform.open_files import OUT_OF_DESCRIPTORS
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_SUFFIX: Final = "-delete"
_NAME: Final = re.compile(r".+-\d+\.[0-9a-f]{32}-delete")
_MAX_NAME: Final = 255


def deleted_name(partition: TopicPartition) -> str:
    """A new, unique name for the directory of a partition whose log is deleted."""
    suffix = f"-{partition.partition}.{uuid4().hex}{_SUFFIX}"
    return partition.topic[: _MAX_NAME - len(suffix)] + suffix


def is_deleted_name(name: str) -> bool:
    """Whether it is the name of the directory of a deleted log."""
    return _NAME.fullmatch(name) is not None


class DeletedDirectories:
    """Directories named ``topic-partition.unique-delete``, and the time at which each may be removed.

    Times are those of ``Clock.elapsed_ms``, so that setting the system's clock changes no delay.

    Safe to call from any thread.
    """

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._due_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, path: str, due_ms: int) -> None:
        """Let ``remove_due`` remove a directory at this time."""
        with self._lock:
            self._due_ms[path] = due_ms

    def remove_due(self, elapsed_ms: int) -> int:
        """Remove the directories that are due; how many were removed.

        A directory that cannot be removed for lack of file descriptors is retried by the next call, any other at the
        next start.
        """
        with self._lock:
            due = {path: due_ms for path, due_ms in self._due_ms.items() if due_ms <= elapsed_ms}
            self._due_ms = {path: due_ms for path, due_ms in self._due_ms.items() if due_ms > elapsed_ms}
        removed = 0
        for path, due_ms in due.items():
            try:
                self._platform.file_system.remove_tree(path)
                removed += 1
            except OSError as error:
                retried = "at the next start"
                if error.errno in OUT_OF_DESCRIPTORS:
                    self.add(path, due_ms)
                    retried = "at the next check"
                logger.warning("%s cannot be removed, retrying %s: %s", path, retried, error)
            self._platform.open_files.forget_directory(path)  # from now on no response can open a file of it
        return removed
