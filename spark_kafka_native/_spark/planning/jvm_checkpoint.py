r"""The initial offsets of a query of Spark's JVM connector, from its checkpoint.

Spark stores the end of every micro-batch in ``offsets/``. Each source stores the start of the first one. The JVM
connector writes it to ``sources/<number of the source>/0``::

    one byte | "v1\n" | {"topic":{"0":23}}        since Spark 2.1.1; the byte is 0
    one byte | {"topic":{"0":23}}                  Spark 2.1.0; the byte is the text's length

A Python source does not get the path, so a query whose first batch the JVM connector began and did not finish needs
option ``jvmCheckpoint``. Paths without a scheme and ``file:`` are local. Other paths (``s3://``, ``gs://``, ``abfs://``,
``hdfs://``) are read by pyarrow's file systems with their default credentials, because Spark's are in the JVM.
"""

import json
import os
import re
import stat
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.offsets import OffsetMap, parse_offsets

OPTION: Final = "jvmCheckpoint"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")
_VERSION: Final = 1


class Directory(Protocol):
    """A directory; paths are relative to it, with slashes."""

    def names(self, path: str) -> list[str]:
        """Entries of a directory, sorted; none if it does not exist."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None if it does not exist."""
        ...


def read_initial_offsets(location: str) -> OffsetMap:
    """The start of the first batch, from a checkpoint directory or from the directory of one of its sources.

    Raises OptionError: there is no file, there are several sources, or a later version of Spark wrote it.
    """
    try:
        directory = _directory(location)
        name = _file(directory, location)
        content = directory.read(name)
    except OSError as error:
        raise OptionError(OPTION, f"{location} cannot be read: {error}") from error
    if content is None:
        raise OptionError(OPTION, f"{location} has no file {name}, so it is not a checkpoint of the JVM connector")
    try:
        return parse_initial_offsets(content)
    except ValueError as error:
        raise OptionError(OPTION, f"file {name} in {location} cannot be used: {error}") from None


def parse_initial_offsets(content: bytes) -> OffsetMap:
    """The bytes of ``sources/<n>/0`` -> offsets. Raises ValueError with the reason."""
    try:
        text = content[1:].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text ({error.reason} at byte {error.start + 1})") from None
    if text.startswith("v"):
        version, _, text = text.partition("\n")
        if not re.fullmatch(r"v[1-9][0-9]*", version):
            raise ValueError(f"its first line {version[:20]!r} is not a version")
        if int(version[1:]) > _VERSION:
            raise ValueError(f"version {version} is later than v{_VERSION}, the last known one; a later Spark wrote it")
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise ValueError(f"expected a JSON object of topics, found {text[:40]!r}")
    return parse_offsets(stored)


def _file(directory: Directory, location: str) -> str:
    if "sources" not in directory.names(""):
        return "0"
    files = [f"sources/{name}/0" for name in directory.names("sources") if "0" in directory.names(f"sources/{name}")]
    if len(files) > 1:
        several = ", ".join(name.removesuffix("/0") for name in files)
        raise OptionError(OPTION, f"{location} has several sources; name the directory of one source: {several}")
    return files[0] if files else "sources/0/0"


def _directory(location: str) -> Directory:
    if not _SCHEME.match(location):
        return _Local(Path(location))
    parts = urlsplit(location)
    if parts.scheme.lower() == "file":
        return _Local(Path(unquote(parts.path)))
    return _Remote(location)


_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError, ValueError)
"""ValueError: a NUL or a surrogate. Path.is_dir and is_file return False for every OSError since Python 3.14."""


class _Local:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / path))
        except _NOT_THERE:
            return []

    def read(self, path: str) -> bytes | None:
        file = self._root / path
        try:
            return file.read_bytes() if stat.S_ISREG(file.stat().st_mode) else None
        except _NOT_THERE:
            return None


class _Remote:
    def __init__(self, location: str) -> None:
        from pyarrow import ArrowInvalid, fs  # noqa: PLC0415  # takes time, and few queries need it

        try:
            self._fs, self._root = fs.FileSystem.from_uri(location)
        except (ArrowInvalid, ImportError) as error:
            text = f"{location} is on a file system that cannot be read here ({error}); copy its directory 'sources'"
            raise OptionError(OPTION, f"{text} to a local path, or to S3, GCS, ABFS or HDFS, and name that") from None
        self._selector, self._types = fs.FileSelector, fs.FileType

    def names(self, path: str) -> list[str]:
        infos = self._fs.get_file_info(self._selector(f"{self._root}/{path}".rstrip("/"), allow_not_found=True))
        return sorted(info.base_name for info in infos)

    def read(self, path: str) -> bytes | None:
        file = f"{self._root}/{path}"
        if self._fs.get_file_info(file).type != self._types.File:
            return None
        with self._fs.open_input_file(file) as opened:
            content: bytes = opened.read()
        return content
