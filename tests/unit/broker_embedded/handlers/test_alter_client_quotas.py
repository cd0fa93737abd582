"""AlterClientQuotas: quotas are set and removed, entity by entity, and hold from the answer on."""

import pytest

from broker_embedded.metadata.files.quotas import QUOTAS
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    OpData,
    RequestedEntityData,
    RequestedEntryData,
)
from tests.support.broker_driver import BrokerDriver, batch
from tests.support.quotas import entry, quotas_of

INVALID = ErrorCode.INVALID_REQUEST


def error(each: EntryData) -> ErrorCode:
    return ErrorCode.of(each.error_code)


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_and_removed(broker: BrokerDriver, version: int) -> None:
    request = AlterClientQuotasRequest(
        entries=(entry({"user": "ann"}, producer_byte_rate=1024.0), entry({"client-id": None}, request_percentage=50.0))
    )
    answer = broker.ask(request, version)
    assert [(each.error_code, each.error_message) for each in answer.entries] == [(0, None)] * 2
    assert [each.entity[0].entity_name for each in answer.entries] == ["ann", None]
    assert quotas_of(broker) == {
        "user=ann": {"producer_byte_rate": 1024},
        "client-id=<default>": {"request_percentage": 50},
    }
    broker.ask(AlterClientQuotasRequest(entries=(entry({"user": "ann"}, producer_byte_rate=None),)), version)
    broker.crash()
    assert quotas_of(broker) == {"client-id=<default>": {"request_percentage": 50}}


def test_each_entity_is_answered_by_itself(broker: BrokerDriver) -> None:
    request = AlterClientQuotasRequest(
        entries=(
            entry({"user": "ann"}, producer_byte_rate=-1.0),
            entry({"user": "bob"}, producer_byte_rate=1.0),
            entry({"user": "bob"}, producer_byte_rate=2.0),
            entry({}, producer_byte_rate=1.0),
        )
    )
    answer = broker.ask(request, 1)
    assert [(error(each), bool(each.error_message)) for each in answer.entries] == [(INVALID, True)] * 3
    assert quotas_of(broker) == {"user=bob": {"producer_byte_rate": 1}}


def test_validation_alone_changes_nothing(broker: BrokerDriver) -> None:
    request = AlterClientQuotasRequest(entries=(entry({"user": "ann"}, producer_byte_rate=1.0),), validate_only=True)
    assert broker.ask(request, 1).entries[0].error_code == 0
    assert quotas_of(broker) == {}


def test_a_part_of_an_entity_that_is_named_twice_counts_as_said_last(broker: BrokerDriver) -> None:
    parts = tuple(RequestedEntityData(entity_type="user", entity_name=name) for name in ("ann", "bob"))
    ops = (OpData(key="producer_byte_rate", value=1.0),)
    broker.ask(AlterClientQuotasRequest(entries=(RequestedEntryData(entity=parts, ops=ops),)), 1)
    assert quotas_of(broker) == {"user=bob": {"producer_byte_rate": 1}}


def test_a_quota_holds_as_soon_as_it_is_answered(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.ask(AlterClientQuotasRequest(entries=(entry({"client-id": "test"}, producer_byte_rate=100.0),)), 1)
    broker.produce("t", batch(b"x" * 2000))
    assert broker.throttle.wait_ms > 5000


def test_a_file_that_cannot_be_written_is_said_of_every_entity(broker: BrokerDriver) -> None:
    (broker.data_dir / f"{QUOTAS.name}.tmp").mkdir()
    request = AlterClientQuotasRequest(
        entries=(entry({"user": "ann"}, producer_byte_rate=1.0), entry({"user": "bob"}, producer_byte_rate=1.0))
    )
    answer = broker.ask(request, 1)
    assert [error(each) for each in answer.entries] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert quotas_of(broker) == {}


def test_nothing_is_answered_with_nothing(broker: BrokerDriver) -> None:
    assert broker.ask(AlterClientQuotasRequest(), 1) == AlterClientQuotasResponse()
