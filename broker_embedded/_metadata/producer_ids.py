"""Allocation of producer ids, each only once, also after crashes."""

import asyncio

from broker_embedded._metadata.files.producer_ids import BLOCK_SIZE, PRODUCER_IDS
from broker_embedded._metadata.store import MetadataStore
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError


class ProducerIdManager:
    """Allocates producer ids from blocks that are claimed on the disk before.

    1. The end of the next block is committed. Crash here: the block is lost, no id is used twice.
    2. The ids of the block are allocated. Crash here: the next start claims the block after it.
    """

    def __init__(self, store: MetadataStore, shielded_tasks: ShieldedTasks) -> None:
        self._store = store
        self._shielded_tasks = shielded_tasks
        self._claimed = range(0)
        self._claiming = asyncio.Lock()

    async def next(self) -> int:
        """A new producer id. Raises KafkaError COORDINATOR_NOT_AVAILABLE: the disk fails."""
        return await self._shielded_tasks.run(self._take())

    async def _take(self) -> int:
        async with self._claiming:
            if not self._claimed:
                start = self._store.current.next_producer_id
                try:
                    await self._store.commit(PRODUCER_IDS, lambda first: first + BLOCK_SIZE)
                except KafkaError as error:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.detail) from error
                self._claimed = range(start, start + BLOCK_SIZE)
            taken, self._claimed = self._claimed[0], self._claimed[1:]
            return taken
