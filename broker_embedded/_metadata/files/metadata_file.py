"""A metadata file of the data directory: a JSON object with a version, replaced as a whole.

Unknown keys are errors, so that an older broker never drops data of a newer one.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from broker_embedded._platform.platform import FileSystem, read_file, remove_if_exists, temporary_path, write_file

logger = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")
VERSION: Final = 1


class MetadataFileError(Exception):
    """A metadata file cannot be parsed. ``str()`` has its path, and no credential."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetadataFile(Generic[ValueT]):
    """The name of a file in the data directory, and the functions between its value and its bytes.

    ``parse`` gets the JSON object after the check of its version, and may raise errors of wrong types and missing keys.
    ``empty`` is the value without a file. Other users of the machine may not read a ``private`` file. Errors in a file
    with ``credentials`` do not repeat its content.
    """

    name: str
    encode: Callable[[ValueT], bytes]
    parse: Callable[[dict[str, Any]], ValueT]
    empty: Callable[[], ValueT]
    private: bool = False
    credentials: bool = False

    def decode(self, raw: bytes, path: str | None = None) -> ValueT:
        """The value that ``encode`` was given. Raises MetadataFileError with ``path``."""
        path = path or self.name
        try:
            document = json.loads(raw)
            if document["version"] != VERSION:
                raise MetadataFileError(f"{path}: version {document['version']!r}; this broker reads version {VERSION}")
            return self.parse(document)
        except UnknownKeys as error:
            raise MetadataFileError(f"{path}: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            detail = "this broker did not write it" if self.credentials else error
            problem = f"it is damaged ({type(error).__name__}: {detail}); restore the file from a copy"
            raise MetadataFileError(f"{path}: {problem}") from error

    def path(self, data_dir: str) -> str:
        """The path of the file in a data directory."""
        return os.path.join(data_dir, self.name)

    def read(self, file_system: FileSystem, data_dir: str) -> ValueT:
        """The value of the file. Raises OSError, MetadataFileError."""
        path = self.path(data_dir)
        if not file_system.exists(path):
            return self.empty()
        if self.private:
            _make_private(file_system, path)
        return self.decode(read_file(file_system, path), path)

    def write(self, file_system: FileSystem, data_dir: str, value: ValueT) -> None:
        """Replace the file, durably.

        Raises OSError: the file is unchanged, or if the last step failed, it is replaced.
        """
        write_file(file_system, self.path(data_dir), self.encode(value), private=self.private)

    def remove_unfinished(self, file_system: FileSystem, data_dir: str) -> None:
        """Remove the temporary file of a write that a crash interrupted. An error is logged.

        The data directory must be locked, because otherwise the write of a running broker would fail.
        """
        path = self.path(data_dir)
        temporary = temporary_path(path)
        try:
            if remove_if_exists(file_system, temporary):
                logger.warning("%s: removed, because the write of %s was interrupted", temporary, path)
        except OSError as error:
            logger.warning("%s: cannot be removed, so other users of this machine may read it: %s", temporary, error)


class UnknownKeys(Exception):
    """A JSON object has unknown keys."""


def refuse_unknown(item: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    """Raise UnknownKeys unless all keys are known."""
    unknown = sorted(set(item) - known)
    if unknown:
        raise UnknownKeys(f"unknown keys {', '.join(unknown)}")


def _make_private(file_system: FileSystem, path: str) -> None:
    """Set mode 0600 if other users may read the file."""
    try:
        if file_system.make_private(path):
            logger.warning("%s: mode 0600 is set, because other users of this machine could read the file", path)
    except OSError as error:
        logger.warning("%s: mode 0600 cannot be set, so other users of this machine may read the file: %s", path, error)
