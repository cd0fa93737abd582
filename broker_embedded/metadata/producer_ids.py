"""Producer ids, each given out once, whatever happens to the broker.

Those of a new data directory begin at a random number far above what an Apache Kafka gets to, which counts from 0. Logs
that go from one broker to another know their producers by id: a new producer with the id of an old one would have its
first records taken for ones that are there already.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from broker_embedded.platform.platform import FileSystem, read_file, write_file
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

FILE_NAME: Final = "producer-ids.json"
BLOCK_SIZE: Final = 1000
"""Ids claimed at once, as by Kafka's controller; those of a block that a stop leaves over are never used."""
_FIRST_BLOCKS: Final = range(2**22, 2**42)
"""Where a new data directory may begin. All its ids fit into 53 bits, as some clients' numbers do."""


class ProducerIdsError(Exception):
    """The file of producer ids cannot be understood, so that no id is known to be new."""


class ProducerIds:
    """Gives out producer ids from blocks that are claimed on the disk first.

    1. Write the end of the next block to ``producer-ids.json``, durably. Crash here: the block is lost, no id is used
       twice.
    2. Give out the ids of the block. Crash here: the next start begins behind the block.
    """

    def __init__(
        self, data_dir: str, file_system: FileSystem, on_disk: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> None:
        """``on_disk`` runs a function that waits for the disk elsewhere. Raises OSError, ProducerIdsError."""
        self._path = os.path.join(data_dir, FILE_NAME)
        self._file_system = file_system
        self._on_disk = on_disk
        self._next = self._end = self._read()
        self._claiming = asyncio.Lock()

    async def next(self) -> int:
        """An id that nobody had. Raises KafkaError: a block could not be claimed; nothing was given out."""
        async with self._claiming:
            if self._next == self._end:
                end = self._end + BLOCK_SIZE
                try:
                    await self._on_disk(lambda: self._write(end))
                except OSError as error:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._path}: {error.strerror}") from error
                self._end = end
            given = self._next
            self._next += 1
            return given

    def _read(self) -> int:
        if not self._file_system.exists(self._path):
            return _FIRST_BLOCKS[secrets.randbelow(len(_FIRST_BLOCKS))] * BLOCK_SIZE
        try:
            document = json.loads(read_file(self._file_system, self._path))
            if document["version"] != 1 or document["next_producer_id"] < 0:
                raise ProducerIdsError(f"{self._path}: version or number not known here")
            return int(document["next_producer_id"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ProducerIdsError(f"{self._path}: {error}") from error

    def _write(self, end: int) -> None:
        write_file(self._file_system, self._path, json.dumps({"version": 1, "next_producer_id": end}).encode())
