"""Throttle times of clients over their quota, with one allowance per kind of quota. Pure.

A client over its quota gets a response with ``throttle_time_ms``. The meter of an owner is dropped after an hour
without use.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from broker_embedded._quotas.entities import ClientQuotaEntity
from broker_embedded._quotas.limits import NOT_LIMITED, Owner, QuotaLimits
from broker_embedded._quotas.rates import SampledRate, TokenBucket
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

UNUSED_MS: Final = 3_600_000
_CLEAN_UP_MS: Final = 60_000

MeterT = TypeVar("MeterT", SampledRate, TokenBucket)


class _Meters(Generic[MeterT]):
    """A meter per owner, dropped after ``UNUSED_MS`` without use."""

    def __init__(self, kind: Callable[[int, int], MeterT], samples: int, window_ms: int) -> None:
        self._kind: Callable[[int, int], MeterT] = kind
        self._samples = samples
        self._window_ms = window_ms
        self._meters: dict[Owner, tuple[MeterT, list[int]]] = {}
        self._cleaned_up_ms = 0

    def get(self, owner: Owner, now_ms: int) -> MeterT:
        found = self._meters.get(owner)
        if found is None:
            if now_ms - self._cleaned_up_ms >= _CLEAN_UP_MS:
                self._forget_unused(now_ms)
            found = self._meters[owner] = (self._kind(self._samples, self._window_ms), [now_ms])
        found[1][0] = now_ms
        return found[0]

    def _forget_unused(self, now_ms: int) -> None:
        self._cleaned_up_ms = now_ms
        unused = [owner for owner, (_, used) in self._meters.items() if now_ms - used[0] >= UNUSED_MS]
        for owner in unused:
            del self._meters[owner]


class RateAllowance:
    """A quota of amounts per second: bytes in, bytes out, or the percentage of time."""

    def __init__(self, samples: int, window_ms: int, *, longest_ms: int | None = None) -> None:
        """``longest_ms`` bounds the throttle time of a request."""
        self._samples = samples
        self._window_ms = window_ms
        self._longest_ms = longest_ms
        self._limits = QuotaLimits({})
        self.enabled = False
        """Whether there is a quota. If not, nothing is measured."""
        self._meters: _Meters[SampledRate] = _Meters(SampledRate, samples, window_ms)

    def use(self, values: Mapping[ClientQuotaEntity, float]) -> None:
        """Replace the quotas. Measurements are kept."""
        self._limits = QuotaLimits(values)
        self.enabled = bool(values)

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Record an amount of a client; the throttle time in ms."""
        if not self.enabled:
            return 0
        owner = self._limits.owner(user, client_id)
        limit = self._limits.of(owner)
        if limit == NOT_LIMITED:
            return 0
        meter = self._meters.get(owner, now_ms)
        meter.record(amount, now_ms)
        wait_ms = meter.excess_ms(limit, now_ms)
        return wait_ms if self._longest_ms is None else min(wait_ms, self._longest_ms)

    def note(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Record an amount of a client without a throttle time. A negative amount undoes an earlier one."""
        owner = self._limits.owner(user, client_id)
        if self._limits.of(owner) != NOT_LIMITED:
            self._meters.get(owner, now_ms).record(amount, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float:
        """The largest amount without a throttle time; infinity without a quota."""
        limit = self._limits.of(self._limits.owner(user, client_id)) if self.enabled else NOT_LIMITED
        return limit * (self._samples - 1) * self._window_ms / 1000


class MutationAllowance:
    """A quota of created and deleted partitions per second, which may be overdrawn once (KIP-599)."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._limits = QuotaLimits({})
        self._buckets: _Meters[TokenBucket] = _Meters(TokenBucket, samples, window_ms)

    def use(self, values: Mapping[ClientQuotaEntity, float]) -> None:
        """Replace the quotas. Measurements are kept."""
        self._limits = QuotaLimits(values)

    def of(self, user: str, client_id: str, *, strict: bool, now_ms: int) -> "Mutations":
        """The mutations of one request. ``strict``: over the quota it is refused, and not only throttled."""
        owner = self._limits.owner(user, client_id)
        limit = self._limits.of(owner)
        if limit == NOT_LIMITED:
            return Mutations(None, limit, strict=strict)
        return Mutations(self._buckets.get(owner, now_ms), limit, strict=strict)


class Mutations:
    """Charges the mutations of one request."""

    __slots__ = ("_bucket", "_limit", "_owed_at_ms", "_owed_ms", "_strict")

    def __init__(self, bucket: TokenBucket | None, limit: float, *, strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._strict = strict
        self._owed_ms = self._owed_at_ms = 0

    def take(self, partitions: int, now_ms: int) -> None:
        """Charge partitions before they are created or deleted.

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED: a strict request over the quota; nothing was charged.
        """
        bucket, limit = self._bucket, self._limit
        if bucket is None:
            return
        if self._strict and (owed_ms := bucket.owed_ms(limit, now_ms)) > 0:
            self._owed_ms, self._owed_at_ms = owed_ms, now_ms
            detail = f"the quota controller_mutation_rate = {limit:g} is exceeded; retry in {owed_ms} ms"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)
        bucket.take(partitions, limit, now_ms)
        if not self._strict:
            self._owed_ms, self._owed_at_ms = bucket.owed_ms(limit, now_ms), now_ms

    def throttle_ms(self, now_ms: int) -> int:
        """The throttle time of the client, as of its last charge."""
        return max(0, self._owed_ms - (now_ms - self._owed_at_ms))
