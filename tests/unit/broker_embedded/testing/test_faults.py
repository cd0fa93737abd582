from collections.abc import Mapping
from typing import Any

import pytest

from broker_embedded._testing.faults import Fault, Faults
from spark_kafka_native._protocol.errors import ErrorCode


class Commands:
    """Records the commands, and answers as a broker would."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []
        self.there: dict[int, dict[str, Any]] = {}

    def __call__(self, method: str, path: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
        self.said.append((method, path, {name: value for name, value in (fields or {}).items() if value is not None}))
        if (method, path) == ("POST", "/faults"):
            id_ = len(self.said)
            self.there[id_] = {"id": id_, "calls": 5, "hits": 2, "spent": True}
            return self.there[id_]
        if path == "/faults":
            return {"faults": list(self.there.values())}
        if path.startswith("/faults/"):
            id_ = int(path.removeprefix("/faults/"))
            return self.there.pop(id_) if method == "DELETE" else self.there[id_]
        return {"leader_epoch": 3}


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def faults(commands: Commands) -> Faults:
    return Faults(commands)


def test_faults_become_commands(commands: Commands, faults: Faults) -> None:
    faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT, times=2, topic="t", partition=0)
    faults.fail("Heartbeat", 27, "NONE", ErrorCode.NOT_COORDINATOR, group="g")
    faults.fail("Metadata", message="why")
    faults.delay("Fetch", ms=5)
    faults.drop("*", when="after", probability=0.5, seed=3)
    assert [fields for _, _, fields in commands.said] == [
        {"action": "fail", "api": "Produce", "error": "REQUEST_TIMED_OUT", "times": 2, "topic": "t", "partition": 0},
        {"action": "fail", "api": "Heartbeat", "errors": [27, "NONE", "NOT_COORDINATOR"], "group": "g"},
        {"action": "fail", "api": "Metadata", "errors": [], "message": "why"},
        {"action": "delay", "api": "Fetch", "ms": 5, "when": "before"},
        {"action": "drop", "api": "*", "when": "after", "probability": 0.5, "seed": 3},
    ]


def test_moves_and_pauses_become_commands(commands: Commands, faults: Faults) -> None:
    assert faults.move_leader("t") == 3
    faults.move_coordinator("g")
    faults.pause_fetches("t")
    faults.resume_fetches("t", 1)
    faults.clear()
    assert commands.said == [
        ("POST", "/leaders/move", {"topic": "t", "partition": 0}),
        ("POST", "/coordinators/move", {"group": "g"}),
        ("POST", "/fetches/pause", {"topic": "t"}),
        ("POST", "/fetches/resume", {"topic": "t", "partition": 1}),
        ("DELETE", "/faults", {}),
    ]


def test_a_fault_has_its_counts_and_can_be_removed(commands: Commands, faults: Faults) -> None:
    fault = faults.drop("*")
    assert (fault.calls, fault.hits, fault.is_spent) == (5, 2, True)
    assert list(faults) == [Fault(fault.id, commands)]
    fault.remove()
    assert list(faults) == []


def test_a_fault_ends_with_its_context(commands: Commands, faults: Faults) -> None:
    with faults.drop("*") as fault:
        assert list(faults) == [fault]
    assert list(faults) == []
    with faults.drop("*") as fault:
        fault.remove()
