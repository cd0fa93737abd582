"""A metadata store that does its work on the disk in the event loop."""

import os
from collections.abc import Callable
from typing import TypeVar

from broker_embedded._metadata.store import MetadataStore
from broker_embedded._platform.platform import FileSystem
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from tests.support.broker.disk import DATA_DIR

ResultT = TypeVar("ResultT")


def open_store(files: FileSystem, data_dir: str | os.PathLike[str] = DATA_DIR) -> MetadataStore:
    """The store of a data directory."""
    return MetadataStore(os.fspath(data_dir), files, at_once, ShieldedTasks())


async def at_once(function: Callable[[], ResultT]) -> ResultT:
    """Run a function that waits for the disk, here."""
    return function()
