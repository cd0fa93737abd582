"""How long the transactions of a batch may stay open."""

from dataclasses import dataclass
from typing import Final

_DECISION_MS: Final = 30_000
_SWEEP_MS: Final = 10_000
"""Default of the brokers' transaction.abort.timed.out.transaction.cleanup.interval.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long transactions may stay open."""

    transaction_timeout_ms: int
    """Of a task's transaction, from its first row to its commit, including a restart of the driver."""
    decision_timeout_ms: int
    """Of the decision's transaction: from before the tasks' transactions are described until the decision ends."""
    margin_ms: int
    """Least remaining time of each task's transaction when it is described. After the decision at least this remains,
    less `decision_timeout_ms` and transaction.abort.timed.out.transaction.cleanup.interval.ms."""


def timing_of(timeout_ms: int, recovery_ms: int) -> Timing:
    """Timing from the two options. A decision gets a quarter of the time for writing, and at most 30 s."""
    decision_ms = min(_DECISION_MS, (timeout_ms - recovery_ms) // 4)
    return Timing(
        transaction_timeout_ms=timeout_ms,
        decision_timeout_ms=decision_ms,
        margin_ms=recovery_ms + decision_ms + _SWEEP_MS,
    )
