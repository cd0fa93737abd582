"""The client quotas of this broker. `_metadata.store` has the steps of a change."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from broker_embedded._config.addresses import addresses_of
from broker_embedded._config.config import BrokerConfig
from broker_embedded._metadata.files.quotas import QUOTAS
from broker_embedded._metadata.store import MetadataStore
from broker_embedded._platform.worker_threads import OnDisk
from broker_embedded._quotas.enforcement import MutationAllowance, RateAllowance
from broker_embedded._quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotaEntity,
    EntityFilter,
    Values,
    altered,
)
from broker_embedded._quotas.limits import NOT_LIMITED
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData

logger = logging.getLogger(__name__)


class ClientQuotas:
    """All client quotas, and their enforcement. Belongs to the event loop."""

    def __init__(self, store: MetadataStore, config: BrokerConfig, on_disk: OnDisk) -> None:
        """Resolve the addresses of hosts that have a quota. Blocks."""
        samples, window_ms = config.quota_window_num, config.quota_window_size_seconds * 1000
        self.produce = RateAllowance(samples, window_ms)
        self.fetch = RateAllowance(samples, window_ms)
        self.request = RateAllowance(samples, window_ms, longest_ms=window_ms)
        self.mutations = MutationAllowance(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._store = store
        self._on_disk = on_disk
        self._use(self._quotas, _connection_rates(self._quotas))
        store.watch(QUOTAS, self._apply)

    @property
    def _quotas(self) -> Mapping[ClientQuotaEntity, Values]:
        return self._store.current.quotas

    def describe(self, wanted: EntityFilter) -> list[tuple[ClientQuotaEntity, Values]]:
        """The entities that match a filter, with their quotas."""
        return [(entity, values) for entity, values in self._quotas.items() if wanted.matches(entity)]

    async def alter(
        self, changes: Iterable[tuple[ClientQuotaEntity, Sequence[OpData]]], *, validate_only: bool
    ) -> dict[ClientQuotaEntity, KafkaError | None]:
        """Change quotas, each entity independently, or only check the changes; the error or None, by entity.

        Raises KafkaError KAFKA_STORAGE_ERROR: the file has the old quotas, or if the last step failed, the new ones.
        """
        wanted = list(changes)
        hosts = {name for entity, _ in wanted if (name := entity.get(IP))}
        unknown = await self._on_disk(lambda: {name for name in hosts if not addresses_of(name)})
        results: dict[ClientQuotaEntity, KafkaError | None] = {}

        def planned(now: Mapping[ClientQuotaEntity, Values]) -> Mapping[ClientQuotaEntity, Values]:
            quotas = dict(now)
            for entity, ops in wanted:
                if entity in results:  # as in Apache Kafka the first change is made, and the response has this error
                    results[entity] = KafkaError(
                        ErrorCode.INVALID_REQUEST, f"the request contains {entity} more than once"
                    )
                    continue
                try:
                    values = altered(entity, ops, quotas.get(entity, {}))
                    if (name := entity.get(IP)) in unknown:
                        raise KafkaError(
                            ErrorCode.INVALID_REQUEST, f"{name} must be an address or a host with an address"
                        )
                except KafkaError as error:
                    results[entity] = error
                    continue
                results[entity] = None
                quotas.pop(entity, None)
                if values:
                    quotas[entity] = values
            return quotas

        if validate_only:
            planned(self._quotas)
        else:
            await self._store.commit(QUOTAS, planned)
        return results

    async def _apply(self, _: object, after: Mapping[ClientQuotaEntity, Values]) -> None:
        self._use(after, await self._on_disk(lambda: _connection_rates(after)))

    def _use(self, quotas: Mapping[ClientQuotaEntity, Values], connection_rates: dict[str, float]) -> None:
        def of(key: str) -> dict[ClientQuotaEntity, float]:
            return {entity: values[key] for entity, values in quotas.items() if key in values}

        self.produce.use(of(PRODUCER_BYTE_RATE))
        self.fetch.use(of(CONSUMER_BYTE_RATE))
        self.request.use(of(REQUEST_PERCENTAGE))
        self.mutations.use(of(CONTROLLER_MUTATION_RATE))
        self._connection_rates = connection_rates
        default = quotas.get(ClientQuotaEntity.of([(IP, None)]), {})
        self._default_connection_rate = default.get(CONNECTION_CREATION_RATE, NOT_LIMITED)

    def connection_rate(self, address: str) -> float:
        """The limit of connections per second of an address; infinity without a quota."""
        return self._connection_rates.get(address, self._default_connection_rate)


def _connection_rates(quotas: Mapping[ClientQuotaEntity, Values]) -> dict[str, float]:
    """The limit of connections per second of each address. May wait for a name server to resolve hosts."""
    rates: dict[str, float] = {}
    for entity, values in quotas.items():
        name = entity.get(IP)
        if name and CONNECTION_CREATION_RATE in values:
            addresses = addresses_of(name)
            if not addresses:
                logger.warning("the quota of %s has no effect: the host has no address", entity)
            rates.update(dict.fromkeys(addresses, values[CONNECTION_CREATION_RATE]))
    return rates
