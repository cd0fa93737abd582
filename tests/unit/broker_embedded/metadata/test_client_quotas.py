import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.files.quotas import QUOTAS
from broker_embedded._platform.platform import FileSystem
from broker_embedded._quotas.entities import CLIENT_ID, IP, USER, ClientQuotaEntity, EntityFilter
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, MemoryFileSystem, new_disk
from tests.support.broker.metadata import at_once, open_store

ANN, ETL = ClientQuotaEntity.of([(USER, "ann")]), ClientQuotaEntity.of([(CLIENT_ID, "etl")])
RATE, PERCENT, CONNECTIONS = "producer_byte_rate", "request_percentage", "connection_creation_rate"
ResultT = TypeVar("ResultT")


class QuotasDriver:
    """Quotas on a disk with faults."""

    def __init__(self, disk: MemoryFileSystem) -> None:
        self.files = FaultyFileSystem(disk)
        self.quotas = opened(self.files)

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run(work)

    def alter(
        self, entity: ClientQuotaEntity, *, validate_only: bool = False, **values: float | None
    ) -> KafkaError | None:
        """Set quotas, None to remove one; the error."""
        ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
        return self.run(self.quotas.alter([(entity, ops)], validate_only=validate_only))[entity]

    def all(self) -> dict[ClientQuotaEntity, dict[str, float]]:
        return {entity: dict(values) for entity, values in self.quotas.describe(EntityFilter([], strict=False))}

    def restart(self) -> None:
        self.quotas = opened(self.files)


def opened(files: FileSystem) -> ClientQuotas:
    return ClientQuotas(open_store(files), BrokerConfig.parse({"quota.window.num": 11}), at_once)


@pytest.fixture
def driver() -> QuotasDriver:
    return QuotasDriver(new_disk())


def test_quotas_apply_at_once_and_after_a_restart(driver: QuotasDriver) -> None:
    assert driver.alter(ANN, producer_byte_rate=100.0, request_percentage=5.0) is None
    assert driver.alter(ETL, consumer_byte_rate=200.0, controller_mutation_rate=3.0) is None
    for _ in range(2):
        assert driver.quotas.produce.record("ann", "etl", 2000, 0) == 10_000
        assert driver.quotas.fetch.record("ann", "etl", 4000, 0) == 10_000
        assert driver.quotas.request.record("ann", "etl", 100, 0) == 1000
        asked = driver.quotas.mutations.of("bob", "etl", strict=False, now_ms=0)
        asked.take(36, 0)
        assert asked.throttle_ms(0) == 1000
        driver.restart()
    assert driver.all() == {
        ANN: {RATE: 100, PERCENT: 5},
        ETL: {"consumer_byte_rate": 200, "controller_mutation_rate": 3},
    }


def test_a_quota_that_is_removed_is_gone(driver: QuotasDriver) -> None:
    driver.alter(ANN, producer_byte_rate=100.0, request_percentage=5.0)
    driver.alter(ANN, producer_byte_rate=None)
    assert driver.all() == {ANN: {PERCENT: 5}}
    assert not driver.quotas.produce.enabled
    driver.alter(ANN, request_percentage=None)
    driver.restart()
    assert driver.all() == {}


def test_checking_changes_nothing(driver: QuotasDriver) -> None:
    assert driver.alter(ANN, validate_only=True, producer_byte_rate=100.0) is None
    refused = driver.alter(ANN, validate_only=True, producer_byte_rate=-1.0)
    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert driver.all() == {}
    assert not driver.files.exists(f"{DATA_DIR}/{QUOTAS.name}")


def test_an_error_of_one_entity_does_not_affect_the_others(driver: QuotasDriver) -> None:
    good, bad = OpData(key=RATE, value=5.0), OpData(key=RATE, value=0.0)
    results = driver.run(
        driver.quotas.alter([(ANN, [bad]), (ETL, [good]), (ETL, [OpData(key=RATE, value=9.0)])], validate_only=False)
    )
    codes = {entity: error.code if error else None for entity, error in results.items()}
    assert codes == {ANN: ErrorCode.INVALID_REQUEST, ETL: ErrorCode.INVALID_REQUEST}
    assert driver.all() == {ETL: {RATE: 5}}


def test_concurrent_changes_are_all_kept(driver: QuotasDriver) -> None:
    async def alter_together() -> None:
        entities = [ClientQuotaEntity.of([(USER, f"user-{number}")]) for number in range(20)]
        changes = ([(entity, [OpData(key=RATE, value=5.0)])] for entity in entities)
        await asyncio.gather(*(driver.quotas.alter(change, validate_only=False) for change in changes))

    driver.run(alter_together())
    assert len(driver.all()) == 20


def test_addresses_may_open_so_many_connections(driver: QuotasDriver) -> None:
    assert driver.quotas.connection_rate("10.0.0.1") == float("inf")
    driver.alter(ClientQuotaEntity.of([(IP, None)]), connection_creation_rate=7.0)
    driver.alter(ClientQuotaEntity.of([(IP, "10.0.0.1")]), connection_creation_rate=3.0)
    driver.alter(ClientQuotaEntity.of([(IP, "localhost")]), connection_creation_rate=4.0)
    for _ in range(2):
        rates = [driver.quotas.connection_rate(ip) for ip in ("10.0.0.1", "127.0.0.1", "10.0.0.2")]
        assert rates == [3, 4, 7]
        driver.restart()
    refused = driver.alter(ClientQuotaEntity.of([(IP, "no.such.host.invalid")]), connection_creation_rate=3.0)
    assert refused is not None
    assert refused.detail == "no.such.host.invalid must be an address or a host with an address"
