from collections.abc import Callable
from typing import Any

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._server.connection_quotas import ConnectionQuotas, TooManyConnections

HERE, THERE = "127.0.0.1", "10.0.0.9"


class Listener:
    """Connection quotas whose settings and time a test may change."""

    def __init__(self, **settings: Any) -> None:
        self.rates: dict[str, float] = {}
        self.now_ms = 5_000
        self.change(**settings)
        self.connection_quotas = ConnectionQuotas(lambda: self.config, lambda ip: self.rates.get(ip, float("inf")))

    def change(self, **settings: Any) -> None:
        """``max_connections=3`` is ``max.connections=3``."""
        self.config = BrokerConfig.parse({key.replace("_", "."): value for key, value in settings.items()})

    def come(self, ip: str = HERE, times: int = 1) -> None:
        for _ in range(times):
            self.connection_quotas.inc(ip, self.now_ms)

    @property
    def wait_ms(self) -> int:
        return self.connection_quotas.wait_ms(self.now_ms)


def refusal(action: Callable[[], object]) -> TooManyConnections:
    with pytest.raises(TooManyConnections) as caught:
        action()
    return caught.value


def test_connections_are_counted_until_they_close() -> None:
    listener = Listener(max_connections=2)
    assert not listener.connection_quotas.is_full(0)
    listener.come(HERE)
    listener.come(THERE)
    assert listener.connection_quotas.is_full(0)
    listener.connection_quotas.dec(HERE)
    assert (listener.connection_quotas.total, listener.connection_quotas.is_full(0)) == (1, False)


def test_a_limit_that_changes_holds_from_then_on() -> None:
    listener = Listener(max_connections=1)
    listener.come()
    assert listener.connection_quotas.is_full(0)
    listener.change(max_connections=5)
    assert not listener.connection_quotas.is_full(0)


def test_max_connections_per_ip_limits_each_address_by_itself() -> None:
    listener = Listener(max_connections_per_ip=2)
    listener.come(HERE, 2)
    refused = refusal(listener.come)
    assert (str(refused), refused.after_ms) == ("its address has 2 connections (max.connections.per.ip)", 0)
    listener.come(THERE)
    listener.connection_quotas.dec(HERE)
    listener.come()
    assert listener.connection_quotas.total == 3


def test_addresses_and_hosts_may_have_limits_of_their_own() -> None:
    listener = Listener(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.9:3, localhost:2, [::1]:0")
    listener.come(THERE, 3)
    refusal(lambda: listener.come(THERE))
    listener.come(HERE, 2)
    refusal(lambda: listener.come(HERE))
    refusal(lambda: listener.come("::1"))
    listener.change(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.9:4")
    listener.come(THERE)
    assert listener.connection_quotas.total == 6


def test_an_unknown_host_has_no_limit_of_its_own() -> None:
    listener = Listener(max_connections_per_ip=1, max_connections_per_ip_overrides="no.such.host.invalid:3")
    listener.come()
    refusal(listener.come)


def test_connections_that_come_too_fast_wait_until_the_rate_is_kept() -> None:
    listener = Listener(max_connection_creation_rate=10, quota_window_num=2)
    listener.come(times=10)
    assert listener.wait_ms == 0
    listener.come()
    # 11 in a window of one second, and one more window that counts as over: 1,000 ms * (11 - 10) / 10.
    assert listener.wait_ms == 100
    listener.now_ms += 100
    assert listener.wait_ms == 0


def test_a_wait_is_at_most_a_window() -> None:
    listener = Listener(max_connection_creation_rate=1, quota_window_num=2)
    listener.come(times=100)
    assert listener.wait_ms == 1000


def test_an_address_with_a_quota_is_refused_what_is_too_fast() -> None:
    listener = Listener(quota_window_num=2)
    listener.rates[HERE] = 5
    listener.come(times=5)
    refused = refusal(listener.come)
    assert (refused.limit, refused.after_ms) == ("connection_creation_rate", 200)
    listener.come(THERE, 50)
    listener.now_ms += 200
    listener.come()
    assert listener.connection_quotas.total == 56


def test_rates_of_addresses_that_are_gone_are_forgotten() -> None:
    listener = Listener()
    for number in range(1000):
        ip = f"10.1.{number // 250}.{number % 250}"
        listener.rates[ip] = 5
        listener.come(ip)
    listener.now_ms += 60_000
    listener.rates[HERE] = 5
    listener.come()
    assert list(listener.connection_quotas._rates) == [HERE]
