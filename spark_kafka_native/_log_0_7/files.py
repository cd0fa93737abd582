"""Which ``.kafka`` files there are, of which partitions and from which offsets on."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from spark_kafka_native._protocol.topic import TopicPartition, topic_name_problem

_SUFFIX: Final = ".kafka"
_DIRECTORY: Final = re.compile(r"(.+)[-_](\d{1,9})")
"""The design document has ``topic_0``, the releases of 0.7 write ``topic-0``."""
_FILE: Final = re.compile(r"(\d{1,20})\.kafka")
_MAX_OFFSET: Final = 2**63 - 1
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class LogFilesError(Exception):
    """The files of a log cannot be read. The text names the file or directory."""


class LogFile(NamedTuple):
    """A file of a partition's log. Its entries have the offsets from ``base_offset`` to ``end_offset``."""

    partition: TopicPartition
    base_offset: int
    path: str
    """As given: a path, or a URL of Arrow's file systems."""
    size_bytes: int
    is_last: bool
    """Whether the log ends here, perhaps with a message that was not written completely."""

    @property
    def end_offset(self) -> int:
        """The offset after the last byte."""
        return self.base_offset + self.size_bytes


def open_file(path: str) -> pa.NativeFile:
    """A file to read. Raises OSError."""
    files, name = _file_system(path)
    return files.open_input_stream(name)


def find_log_files(locations: Iterable[str]) -> list[LogFile]:
    """The files by partition and offset. A location is a file, a partition's directory or a broker's ``log.dir``.

    Locations are paths, or URLs of Arrow's file systems. Raises LogFilesError: there are none, a name is not one of
    Kafka 0.7, or a file between others is missing.
    """
    found = {file.path: file for location in locations for file in _files_at(location)}
    files = sorted(found.values())
    placed: list[LogFile] = []
    for partition, of_partition in groupby(files, key=lambda file: file.partition):
        placed += _checked(partition, list(of_partition))
    return placed


def _checked(partition: TopicPartition, files: Sequence[LogFile]) -> Iterator[LogFile]:
    for file, following in pairwise(files):
        if file.end_offset != following.base_offset:
            problem = "overlap" if file.end_offset > following.base_offset else "have a gap"
            raise LogFilesError(
                f"{partition}: {file.path} ends at offset {file.end_offset}, and {following.path} begins at offset "
                f"{following.base_offset}: the files {problem}"
            )
        yield file._replace(is_last=False)
    yield files[-1]


def _files_at(location: str) -> list[LogFile]:
    try:
        files, path = _file_system(location)
        info = files.get_file_info(path)
        if info.type is fs.FileType.NotFound:
            raise LogFilesError(f"{location}: there is no such file or directory")
        if info.is_file:
            infos = [info]
        else:
            infos = [each for each in files.get_file_info(fs.FileSelector(path, recursive=True)) if each.is_file]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise LogFilesError(f"{location}: {error}") from error
    prefix = location[: len(location) - len(path)] if location.endswith(path) else ""
    found = [_log_file(f"{prefix}{each.path}", each.size) for each in infos if each.path.endswith(_SUFFIX)]
    if not found:
        raise LogFilesError(f"{location}: there are no {_SUFFIX} files")
    return found


def _log_file(path: str, size_bytes: int) -> LogFile:
    *_, directory, name = ["", *path.split("/")]
    partition, offset = _DIRECTORY.fullmatch(directory), _FILE.fullmatch(name)
    if offset is None or int(offset[1]) > _MAX_OFFSET:
        raise LogFilesError(f"{path}: the name of a file must be an offset, such as 00000000000000000000{_SUFFIX}")
    if partition is None or topic_name_problem(partition[1]) is not None:
        raise LogFilesError(f"{path}: the name of its directory must be topic-partition, not {directory!r}")
    where = TopicPartition(partition[1], int(partition[2]))
    return LogFile(where, int(offset[1]), path, size_bytes, is_last=True)


def _file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Raises OSError; ValueError; ArrowException."""
    if _URL.match(location):
        files, path = fs.FileSystem.from_uri(location)
        return files, path
    return fs.LocalFileSystem(), str(Path(location).absolute())
