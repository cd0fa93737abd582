"""What drivers of groups share: the group, and the log, clock and timers that decisions about it change."""

from typing import Any

from broker_embedded._groups.group import CancelTimer, Group, Outcome, TimerKey
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode


class GroupWorld:
    """One group or none; ``log_error`` is why nothing can be logged, if it cannot."""

    def __init__(self) -> None:
        self.group: Group | None = None
        self.log: list[CoordinatorRecord] = []
        self.log_error: ErrorCode | None = None
        self.now_ms = 1_000_000
        self.timers: dict[TimerKey, int] = {}

    def advance(self, ms: int) -> None:
        """Let time pass, and all that falls due on the way happen in order."""
        until_ms = self.now_ms + ms
        while due := [(when_ms, key) for key, when_ms in self.timers.items() if when_ms <= until_ms]:
            self.now_ms, key = min(due)
            del self.timers[key]
            self._due(key)
        self.now_ms = until_ms

    def _due(self, key: TimerKey) -> None:
        """What happens when a timer has run out."""
        raise NotImplementedError

    def _carry_out(self, outcome: Outcome[Any]) -> None:
        """Change what a decision changes; replies are the driver's."""
        self.log += outcome.records
        if outcome.removed:
            self.group = None
            self.timers.clear()
        elif outcome.group is not None:
            self.group = outcome.group
        for change in outcome.timers:
            if isinstance(change, CancelTimer):
                self.timers.pop(change.key, None)
            else:
                assert change.after_ms >= 0
                self.timers[change.key] = self.now_ms + change.after_ms
