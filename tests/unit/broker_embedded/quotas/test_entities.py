import itertools
from collections.abc import Callable

import pytest

from broker_embedded._quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotaEntity,
    EntityFilter,
    altered,
)
from broker_embedded._quotas.limits import NOT_LIMITED, QuotaLimits
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData
from spark_kafka_native._protocol.messages.describe_client_quotas import ComponentData
from tests.support.refusals import refused

ANN = ClientQuotaEntity.of([(USER, "ann")])
HOST = ClientQuotaEntity.of([(IP, "10.0.0.1")])
EXACT, DEFAULT, ANY = 0, 1, 2


def put(key: str, value: float) -> OpData:
    return OpData(key=key, value=value)


def drop(key: str) -> OpData:
    return OpData(key=key, remove=True)


def refusal(action: Callable[[], object]) -> tuple[ErrorCode, str]:
    error = refused(action)
    return error.code, error.detail


def test_entities_are_the_same_in_any_order_and_say_what_they_are() -> None:
    parts: list[tuple[str, str | None]] = [(CLIENT_ID, None), (USER, "ann")]
    entity = ClientQuotaEntity.of(parts)
    assert entity == ClientQuotaEntity.of(reversed(parts))
    assert str(entity) == "user ann, client-id <default>"
    assert (entity.get(USER), entity.get(CLIENT_ID), entity.get(IP)) == ("ann", None, "")
    assert [entity.has(kind) for kind in (USER, CLIENT_ID, IP)] == [True, True, False]
    assert ClientQuotaEntity.of([(USER, "a"), (USER, "b")]) == ClientQuotaEntity.of([(USER, "b")])


def test_quotas_are_set_replaced_and_removed() -> None:
    values = altered(ANN, [put(PRODUCER_BYTE_RATE, 1024.0), put(REQUEST_PERCENTAGE, 12.5)], {})
    assert values == {PRODUCER_BYTE_RATE: 1024, REQUEST_PERCENTAGE: 12.5}
    values = altered(ANN, [put(PRODUCER_BYTE_RATE, 1), drop(REQUEST_PERCENTAGE), drop("never heard of")], values)
    assert values == {PRODUCER_BYTE_RATE: 1}
    assert altered(ANN, [drop(PRODUCER_BYTE_RATE)], values) == {}
    assert altered(HOST, [put(CONNECTION_CREATION_RATE, 3)], {}) == {CONNECTION_CREATION_RATE: 3}


@pytest.mark.parametrize(
    ("entity", "ops", "said"),
    [
        (ClientQuotaEntity.of([]), [], "an entity needs a user, a client-id or an ip"),
        (
            ClientQuotaEntity.of([("team", "x")]),
            [],
            "'team' is not a type of entity; the types are user, client-id, ip",
        ),
        (ClientQuotaEntity.of([(USER, "")]), [], "the name of a user must not be empty"),
        (ClientQuotaEntity.of([(USER, "ann"), (IP, None)]), [], "an ip cannot be combined with a user or a client-id"),
        (ANN, [put(CONNECTION_CREATION_RATE, 1)], "'connection_creation_rate' is not a quota of such an entity"),
        (HOST, [put(PRODUCER_BYTE_RATE, 1)], "its quotas are connection_creation_rate"),
        (ANN, [put("fun", 1)], "'fun' is not a quota of such an entity"),
        (ANN, [put(PRODUCER_BYTE_RATE, 1), put(PRODUCER_BYTE_RATE, 2)], "producer_byte_rate is repeated"),
        (ANN, [put(CONSUMER_BYTE_RATE, 0)], "consumer_byte_rate must be greater than 0, not 0"),
        (ANN, [put(CONTROLLER_MUTATION_RATE, -1)], "controller_mutation_rate must be greater than 0"),
        (ANN, [put(REQUEST_PERCENTAGE, float("nan"))], "request_percentage must be greater than 0"),
        (ANN, [put(PRODUCER_BYTE_RATE, 1.5)], "producer_byte_rate must be a whole number, not 1.5"),
        (ANN, [put(PRODUCER_BYTE_RATE, 1e30)], "producer_byte_rate must not be greater than 9223372036854775807"),
        (HOST, [put(CONNECTION_CREATION_RATE, 2**31)], "must not be greater than 2147483647"),
    ],
)
def test_invalid_quotas_are_refused(entity: ClientQuotaEntity, ops: list[OpData], said: str) -> None:
    code, detail = refusal(lambda: altered(entity, ops, {}))
    assert code is ErrorCode.INVALID_REQUEST
    assert said in detail


def wanted(*components: tuple[str, int, str | None], strict: bool = False) -> EntityFilter:
    return EntityFilter(
        (ComponentData(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components),
        strict=strict,
    )


ALL: dict[str, list[tuple[str, str | None]]] = {
    "ann": [(USER, "ann")],
    "any user": [(USER, None)],
    "etl": [(CLIENT_ID, "etl")],
    "ann etl": [(USER, "ann"), (CLIENT_ID, "etl")],
    "ann any": [(USER, "ann"), (CLIENT_ID, None)],
    "host": [(IP, "10.0.0.1")],
}


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, set(ALL)),
        ([], True, set()),
        ([(USER, EXACT, "ann")], False, {"ann", "ann etl", "ann any"}),
        ([(USER, EXACT, "ann")], True, {"ann"}),
        ([(USER, DEFAULT, None)], False, {"any user"}),
        ([(USER, ANY, None)], False, {"ann", "any user", "ann etl", "ann any"}),
        ([(USER, ANY, None)], True, {"ann", "any user"}),
        ([(USER, ANY, None), (CLIENT_ID, EXACT, "etl")], False, {"ann etl"}),
        ([(CLIENT_ID, DEFAULT, None)], False, {"ann any"}),
        ([(IP, ANY, None)], True, {"host"}),
        ([(USER, EXACT, "bob")], False, set()),
    ],
)
def test_quota_filters_match_entities(
    components: list[tuple[str, int, str | None]], strict: bool, expected: set[str]
) -> None:
    for order in itertools.permutations(components):
        found = wanted(*order, strict=strict)
        assert {name for name, parts in ALL.items() if found.matches(ClientQuotaEntity.of(parts))} == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("team", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([(USER, EXACT, "x"), (USER, ANY, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, ANY, None), (USER, DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([(USER, ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([(USER, 3, None)], ErrorCode.INVALID_REQUEST),
        ([(IP, ANY, None), (USER, ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    assert refusal(lambda: wanted(*components))[0] is code


ORDER: list[list[tuple[str, str | None]]] = [
    [(USER, "ann"), (CLIENT_ID, "etl")],
    [(USER, "ann"), (CLIENT_ID, None)],
    [(USER, "ann")],
    [(USER, None), (CLIENT_ID, "etl")],
    [(USER, None), (CLIENT_ID, None)],
    [(USER, None)],
    [(CLIENT_ID, "etl")],
    [(CLIENT_ID, None)],
]
"""Entities that hold for user ann with client id etl, the most specific one first."""
OWNERS = [
    ("ann", "etl"),
    ("ann", "etl"),
    ("ann", ""),
    ("ann", "etl"),
    ("ann", "etl"),
    ("ann", ""),
    ("", "etl"),
    ("", "etl"),
]


def limits(*indices: int) -> QuotaLimits:
    return QuotaLimits({ClientQuotaEntity.of(ORDER[index]): float(index + 1) for index in indices})


@pytest.mark.parametrize("indices", [c for n in (1, 2, 3, 8) for c in itertools.combinations(range(8), n)])
def test_the_most_specific_of_several_holds(indices: tuple[int, ...]) -> None:
    found = limits(*indices)
    owner = found.owner("ann", "etl")
    assert owner == OWNERS[indices[0]]
    assert found.of(owner) == indices[0] + 1


@pytest.mark.parametrize(
    ("user", "client_id", "expected"),
    [("bob", "etl", 4), ("bob", "web", 5), ("ann", "web", 2), ("ann", "", 3), ("bob", "", 6), ("", "web", 8)],
)
def test_entities_without_a_quota_have_the_default(user: str, client_id: str, expected: int) -> None:
    found = limits(*range(8))
    assert found.of(found.owner(user, client_id)) == expected


def test_other_entities_have_no_limit() -> None:
    found = limits(0, 2, 6)
    assert found.of(found.owner("bob", "web")) == NOT_LIMITED
    assert found.of(("", "")) == NOT_LIMITED


def test_a_default_quota_is_counted_for_each_entity() -> None:
    found = limits(5)
    assert found.owner("ann", "etl") == found.owner("ann", "web") == ("ann", "")
    assert found.owner("bob", "etl") == ("bob", "")
