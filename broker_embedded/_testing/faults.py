"""Faults of a broker, set from a test.

    broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="orders", partition=0)
    broker.faults.delay("Fetch", ms=500)
    with broker.faults.drop("JoinGroup", when="after", on_call=2) as fault:
        ...
        assert fault.hits == 1

A fault affects requests of one API (``"*"`` is any), optionally with a ``topic``, ``partition`` or ``group``, or from a
``client_id``. Only the affected part of a request fails. It applies to every such request; with ``times=n``, to the
first n; with ``on_call=3``, to the third only, and with ``times=n`` too, to n from the third on; with a
``probability``, to a random part, which is the same in every run with the same ``seed``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from broker_embedded._testing.rules import BEFORE, DELAY, DROP, FAIL
from spark_kafka_native._protocol.errors import ErrorCode

Ask: TypeAlias = Callable[[str, str, Mapping[str, Any] | None], dict[str, Any]]
"""Executes a command of `broker_embedded._testing.control.commands`: method, path and fields."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was set. As a context manager it is removed at the end."""

    id: int
    _ask: Ask

    @property
    def calls(self) -> int:
        """The number of matching requests since it was set, including unaffected ones."""
        return int(self._fields()["calls"])

    @property
    def hits(self) -> int:
        """The number of affected requests."""
        return int(self._fields()["hits"])

    @property
    def is_spent(self) -> bool:
        """Whether it was applied ``times`` times."""
        return bool(self._fields()["spent"])

    def remove(self) -> None:
        """Remove the fault. Raises LookupError: it was removed before."""
        self._ask("DELETE", f"/faults/{self.id}", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if any(fault["id"] == self.id for fault in self._ask("GET", "/faults", None)["faults"]):
            self.remove()

    def _fields(self) -> dict[str, Any]:
        return self._ask("GET", f"/faults/{self.id}", None)


class Faults:
    """The faults of a broker. May be used from any thread. A fault is in effect when the call returns.

    Every method raises FieldError, a ValueError: an argument is unknown or invalid.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def fail(self, api: str, *errors: ErrorCode | int | str, message: str | None = None, **which: Any) -> Fault:
        """Respond with an error instead of executing the request.

        Several errors are used in order, one per request. ``ErrorCode.NONE`` leaves a request unaffected.
        """
        fields = {"errors": [_name(error) for error in errors]} if len(errors) != 1 else {"error": _name(errors[0])}
        return self._add({"action": FAIL, "api": api, "message": message, **fields, **which})

    def delay(self, api: str, *, ms: int, when: str = BEFORE, **which: Any) -> Fault:
        """Delay by the broker's clock, ``"before"`` executing the request, or ``"after"`` it the response."""
        return self._add({"action": DELAY, "api": api, "ms": ms, "when": when, **which})

    def drop(self, api: str, *, when: str = BEFORE, **which: Any) -> Fault:
        """Close the connection without a response, ``"before"`` or ``"after"`` executing the request."""
        return self._add({"action": DROP, "api": api, "when": when, **which})

    def move_leader(self, topic: str, partition: int = 0) -> int:
        """Move a partition's leader away and back: the new leader epoch; see `broker_embedded._testing.moves`."""
        fields = {"topic": topic, "partition": partition}
        return int(self._ask("POST", "/leaders/move", fields)["leader_epoch"])

    def move_coordinator(self, group: str) -> None:
        """Move a group's coordinator away and back; see `broker_embedded._testing.moves`."""
        self._ask("POST", "/coordinators/move", {"group": group})

    def pause_fetches(self, topic: str | None = None, partition: int | None = None) -> None:
        """Let fetches return no records of a partition, a topic, or all topics."""
        self._ask("POST", "/fetches/pause", {"topic": topic, "partition": partition})

    def resume_fetches(self, topic: str | None = None, partition: int | None = None) -> None:
        """End a pause with the same arguments."""
        self._ask("POST", "/fetches/resume", {"topic": topic, "partition": partition})

    def clear(self) -> None:
        """Remove all faults, pauses and moves."""
        self._ask("DELETE", "/faults", None)

    def __iter__(self) -> Iterator[Fault]:
        """All faults that have not been removed, including spent ones."""
        return iter([Fault(fields["id"], self._ask) for fields in self._ask("GET", "/faults", None)["faults"]])

    def _add(self, fields: Mapping[str, Any]) -> Fault:
        return Fault(self._ask("POST", "/faults", fields)["id"], self._ask)


def _name(error: ErrorCode | int | str) -> int | str:
    return error.name if isinstance(error, ErrorCode) else error
