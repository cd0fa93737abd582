"""A metadata store on a disk in memory."""

import os
from collections.abc import Callable
from typing import TypeVar

from broker_embedded.metadata.store import MetadataStore
from broker_embedded.platform.platform import FileSystem
from broker_embedded.platform.shielded_tasks import ShieldedTasks
from tests.support.broker.disk import MemoryFileSystem

DATA_DIR = "/data"
ResultT = TypeVar("ResultT")


def new_disk() -> MemoryFileSystem:
    """A disk with an empty data directory, which survives a crash."""
    disk = MemoryFileSystem()
    disk.make_directory(DATA_DIR)
    disk.sync_directory("/")
    return disk


def open_store(files: FileSystem, data_dir: str | os.PathLike[str] = DATA_DIR) -> MetadataStore:
    """The store of a data directory, which does its work on the disk in the event loop."""
    return MetadataStore(os.fspath(data_dir), files, at_once, ShieldedTasks())


async def at_once(function: Callable[[], ResultT]) -> ResultT:
    """Run a function that waits for the disk, here."""
    return function()
