from collections.abc import Mapping

import pytest

from broker_embedded._quotas.enforcement import UNUSED_MS, MutationAllowance, RateAllowance
from broker_embedded._quotas.entities import CLIENT_ID, USER, ClientQuotaEntity
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

NOW_MS = 100_000


def of_users(limits: Mapping[str | None, float]) -> dict[ClientQuotaEntity, float]:
    return {ClientQuotaEntity.of([(USER, user)]): limit for user, limit in limits.items()}


@pytest.fixture
def allowance() -> RateAllowance:
    return RateAllowance(11, 1000)


def test_without_quotas_nothing_is_measured(allowance: RateAllowance) -> None:
    assert not allowance.enabled
    assert allowance.record("ann", "etl", 10**9, NOW_MS) == 0
    allowance.note("ann", "etl", 10**9, NOW_MS)
    assert (len(allowance._meters._meters), allowance.most_at_once("ann", "etl")) == (0, float("inf"))


def test_a_client_above_its_quota_waits(allowance: RateAllowance) -> None:
    allowance.use(of_users({"ann": 100}))
    assert allowance.record("ann", "etl", 1000, NOW_MS) == 0
    assert allowance.record("ann", "etl", 500, NOW_MS) == 5000
    assert allowance.record("bob", "etl", 10**9, NOW_MS) == 0
    assert len(allowance._meters._meters) == 1
    assert allowance.most_at_once("ann", "x") == 1000
    assert allowance.most_at_once("bob", "x") == float("inf")


def test_clients_of_one_user_share_its_quota_and_users_have_each_their_own(allowance: RateAllowance) -> None:
    allowance.use(of_users({None: 100}))
    assert allowance.record("ann", "one", 800, NOW_MS) == 0
    assert allowance.record("ann", "two", 400, NOW_MS) == 2000
    assert allowance.record("bob", "one", 800, NOW_MS) == 0


def test_users_share_the_quota_of_a_client_id(allowance: RateAllowance) -> None:
    allowance.use({ClientQuotaEntity.of([(CLIENT_ID, "etl")]): 100})
    assert allowance.record("ann", "etl", 800, NOW_MS) == 0
    assert allowance.record("bob", "etl", 400, NOW_MS) == 2000


def test_mutations_taken_back_do_not_count(allowance: RateAllowance) -> None:
    allowance.use(of_users({"ann": 100}))
    assert allowance.record("ann", "", 2000, NOW_MS) == 10_000
    allowance.note("ann", "", -2000, NOW_MS)
    assert allowance.record("ann", "", 1000, NOW_MS) == 0


def test_a_quota_that_changes_holds_for_what_was_measured_before(allowance: RateAllowance) -> None:
    allowance.use(of_users({"ann": 1000}))
    assert allowance.record("ann", "", 5000, NOW_MS) == 0
    allowance.use(of_users({"ann": 100}))
    assert allowance.record("ann", "", 0, NOW_MS) == 40_000
    allowance.use({})
    assert allowance.record("ann", "", 10**9, NOW_MS) == 0


def test_the_wait_for_time_is_bounded() -> None:
    allowance = RateAllowance(11, 1000, longest_ms=1000)
    allowance.use(of_users({"ann": 1}))
    assert allowance.record("ann", "", 10**6, NOW_MS) == 1000


def test_idle_clients_are_forgotten_after_an_hour(allowance: RateAllowance) -> None:
    allowance.use(of_users({None: 100}))
    for number in range(50):
        allowance.record(f"user-{number}", "", 1, NOW_MS)
    later_ms = NOW_MS + UNUSED_MS - 1
    allowance.record("user-7", "", 1, later_ms)
    allowance.record("new", "", 1, later_ms + 1)
    assert len(allowance._meters._meters) == 2


@pytest.fixture
def mutations() -> MutationAllowance:
    found = MutationAllowance(11, 1000)
    found.use(of_users({"ann": 10}))
    return found


def test_a_strict_request_may_overdraw_once_and_is_refused_then(mutations: MutationAllowance) -> None:
    asked = mutations.of("ann", "", strict=True, now_ms=NOW_MS)
    asked.take(100, NOW_MS)
    asked.take(30, NOW_MS)
    assert asked.throttle_ms(NOW_MS) == 0
    with pytest.raises(KafkaError, match="controller_mutation_rate = 10 is exceeded; retry in 2000 ms") as caught:
        asked.take(1, NOW_MS)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert asked.throttle_ms(NOW_MS) == 2000
    assert asked.throttle_ms(NOW_MS + 500) == 1500
    assert asked.throttle_ms(NOW_MS + 5000) == 0
    mutations.of("ann", "", strict=True, now_ms=NOW_MS + 2000).take(1, NOW_MS + 2000)


def test_a_request_that_cannot_be_refused_is_slowed_down(mutations: MutationAllowance) -> None:
    asked = mutations.of("ann", "", strict=False, now_ms=NOW_MS)
    for _ in range(3):
        asked.take(50, NOW_MS)
    assert asked.throttle_ms(NOW_MS) == 4000


@pytest.mark.parametrize("strict", [False, True])
def test_other_users_are_not_throttled(mutations: MutationAllowance, strict: bool) -> None:
    asked = mutations.of("bob", "", strict=strict, now_ms=NOW_MS)
    for _ in range(100):
        asked.take(10_000, NOW_MS)
    assert asked.throttle_ms(NOW_MS) == 0
