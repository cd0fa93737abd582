"""Groups and outcomes are values: an answer, records if there are any, and what else a decision brings."""

import dataclasses

import pytest

from broker_embedded.groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded.groups.group import CancelTimer, Group, Outcome, Pending, Reply, SetTimer
from broker_embedded.records.coordinator_record import CoordinatorRecord


def test_a_simple_group_is_a_classic_one_without_a_protocol() -> None:
    group: Group = ClassicGroup(group_id="g", config=ClassicConfig())
    assert (group.group_type, group.state_name, group.protocol_type, group.is_empty) == ("classic", "Empty", "", True)


def test_an_outcome_that_says_no_more_changes_nothing() -> None:
    outcome = Outcome(answer=5)
    assert (outcome.records, outcome.group, outcome.removed, outcome.timers, outcome.replies) == (
        (),
        None,
        False,
        (),
        (),
    )
    assert outcome.otherwise is None


def test_an_outcome_cannot_be_changed_after_it_was_decided() -> None:
    outcome = Outcome(answer=5, records=(CoordinatorRecord(key=b"k", value=None),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.answer = 6  # type: ignore[misc]  # what must fail


def test_its_parts_are_values_too() -> None:
    assert SetTimer(key=("join",), after_ms=5) == SetTimer(key=("join",), after_ms=5)
    assert CancelTimer(key=("join",)) != CancelTimer(key=("sync",))
    assert len({Pending(request_id=1), Pending(request_id=1), Pending(request_id=2)}) == 2
    assert Reply(request_id=1, answer="a") != Reply(request_id=1, answer="b")
