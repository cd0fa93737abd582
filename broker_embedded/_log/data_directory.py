"""The data directory: its owner, its lock, and which of its directories are logs."""

import logging
import os
import re
from typing import Final

from broker_embedded._log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    CorruptCheckpoint,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from broker_embedded._log.deleted import DeletedDirectories, is_deleted_name
from broker_embedded._platform.platform import FileLock, FileSystem, remove_if_exists, write_file
from spark_kafka_native._protocol.ids import format_id, new_id
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_LOCK: Final = ".lock"
_NOT_LOGS: Final = {
    "lost+found": "it belongs to the file system",
    "__cluster_metadata-0": "it is the metadata of an Apache Kafka controller",
    "remote-log-index-cache": "it is a cache of Apache Kafka",
}
_SET_ASIDE: Final = re.compile(r".+-\d+\.[0-9a-f]{32}-(stray|future)")
"""A stray log or an incomplete copy of Apache Kafka."""
_OF_LOG: Final = re.compile(r"\d{20}\..+|leader-epoch-checkpoint|partition\.metadata")
"""A file of a log. ZooKeeper's ``version-2`` has the name of a partition, but no such file."""


def parse_directory_name(name: str) -> TopicPartition:
    """The topic-partition that a log directory is named after. Raises ValueError."""
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        raise ValueError(f"{name!r} is not of the form topic-partition")
    return TopicPartition(topic, int(partition))


class DataDirectory:
    """One data directory, at an absolute ``path``. Errors come as OSError and CorruptCheckpoint."""

    def __init__(self, path: str, file_system: FileSystem) -> None:
        self.path = path
        self._file_system = file_system
        self._lock: FileLock | None = None

    def __str__(self) -> str:
        return self.path

    def file(self, name: str) -> str:
        """The path of a name in the directory."""
        return f"{self.path}/{name}"

    @property
    def locked(self) -> bool:
        """Whether the lock is held."""
        return self._lock is not None

    def lock(self) -> None:
        """Lock the directory, which is created if it does not exist. A second call does nothing.

        Raises OSError: it is locked, or has other directories than logs and no ``meta.properties``. Nothing is written
        then. As in Apache Kafka, other files are ignored.
        """
        if self.locked:
            return
        _make_directories(self._file_system, self.path)
        if not self._file_system.exists(self.file(META_PROPERTIES)):
            self._check_new()
        try:
            self._lock = self._file_system.lock(self.file(_LOCK))
        except BlockingIOError as error:
            raise OSError(f"in use by another broker ({error.strerror})") from error

    def _check_new(self) -> None:
        """Raise OSError if the directory belongs to another program."""
        for entry in self._file_system.list_directory(self.path):
            if entry.is_directory and not self._is_known(entry.name):
                raise OSError(
                    f"not a Kafka data directory, because it contains {entry.name!r}; use a new or an empty directory"
                )

    def _is_known(self, name: str) -> bool:
        """Whether a directory is a log, or one that this broker or Apache Kafka creates beside logs."""
        if name in _NOT_LOGS or _SET_ASIDE.fullmatch(name) or is_deleted_name(name):
            return True
        try:
            parse_directory_name(name)
        except ValueError:
            return False
        files = self._file_system.list_directory(self.file(name))
        return not files or any(_OF_LOG.fullmatch(file.name) for file in files)

    def text_of(self, error: OSError | CorruptCheckpoint) -> str:
        """The text of an error of the directory, with the name of the file or of the directory."""
        if isinstance(error, CorruptCheckpoint):
            return str(error)
        if error.filename in {None, self.path}:
            return f"data directory {self.path}: {error.strerror or error}"
        return f"{error.filename}: {error.strerror}"

    def unlock(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def cluster_id(self, wanted: str | None) -> str | None:
        """The id in ``meta.properties``, or ``wanted`` if there is none.

        Raises OSError; CorruptCheckpoint: the two differ, or the file is damaged.
        """
        path = self.file(META_PROPERTIES)
        found = read_meta_properties(self._file_system, path)
        if found is None:
            return wanted
        found.check(path, cluster_id=wanted)
        return found.cluster_id

    def claim(self, node_id: int, cluster_id: str | None, version: int) -> MetaProperties:
        """``meta.properties``, written in ``version`` if there is none.

        Raises CorruptCheckpoint: it names another cluster or node.
        """
        path = self.file(META_PROPERTIES)
        found = read_meta_properties(self._file_system, path)
        if found is None:
            found = MetaProperties(
                cluster_id=cluster_id or format_id(new_id()), node_id=node_id, directory_id=new_id(), version=version
            )
            write_meta_properties(self._file_system, path, found)
        found.check(path, cluster_id=cluster_id)
        if found.node_id != node_id:
            other = f"belongs to node {found.node_id}, not {node_id}"
            raise CorruptCheckpoint(path, f"{other}; set node.id={found.node_id}, or use another data directory")
        return found

    def take_clean_shutdown(self) -> bool:
        """Delete ``.kafka_cleanshutdown``, durably; whether it was there, because the last broker closed every log.

        It is deleted before any log is opened, so that a crash from now on is an unclean shutdown.
        """
        found = remove_if_exists(self._file_system, self.file(CLEAN_SHUTDOWN))
        if found:
            self.sync()
        return found

    def leave_clean_shutdown(self) -> None:
        """Write ``.kafka_cleanshutdown``, durably: every log was closed."""
        write_file(self._file_system, self.file(CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')

    def sync(self) -> None:
        """Make the names in the directory survive a crash."""
        self._file_system.sync_directory(self.path)

    def find_logs(self, deleted: DeletedDirectories, elapsed_ms: int) -> list[TopicPartition]:
        """The partitions that have a directory. Directories of deleted logs are added to ``deleted``.

        Raises OSError: a directory is neither.
        """
        partitions = []
        for entry in self._file_system.list_directory(self.path):
            if not entry.is_directory:
                continue
            if entry.name in _NOT_LOGS:
                logger.info("%s is ignored: %s", self.file(entry.name), _NOT_LOGS[entry.name])
            elif _SET_ASIDE.fullmatch(entry.name):
                logger.warning("%s is ignored: Apache Kafka renamed it to -stray or -future", self.file(entry.name))
            elif is_deleted_name(entry.name):
                deleted.add(self.file(entry.name), elapsed_ms)
            else:
                try:
                    partitions.append(parse_directory_name(entry.name))
                except ValueError as error:
                    raise OSError(f"{error}, as the directory of a log is; move it out of the data directory") from None
        return partitions


def _make_directories(files: FileSystem, path: str) -> None:
    """Create a directory and its missing parents, durably. Raises OSError."""
    if files.exists(path):
        return
    parent = os.path.dirname(path)
    _make_directories(files, parent)
    files.make_directory(path)
    files.sync_directory(parent)
