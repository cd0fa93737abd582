"""Limits of the number and the creation rate of connections, as Kafka's ConnectionQuotas.

Over ``max.connections``, over the connections' share of file descriptors, or over ``max.connection.creation.rate`` no
connection is refused: new ones wait in the system's backlog. A connection over ``max.connections.per.ip`` or over a
quota on its address is refused.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from broker_embedded._config.addresses import addresses_of
from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.open_files import connection_share
from broker_embedded._quotas.limits import NOT_LIMITED
from broker_embedded._quotas.rates import SampledRate
from spark_kafka_native._protocol.errors import counted

NO_RATE_LIMIT: Final = 2**31 - 1
_FORGET_RATES_AFTER: Final = 1000
"""Number of known addresses at which those without a present rate are dropped."""


class TooManyConnections(Exception):
    """The connection is refused; ``str()`` is the reason. It must be closed in ``after_ms``."""

    def __init__(self, limit: str, reason: str, after_ms: int = 0) -> None:
        super().__init__(reason)
        self.limit = limit
        self.after_ms = after_ms


class ConnectionQuotas:
    """Counts the connections of all listeners, and decides about the next one."""

    def __init__(self, config: Callable[[], BrokerConfig], rate_of: Callable[[str], float]) -> None:
        """``config`` returns the present settings, ``rate_of`` the limit of connections per second of an address."""
        self._config = config
        self._rate_of = rate_of
        self.total = 0
        """Number of accepted connections that are open."""
        self._per_ip: Counter[str] = Counter()
        first = config()
        self._samples, self._window_ms = first.quota_window_num, first.quota_window_size_seconds * 1000
        self._rate = SampledRate(self._samples, self._window_ms)
        self._rates: dict[str, SampledRate] = {}
        self._held_until_ms = 0
        self._descriptors = connection_share()
        self._overrides_text: tuple[str, ...] = ()
        self._overrides: Mapping[str, int] = {}

    @property
    def limit(self) -> tuple[int, str]:
        """The limit of open connections, and its name."""
        configured = self._config().max_connections
        if self._descriptors is None or configured <= self._descriptors:
            return configured, "max.connections"
        return self._descriptors, "their share of the open files that the system allows, see ulimit -n"

    def is_full(self, held: int) -> bool:
        """Whether the next connection must wait until another one closes. ``held`` ones are refused but still open."""
        return self.total + held >= self.limit[0]

    def wait_ms(self, now_ms: int) -> int:
        """How long the next connection must wait by max.connection.creation.rate."""
        return max(0, self._held_until_ms - now_ms)

    def inc(self, ip: str, now_ms: int) -> None:
        """Count a connection. Raises TooManyConnections: it is not counted."""
        config = self._config()
        allowed = self._overrides_of(config).get(ip, config.max_connections_per_ip)
        if self._per_ip[ip] >= allowed:
            reason = f"its address has {counted(self._per_ip[ip], 'connection')} (max.connections.per.ip)"
            raise TooManyConnections("max.connections.per.ip", reason)
        self._check_rate(ip, now_ms)
        self.total += 1
        self._per_ip[ip] += 1
        if config.max_connection_creation_rate < NO_RATE_LIMIT:
            self._rate.record(1, now_ms)
            excess_ms = self._rate.excess_ms(max(1, config.max_connection_creation_rate), now_ms)
            self._held_until_ms = now_ms + min(excess_ms, self._window_ms)

    def dec(self, ip: str) -> None:
        """Uncount a connection that was closed."""
        self.total -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]

    def _check_rate(self, ip: str, now_ms: int) -> None:
        limit = self._rate_of(ip)
        if limit == NOT_LIMITED:
            return
        rate = self._rates.get(ip)
        if rate is None:
            if len(self._rates) >= _FORGET_RATES_AFTER:
                self._rates = {known: rate for known, rate in self._rates.items() if rate.per_second(now_ms) > 0}
            rate = self._rates[ip] = SampledRate(self._samples, self._window_ms)
        rate.record(1, now_ms)
        excess_ms = rate.excess_ms(limit, now_ms)
        if excess_ms:
            rate.record(-1, now_ms)  # a refused connection does not count
            reason = f"its address may open no more a second (connection_creation_rate = {limit:g})"
            raise TooManyConnections("connection_creation_rate", reason, min(excess_ms, self._window_ms))

    def _overrides_of(self, config: BrokerConfig) -> Mapping[str, int]:
        if config.max_connections_per_ip_overrides != self._overrides_text:
            self._overrides_text = config.max_connections_per_ip_overrides
            self._overrides = {
                address: count
                for host, count in config.connection_overrides().items()
                for address in addresses_of(host)
            }
        return self._overrides
