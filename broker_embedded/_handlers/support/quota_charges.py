"""Charge a request to its client's quotas."""

from typing import Final

from broker_embedded._handlers.support.registry import RequestContext
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._platform.timers import Timers

_NS_PER_PERCENT_SECOND: Final = 10_000_000


class MutationCharge:
    """Charges the partitions that one request creates or deletes to controller_mutation_rate (KIP-599)."""

    def __init__(self, context: RequestContext, quotas: ClientQuotas, timers: Timers, *, strict_since: int) -> None:
        """From version ``strict_since`` on a client over its quota is refused; before, it is throttled."""
        self._cost = context.cost
        self._timers = timers
        self._mutations = quotas.mutations.of(
            context.user, context.client_id, strict=context.version >= strict_since, now_ms=timers.elapsed_ms()
        )

    def take(self, partitions: int) -> None:
        """Charge partitions before they are created or deleted. Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
        now_ms = self._timers.elapsed_ms()
        try:
            self._mutations.take(partitions, now_ms)
        finally:
            self._cost.throttle(self._mutations.throttle_ms(now_ms))


def charge_silently(context: RequestContext, quotas: ClientQuotas, timers: Timers, partitions: int) -> None:
    """Charge partitions before an automatic creation, without a throttle time for the client.

    Raises KafkaError THROTTLING_QUOTA_EXCEEDED.
    """
    now_ms = timers.elapsed_ms()
    mutations = quotas.mutations.of(context.user, context.client_id, strict=True, now_ms=now_ms)
    mutations.take(partitions, now_ms)


def charge_time(context: RequestContext, quotas: ClientQuotas, timers: Timers) -> int:
    """Charge the time of the request to the client's request_percentage, once; the throttle time."""
    cost, quota = context.cost, quotas.request
    if quota.enabled and not cost.is_charged:
        cost.is_charged = True
        percents = cost.spent_ns / _NS_PER_PERCENT_SECOND
        cost.throttle(quota.record(context.user, context.client_id, percents, timers.elapsed_ms()))
    return cost.wait_ms
