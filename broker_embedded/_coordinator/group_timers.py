"""The timers of groups. Renewing one is cheap, because every heartbeat does it."""

from collections.abc import Callable
from typing import TypeAlias

from broker_embedded._groups.group import CancelTimer, SetTimer, TimerKey
from broker_embedded._platform.timers import Timer, Timers

OnTimer: TypeAlias = Callable[[str, TimerKey], None]


class GroupTimers:
    """A deadline per group and key. Belongs to one event loop.

    If a deadline moves to a later time, its timer is not changed: when it fires, it is set again for the remaining
    time.
    """

    def __init__(self, timers: Timers, on_timer: OnTimer) -> None:
        """``on_timer`` is called on the event loop with the group's id and the key; the timer is no longer set then."""
        self._timers = timers
        self._on_timer = on_timer
        self._groups: dict[str, dict[TimerKey, _Deadline]] = {}

    def change(self, group_id: str, change: SetTimer | CancelTimer) -> None:
        """Set or cancel a timer of a group."""
        if isinstance(change, CancelTimer):
            deadlines = self._groups.get(group_id, {})
            deadline = deadlines.pop(change.key, None)
            if deadline is not None:
                deadline.timer.cancel()
            if not deadlines:
                self._groups.pop(group_id, None)
            return
        due_ms = self._timers.elapsed_ms() + change.after_ms
        deadlines = self._groups.setdefault(group_id, {})
        deadline = deadlines.get(change.key)
        if deadline is not None and deadline.fires_ms <= due_ms:
            deadline.due_ms = due_ms
            return
        if deadline is not None:
            deadline.timer.cancel()
        self._start(group_id, change.key, change.after_ms)

    def cancel_all(self, group_id: str) -> None:
        """Cancel every timer of a group."""
        for deadline in self._groups.pop(group_id, {}).values():
            deadline.timer.cancel()

    def close(self) -> None:
        """Cancel all timers."""
        for group_id in list(self._groups):
            self.cancel_all(group_id)

    def _start(self, group_id: str, key: TimerKey, after_ms: int) -> None:
        timer = self._timers.at(self._timers.now_ms() + after_ms, lambda: self._fired(group_id, key))
        self._groups[group_id][key] = _Deadline(self._timers.elapsed_ms() + after_ms, timer)

    def _fired(self, group_id: str, key: TimerKey) -> None:
        deadlines = self._groups[group_id]
        deadline = deadlines[key]
        rest_ms = deadline.due_ms - self._timers.elapsed_ms()
        if deadline.due_ms > deadline.fires_ms and rest_ms > 0:
            self._start(group_id, key, rest_ms)
            return
        del deadlines[key]
        if not deadlines:
            del self._groups[group_id]
        self._on_timer(group_id, key)


class _Deadline:
    """The deadline of a timer, and the time when the timer fires, which may be earlier; by `Timers.elapsed_ms`."""

    __slots__ = ("due_ms", "fires_ms", "timer")

    def __init__(self, due_ms: int, timer: Timer) -> None:
        self.due_ms = due_ms
        self.fires_ms = due_ms
        self.timer = timer
