from collections.abc import Callable
from typing import Any

import pytest

from broker_embedded.config.config import BrokerConfig
from broker_embedded.server.admission import Admission, Refused

HERE, THERE = "127.0.0.1", "10.0.0.9"


class Door:
    """An admission under settings that a test may change, at a time that it says."""

    def __init__(self, **settings: Any) -> None:
        self.rates: dict[str, float] = {}
        self.now_ms = 5_000
        self.change(**settings)
        self.admission = Admission(lambda: self.config, lambda ip: self.rates.get(ip, float("inf")))

    def change(self, **settings: Any) -> None:
        """``max_connections=3`` is ``max.connections=3``."""
        self.config = BrokerConfig.parse({key.replace("_", "."): value for key, value in settings.items()})

    def come(self, ip: str = HERE, times: int = 1) -> None:
        for _ in range(times):
            self.admission.let_in(ip, self.now_ms)

    @property
    def wait_ms(self) -> int:
        return self.admission.wait_ms(self.now_ms)


def refusal(action: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value


def test_connections_are_counted_until_they_close() -> None:
    door = Door(max_connections=2)
    assert not door.admission.is_full(0)
    door.come(HERE)
    door.come(THERE)
    assert door.admission.is_full(0)
    door.admission.closed(HERE)
    assert (door.admission.total, door.admission.is_full(0)) == (1, False)


def test_a_limit_that_changes_holds_from_then_on() -> None:
    door = Door(max_connections=1)
    door.come()
    assert door.admission.is_full(0)
    door.change(max_connections=5)
    assert not door.admission.is_full(0)


def test_one_address_may_have_so_many_and_another_is_not_held_to_it() -> None:
    door = Door(max_connections_per_ip=2)
    door.come(HERE, 2)
    refused = refusal(door.come)
    assert (str(refused), refused.after_ms) == ("its address has 2 connections (max.connections.per.ip)", 0)
    door.come(THERE)
    door.admission.closed(HERE)
    door.come()
    assert door.admission.total == 3


def test_addresses_and_hosts_may_have_limits_of_their_own() -> None:
    door = Door(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.9:3, localhost:2, [::1]:0")
    door.come(THERE, 3)
    refusal(lambda: door.come(THERE))
    door.come(HERE, 2)
    refusal(lambda: door.come(HERE))
    refusal(lambda: door.come("::1"))
    door.change(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.9:4")
    door.come(THERE)
    assert door.admission.total == 6


def test_a_host_that_nobody_knows_has_no_limit_of_its_own() -> None:
    door = Door(max_connections_per_ip=1, max_connections_per_ip_overrides="no.such.host.invalid:3")
    door.come()
    refusal(door.come)


def test_connections_that_come_too_fast_wait_until_the_rate_is_kept() -> None:
    door = Door(max_connection_creation_rate=10, quota_window_num=2)
    door.come(times=10)
    assert door.wait_ms == 0
    door.come()
    # 11 in a window of one second, and one more window that counts as over: 1,000 ms * (11 - 10) / 10.
    assert door.wait_ms == 100
    door.now_ms += 100
    assert door.wait_ms == 0


def test_nobody_waits_longer_than_a_window() -> None:
    door = Door(max_connection_creation_rate=1, quota_window_num=2)
    door.come(times=100)
    assert door.wait_ms == 1000


def test_an_address_with_a_quota_is_refused_what_is_too_fast() -> None:
    door = Door(quota_window_num=2)
    door.rates[HERE] = 5
    door.come(times=5)
    refused = refusal(door.come)
    assert (refused.limit, refused.after_ms) == ("connection_creation_rate", 200)
    door.come(THERE, 50)
    door.now_ms += 200
    door.come()
    assert door.admission.total == 56


def test_rates_of_addresses_that_are_gone_are_forgotten() -> None:
    door = Door()
    for number in range(1000):
        ip = f"10.1.{number // 250}.{number % 250}"
        door.rates[ip] = 5
        door.come(ip)
    door.now_ms += 60_000
    door.rates[HERE] = 5
    door.come()
    assert list(door.admission._rates) == [HERE]
