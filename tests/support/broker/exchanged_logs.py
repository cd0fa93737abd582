"""Logs that change hands: from one broker's data directory into another's, while neither runs."""

import shutil
from collections.abc import Mapping
from pathlib import Path


def take_over(source: Path, target: Path, partitions: Mapping[str, int]) -> None:
    """Put so many partitions of each topic in the place of others. A topic's id stays the target's if it has one."""
    for topic, count in partitions.items():
        for index in range(count):
            directory = target / f"{topic}-{index}"
            metadata = directory / "partition.metadata"
            kept = metadata.read_bytes() if metadata.exists() else None
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(source / directory.name, directory)
            if kept is not None:
                metadata.write_bytes(kept)
