"""Retries: the pauses between them, their log lines, and the error after the deadline."""

import logging
import random
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

T = TypeVar("T")

_JITTER = 0.2
_TRANSPORT = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


def is_transient(error: KafkaError) -> bool:
    """Whether to retry a request that changes nothing.

    Also after UNKNOWN_SERVER_ERROR, as in Java's consumer (FetchCollector, OffsetFetcherUtils), because the broker's
    error may be transient.
    """
    return error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def jitter() -> float:
    """A factor for pauses, so that clients do not retry at the same time (KIP-580)."""
    return random.uniform(1 - _JITTER, 1 + _JITTER)


class Backoff:
    """Pauses that double up to a bound, each longer or shorter by up to a fifth (KIP-580)."""

    def __init__(self, first_ms: float, max_ms: float, *, jitter: float | None = None) -> None:
        """``jitter`` is a factor for all pauses (`jitter`); None: another one for each."""
        self._first_ms = min(first_ms, max_ms)
        self._jitter = jitter
        self._max_ms = max_ms
        self._next_ms = self._first_ms

    def next_ms(self) -> float:
        """The pause before the next retry."""
        pause = self._next_ms
        self._next_ms = min(2 * pause, self._max_ms)
        return min(pause * (self._jitter or jitter()), self._max_ms)

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._next_ms = self._first_ms


class FailedAttempts:
    """The addresses where attempts failed, each with the last useful reason."""

    def __init__(self) -> None:
        self.reasons: dict[HostPort, str] = {}

    def __str__(self) -> str:
        return "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())

    def add(self, address: HostPort, error: KafkaError, *, is_last: bool) -> None:
        """``is_last``: no time is left for another attempt."""
        match error:
            case BrokerUnreachable():
                reasons = error.tried
            case ConnectionLost():
                reasons = {address: error.reason}
            case _:
                reasons = {address: error.detail.removeprefix(f"{address}: ")}
        # Little time is left for the last attempt, so the reason of the attempt before is more useful.
        self.reasons = {**reasons, **self.reasons} if is_last else {**self.reasons, **reasons}

    def error(
        self, api_name: str, candidates: Sequence[HostPort], bootstrap_servers: Sequence[HostPort], servers_option: str
    ) -> BrokerUnreachable:
        """The error after the deadline; ``servers_option`` is where the user gave ``bootstrap_servers``, if any."""
        tried = dict.fromkeys(candidates, "not tried, no time was left") | self.reasons
        if bootstrap_servers and set(bootstrap_servers) != tried.keys():
            servers_option += f" ({','.join(map(str, bootstrap_servers))})"
        return BrokerUnreachable(tried, f"for {api_name}", "", servers_option)


class Outages:
    """Failures in a row, by address: ever fewer log lines while they continue, and one when they end.

    A success removes the address. Threads may share it.
    """

    def __init__(self, success: str) -> None:
        """``success``: what the line at the end of the failures says, as ``connected``."""
        self._success = success
        self._lock = threading.Lock()
        self._failures: dict[HostPort, int] = {}
        self._logged: set[HostPort] = set()
        """Addresses with a line that no success has followed."""

    def failures(self, address: HostPort) -> int:
        """How many failures there were since the last success."""
        with self._lock:
            return self._failures.get(address, 0)

    def note_failure(self, address: HostPort, reason: str, deadline: Deadline) -> None:
        """Log the first failure in a row, the second, the fourth and so on, if time is left to try again."""
        with self._lock:
            failures = self._failures[address] = self._failures.get(address, 0) + 1
            is_power_of_two = failures & (failures - 1) == 0
            if not is_power_of_two or deadline.expired:
                return
            self._logged.add(address)
        # Not a warning: a query on Spark would log them for each task while a broker restarts.
        in_a_row = f"; {failures} failures in a row" if failures > 1 else ""
        _log.info("%s: %s; trying again for %.3g s%s", address, reason, deadline.remaining_ms / 1000, in_a_row)

    def note_success(self, address: HostPort) -> None:
        """Log the end of failures of which one was logged."""
        with self._lock:
            failures = self._failures.pop(address, 0)
            is_logged = address in self._logged
            self._logged.discard(address)
        if is_logged:
            _log.info("%s: %s; failures before: %d", address, self._success, failures)

    def reset_after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()


def give_up(earlier: KafkaError | None, last: KafkaError) -> NoReturn:
    """Raise one of two errors after the deadline.

    If the last error is only that no time was left to reach a broker, the error of a broker before it is raised, with
    the reasons why other brokers or connections failed.
    """
    if isinstance(earlier, BrokerUnreachable) and isinstance(last, BrokerUnreachable):
        raise BrokerUnreachable(
            {**last.tried, **earlier.tried},
            last.purpose,
            last.after or earlier.after,
            last.bootstrap or earlier.bootstrap,
        ) from last
    if earlier is not None and last.code in _TRANSPORT and earlier.code not in _TRANSPORT:
        raise earlier from last
    if earlier is not None and isinstance(last, BrokerUnreachable):
        raise BrokerUnreachable(last.tried, last.purpose, str(earlier), last.bootstrap) from last
    raise last


def retry(action: Callable[[], T], deadline: Deadline, backoff: Backoff) -> T:
    """The first result of ``action`` that is no retriable ``KafkaError``.

    Raises KafkaError: as ``give_up`` after the deadline; at once if it is not retriable.
    """
    earlier: KafkaError | None = None
    while True:
        try:
            return action()
        except KafkaError as error:
            if not error.retriable:
                raise
            if not deadline.pause(backoff.next_ms()):
                give_up(earlier, error)
            earlier = error
