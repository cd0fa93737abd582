"""Whose quota holds for a client: the most specific one."""

import itertools

import pytest

from broker_embedded.quotas.entities import CLIENT_ID, USER, ClientQuotaEntity
from broker_embedded.quotas.limits import NOT_LIMITED, Limits

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


def limits(*indices: int) -> Limits:
    return Limits({ClientQuotaEntity.of(ORDER[index]): float(index + 1) for index in indices})


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
def test_others_have_the_defaults(user: str, client_id: str, expected: int) -> None:
    found = limits(*range(8))
    assert found.of(found.owner(user, client_id)) == expected


def test_nobody_else_is_limited() -> None:
    found = limits(0, 2, 6)
    assert found.of(found.owner("bob", "web")) == NOT_LIMITED
    assert found.of(("", "")) == NOT_LIMITED


def test_who_has_a_default_does_not_share_it() -> None:
    found = limits(5)
    assert found.owner("ann", "etl") == found.owner("ann", "web") == ("ann", "")
    assert found.owner("bob", "etl") == ("bob", "")
