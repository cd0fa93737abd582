import pytest

from broker_embedded._metadata.files.quotas import QUOTAS
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    OpData,
    RequestedEntityData,
    RequestedEntryData,
)
from tests.support.broker.driver import BrokerDriver, batch
from tests.support.broker.quotas import alter, describe, entry, formatted, quotas_of

EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.mark.parametrize("version", [0, 1])
def test_the_entities_that_match_the_filter_are_described(broker: BrokerDriver, version: int) -> None:
    alter(broker, {"user": "ann"}, producer_byte_rate=1024.0, request_percentage=12.5)
    alter(broker, {"user": "ann", "client-id": None}, consumer_byte_rate=5.0)
    alter(broker, {"client-id": "etl"}, consumer_byte_rate=6.0)
    response = describe(broker, ("user", EXACT, "ann"), version=version)
    assert (response.error_code, response.error_message) == (0, None)
    assert formatted(response) == {
        "user=ann": {"producer_byte_rate": 1024, "request_percentage": 12.5},
        "client-id=<default>, user=ann": {"consumer_byte_rate": 5},
    }
    assert len(formatted(describe(broker, version=version))) == 3
    assert list(formatted(describe(broker, ("user", ANY, None), strict=True))) == ["user=ann"]


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (("user", EXACT, None), ErrorCode.INVALID_REQUEST),
        (("", ANY, None), ErrorCode.INVALID_REQUEST),
        (("team", ANY, None), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_makes_no_sense(
    broker: BrokerDriver, component: tuple[str, int, str | None], code: ErrorCode
) -> None:
    response = describe(broker, component)
    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message


INVALID = ErrorCode.INVALID_REQUEST


def error(each: EntryData) -> ErrorCode:
    return ErrorCode.of(each.error_code)


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_and_removed(broker: BrokerDriver, version: int) -> None:
    request = AlterClientQuotasRequest(
        entries=(entry({"user": "ann"}, producer_byte_rate=1024.0), entry({"client-id": None}, request_percentage=50.0))
    )
    response = broker.ask(request, version)
    assert [(each.error_code, each.error_message) for each in response.entries] == [(0, None)] * 2
    assert [each.entity[0].entity_name for each in response.entries] == ["ann", None]
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
    response = broker.ask(request, 1)
    assert [(error(each), bool(each.error_message)) for each in response.entries] == [(INVALID, True)] * 3
    assert quotas_of(broker) == {"user=bob": {"producer_byte_rate": 1}}


def test_validate_only_changes_no_quota(broker: BrokerDriver) -> None:
    request = AlterClientQuotasRequest(entries=(entry({"user": "ann"}, producer_byte_rate=1.0),), validate_only=True)
    assert broker.ask(request, 1).entries[0].error_code == 0
    assert (quotas_of(broker), describe(broker).entries) == ({}, ())
    assert broker.ask(AlterClientQuotasRequest(), 1) == AlterClientQuotasResponse()


def test_the_last_of_duplicate_entity_types_counts(broker: BrokerDriver) -> None:
    parts = tuple(RequestedEntityData(entity_type="user", entity_name=name) for name in ("ann", "bob"))
    ops = (OpData(key="producer_byte_rate", value=1.0),)
    broker.ask(AlterClientQuotasRequest(entries=(RequestedEntryData(entity=parts, ops=ops),)), 1)
    assert quotas_of(broker) == {"user=bob": {"producer_byte_rate": 1}}


def test_a_quota_holds_as_soon_as_it_is_answered(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.ask(AlterClientQuotasRequest(entries=(entry({"client-id": "test"}, producer_byte_rate=100.0),)), 1)
    broker.produce("t", batch(b"x" * 2000))
    assert broker.cost.wait_ms > 5000


def test_every_entity_has_an_error_if_the_file_cannot_be_written(broker: BrokerDriver) -> None:
    (broker.data_dir / f"{QUOTAS.name}.tmp").mkdir()
    request = AlterClientQuotasRequest(
        entries=(entry({"user": "ann"}, producer_byte_rate=1.0), entry({"user": "bob"}, producer_byte_rate=1.0))
    )
    response = broker.ask(request, 1)
    assert [error(each) for each in response.entries] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert quotas_of(broker) == {}
