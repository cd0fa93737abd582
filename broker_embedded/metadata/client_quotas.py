"""The quotas of this broker: in force, on the disk, and changed without a moment in which they are neither.

Changing quotas:

1. The changes are checked against what there is. Crash here: nothing has happened.
2. ``client-quotas.json`` is replaced by one that has them. Crash here: the next start reads it.
3. They hold from here on; the request is answered.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker_embedded.config.addresses import addresses_of
from broker_embedded.config.config import BrokerConfig
from broker_embedded.metadata import quotas_file
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.platform import FileSystem, read_file
from broker_embedded.platform.stored_files import OnDisk, replace_file
from broker_embedded.quotas.enforcement import MutationAllowance, RateAllowance
from broker_embedded.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    EntityFilter,
    Values,
    altered,
)
from broker_embedded.quotas.limits import NOT_LIMITED
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.alter_client_quotas import OpData

logger = logging.getLogger(__name__)

FILE_NAME: Final = "client-quotas.json"


class ClientQuotasError(Exception):
    """The file of quotas cannot be understood, so that no client would be held back; ``str()`` names it."""


class ClientQuotas:
    """All quotas. Changes take turns; each one that has begun is brought to its end."""

    def __init__(
        self, *, config: BrokerConfig, data_dir: str, file_system: FileSystem, on_disk: OnDisk, finishing: Finishing
    ) -> None:
        """Read the file, if there is one. Raises OSError, ClientQuotasError."""
        samples, window_ms = config.quota_window_num, config.quota_window_size_seconds * 1000
        self.produce = RateAllowance(samples, window_ms)
        self.fetch = RateAllowance(samples, window_ms)
        self.request = RateAllowance(samples, window_ms, longest_ms=window_ms)
        self.mutations = MutationAllowance(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._path = os.path.join(data_dir, FILE_NAME)
        self._file_system = file_system
        self._on_disk = on_disk
        self._finishing = finishing
        self._turn = asyncio.Lock()
        stored = self._read()
        self._use(stored, _connection_rates(stored))

    def _read(self) -> Mapping[Entity, Values]:
        if not self._file_system.exists(self._path):
            return {}
        try:
            return quotas_file.decode(read_file(self._file_system, self._path))
        except quotas_file.QuotasFileError as error:
            raise ClientQuotasError(f"{self._path}: {error}") from error

    def describe(self, wanted: EntityFilter) -> list[tuple[Entity, Values]]:
        """The entities that a filter lets through, with their quotas."""
        return [(entity, values) for entity, values in self._quotas.items() if wanted.matches(entity)]

    async def alter(
        self, changes: Iterable[tuple[Entity, Sequence[OpData]]], *, validate_only: bool
    ) -> dict[Entity, KafkaError | None]:
        """Change quotas, each entity by itself, or only say what would come of it; what was wrong, by entity.

        Raises KafkaError KAFKA_STORAGE_ERROR: the old quotas stand, or if the last step of writing failed, the new.
        """
        return await self._finishing.finish(self._alter(list(changes), validate_only))

    async def _alter(
        self, changes: list[tuple[Entity, Sequence[OpData]]], validate_only: bool
    ) -> dict[Entity, KafkaError | None]:
        async with self._turn:
            quotas, results = await self._planned(changes)
            if validate_only or quotas == self._quotas:
                return results
            await replace_file(self._on_disk, self._file_system, self._path, quotas_file.encode(quotas))
            self._use(quotas, await self._on_disk(lambda: _connection_rates(quotas)))
            return results

    async def _planned(
        self, changes: list[tuple[Entity, Sequence[OpData]]]
    ) -> tuple[dict[Entity, Values], dict[Entity, KafkaError | None]]:
        quotas = dict(self._quotas)
        results: dict[Entity, KafkaError | None] = {}
        for entity, ops in changes:
            if entity in results:  # as in Apache Kafka the first change holds, and the answer says otherwise
                results[entity] = KafkaError(ErrorCode.INVALID_REQUEST, f"{entity} is named twice")
                continue
            try:
                values = altered(entity, ops, quotas.get(entity, {}))
                await self._check_address(entity)
            except KafkaError as error:
                results[entity] = error
                continue
            results[entity] = None
            quotas.pop(entity, None)
            if values:
                quotas[entity] = values
        return quotas, results

    async def _check_address(self, entity: Entity) -> None:
        name = entity.get(IP)
        if name and not await self._on_disk(lambda: addresses_of(name)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is neither an address nor a host that has one")

    def _use(self, quotas: Mapping[Entity, Values], connection_rates: dict[str, float]) -> None:
        self._quotas = quotas

        def of(key: str) -> dict[Entity, float]:
            return {entity: values[key] for entity, values in quotas.items() if key in values}

        self.produce.use(of(PRODUCER_BYTE_RATE))
        self.fetch.use(of(CONSUMER_BYTE_RATE))
        self.request.use(of(REQUEST_PERCENTAGE))
        self.mutations.use(of(CONTROLLER_MUTATION_RATE))
        self._connection_rates = connection_rates
        default = quotas.get(Entity.of([(IP, None)]), {})
        self._default_connection_rate = default.get(CONNECTION_CREATION_RATE, NOT_LIMITED)

    def connection_rate(self, address: str) -> float:
        """How many connections a second one address may open; infinity without a quota."""
        return self._connection_rates.get(address, self._default_connection_rate)


def _connection_rates(quotas: Mapping[Entity, Values]) -> dict[str, float]:
    """How many connections a second each address may open. May wait for a name server, where hosts are named."""
    rates: dict[str, float] = {}
    for entity, values in quotas.items():
        name = entity.get(IP)
        if name and CONNECTION_CREATION_RATE in values:
            addresses = addresses_of(name)
            if not addresses:
                logger.warning("the quota of %s holds for nobody: the host has no address", entity)
            rates.update(dict.fromkeys(addresses, values[CONNECTION_CREATION_RATE]))
    return rates
