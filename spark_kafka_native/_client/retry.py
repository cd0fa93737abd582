"""Retries: the pauses between them, and the error after the deadline."""

import random
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

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
