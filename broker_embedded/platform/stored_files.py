"""Small files of the data directory that are replaced as a whole, such as ``topics.json``, beside the event loop."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from broker_embedded.platform.platform import FileSystem, read_file, remove_if_exists, temporary_path, write_file
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class OnDisk(Protocol):
    """Runs a function that waits for the disk, or for a name server, beside the event loop."""

    def __call__(self, function: Callable[[], ResultT]) -> Awaitable[ResultT]:
        """What the function returns."""
        ...


async def replace_file(
    on_disk: OnDisk, file_system: FileSystem, path: str, raw: bytes, *, private: bool = False
) -> None:
    """Put ``raw`` in place of what is at ``path``, durably. ``private``: no other user of the machine may read it.

    Raises KafkaError KAFKA_STORAGE_ERROR: the old file stands, or if the last step failed, the new one.
    """
    try:
        await on_disk(lambda: write_file(file_system, path, raw, private=private))
    except OSError as error:
        logger.error("%s cannot be written: %s", path, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error.strerror}") from error


def read_private_file(file_system: FileSystem, path: str) -> bytes:
    """The whole of a small file that no other user of the machine may read; its mode is changed if one may.

    Raises OSError: the file cannot be read.
    """
    try:
        if file_system.make_private(path):
            logger.warning("%s: mode 0600 is set, because other users of this machine could read the file", path)
    except OSError as error:
        logger.warning("%s: mode 0600 cannot be set, so other users of this machine may read the file: %s", path, error)
    return read_file(file_system, path)


def remove_unfinished(file_system: FileSystem, path: str) -> None:
    """Remove what a crash has left of a write of the private file at ``path``, because other users may read it.

    The data directory must be locked, or the write of a broker that runs would fail. An error is logged.
    """
    temporary = temporary_path(path)
    try:
        if remove_if_exists(file_system, temporary):
            logger.warning("%s: removed, because the write of %s had not been finished", temporary, path)
    except OSError as error:
        logger.warning("%s: cannot be removed, so other users of this machine may read the file: %s", temporary, error)
