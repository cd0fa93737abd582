import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once import decision as module
from spark_kafka_native._spark.exactly_once.decision import (
    Decision,
    Handle,
    Owner,
    OwnerKind,
    TailTooShort,
    decision_records,
    last_decision,
    released_records,
)
from spark_kafka_native._spark.exactly_once.effects import DecisionLog, DecisionRecord, WrittenRange
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError

FENCE = ProducerIdAndEpoch(4_294_967_296, 3)
QUERY = Owner(OwnerKind.QUERY, "c0ffee")
NUMBERS = st.integers(min_value=0, max_value=2**53)
SPANS = st.builds(WrittenRange, st.builds(TopicPartition, st.sampled_from(("a", "b")), NUMBERS), NUMBERS, NUMBERS)
HANDLES = st.builds(
    Handle,
    st.text(min_size=1, max_size=20),
    st.builds(ProducerIdAndEpoch, NUMBERS, NUMBERS),
    st.lists(SPANS, max_size=3).map(tuple),
)
DECISIONS = st.builds(
    Decision,
    st.builds(ProducerIdAndEpoch, NUMBERS, NUMBERS),
    st.builds(Owner, st.sampled_from(OwnerKind), st.text(max_size=10)),
    NUMBERS,
    st.lists(HANDLES, max_size=5, unique_by=lambda handle: handle.transactional_id).map(tuple),
    rows=st.none() | NUMBERS,
)


def handle(number: int, partitions: int = 1) -> Handle:
    spans = tuple(WrittenRange(TopicPartition("events", index), number, number + 5) for index in range(partitions))
    return Handle(f"p.1.0.7.{number}.0", ProducerIdAndEpoch(1000 + number, 0), spans)


def decision(*handles: Handle) -> Decision:
    return Decision(FENCE, QUERY, 7, handles, rows=90)


def read(*records: DecisionRecord, whole: bool = True) -> Decision | None:
    return last_decision("p.decisions", DecisionLog(records, whole))


def test_json_of_decision_records() -> None:
    assert [(entry.key, json.loads(entry.value)) for entry in decision_records(decision(handle(1)))] == [
        (
            b"handles-0",
            {"version": 1, "fence": [4_294_967_296, 3], "handles": [["p.1.0.7.1.0", 1001, 0, [["events", 0, 1, 6]]]]},
        ),
        (
            b"decision",
            {
                "version": 1,
                "fence": [4_294_967_296, 3],
                "state": "decided",
                "owner": ["query", "c0ffee"],
                "batch": 7,
                "rows": 90,
                "parts": 1,
            },
        ),
    ]
    assert json.loads(decision_records(decision(handle(1)).as_finished())[-1].value) == {
        "version": 1,
        "fence": [4_294_967_296, 3],
        "state": "finished",
        "owner": ["query", "c0ffee"],
        "batch": 7,
        "rows": 90,
    }


@pytest.mark.parametrize("finished", [False, True])
def test_decision_record_without_rows_is_parsed(finished: bool) -> None:
    """`run_again` writes such decisions."""
    state = {"state": "finished"} if finished else {"state": "decided", "parts": 0}
    value = {"version": 1, "fence": [4_294_967_296, 3], "owner": ["query", "c0ffee"], "batch": 7} | state
    expected = Decision(FENCE, QUERY, 7, finished=finished, rows=None)
    assert read(DecisionRecord(b"decision", json.dumps(value).encode())) == expected


def test_unknown_fields_of_a_decision_record_are_ignored() -> None:
    """So VERSION stays 1 when a field is added that earlier readers may ignore."""
    assert read(header(more=[1])) == decision()


@settings(max_examples=50)
@given(DECISIONS)
def test_decision_is_parsed_from_its_records(given_decision: Decision) -> None:
    assert read(*decision_records(given_decision)) == given_decision
    finished = given_decision.as_finished()
    assert read(*decision_records(finished)) == finished
    assert finished.fence == given_decision.fence
    assert finished.handles == ()


def test_last_decision_is_valid() -> None:
    first, second = (
        decision(handle(1), handle(2)),
        replace(decision(handle(3)), fence=ProducerIdAndEpoch(5, 9), batch_id=8),
    )
    assert read(*decision_records(first), *decision_records(second)) == second
    assert read(*decision_records(first), *decision_records(first.as_finished())) == first.as_finished()


def test_released_prefix_and_empty_log_have_no_decision() -> None:
    assert read() is None
    assert read(*decision_records(decision(handle(1)).as_finished()), *released_records(FENCE)) is None


def test_large_decisions_are_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 200)
    monkeypatch.setattr(module, "PARTITIONS_AT_ONCE", 3)
    large = decision(*(handle(number, partitions=number % 8) for number in range(20)))
    records = decision_records(large)
    assert len(records) > 10
    assert max(len(entry.value) for entry in records) < 600
    assert read(*records) == large


def test_many_tasks_with_many_partitions_fit() -> None:
    large = decision(*(handle(number, partitions=100) for number in range(200)), handle(200, partitions=5_000))
    records = decision_records(large)
    assert len(records) == 4
    assert max(len(entry.value) for entry in records) < 600_000
    assert read(*records) == large


def test_last_decision_is_found_in_a_tail_of_the_log() -> None:
    older, last = decision(handle(1)), replace(decision(handle(2), handle(3)), fence=ProducerIdAndEpoch(9, 9))
    records = (*decision_records(older), *decision_records(last))
    for start in range(len(records)):
        if start <= len(records) - len(decision_records(last)):
            assert read(*records[start:], whole=False) == last
        else:
            with pytest.raises(TailTooShort):
                read(*records[start:], whole=False)
    with pytest.raises(TailTooShort):
        read(whole=False)


def test_parts_of_compacted_decisions_are_skipped() -> None:
    """An older decision has left parts 1 and 2; the last one has part 0 only."""
    older = replace(decision(), fence=ProducerIdAndEpoch(1, 1))
    stale = DecisionRecord(b"handles-1", json.dumps({"version": 1, "fence": [1, 1], "handles": []}).encode())
    last = decision(handle(1))
    assert read(stale, *decision_records(older)[-1:], *decision_records(last)) == last
    assert read(*decision_records(last)[:1], stale, *decision_records(last)[1:]) == last


def test_records_before_the_last_decision_are_ignored() -> None:
    last = decision(handle(1))
    strange = (
        DecisionRecord(b"something", b"\xff"),
        DecisionRecord(b"decision", b"{"),
        DecisionRecord(b"handles-7", b""),
    )
    assert read(*strange, *decision_records(last)) == last
    assert read(*strange[:1]) is None


def test_part_of_another_decision_is_ignored() -> None:
    last = decision(handle(1))
    stale = DecisionRecord(b"handles-0", json.dumps({"version": 1, "fence": [1, 1], "handles": []}).encode())
    with pytest.raises(ExactlyOnceError, match="part 0 of the last decision is missing"):
        read(stale, decision_records(last)[-1])
    with pytest.raises(TailTooShort):
        read(stale, decision_records(last)[-1], whole=False)


def header(**changed: Any) -> DecisionRecord:
    value = {**json.loads(decision_records(decision())[-1].value), **changed}
    return DecisionRecord(
        b"decision", json.dumps({key: item for key, item in value.items() if item is not None}).encode()
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (DecisionRecord(b"decision", b""), "is not JSON"),
        (DecisionRecord(b"decision", b"\xff\xfe{"), "is not JSON"),
        (DecisionRecord(b"decision", b"[1]"), "has no version"),
        (DecisionRecord(b"decision", b'{"state":"decided"}'), "has no version"),
        (DecisionRecord(b"decision", b'{"version":true}'), "has no version"),
        (DecisionRecord(b"decision", b'{"version":2}'), "use the release that wrote it"),
        (header(state="undone"), "state 'undone'"),
        (header(state=None), "KeyError"),
        (header(batch="7"), "'7' is not an integer of at least -1"),
        (header(batch=-2), "-2 is not an integer of at least -1"),
        (header(parts=None), "KeyError"),
        (header(rows=-1), "-1 is not an integer of at least 0"),
        (header(rows="90"), "'90' is not an integer"),
        (header(owner=["cron", "x"]), "cron"),
        (header(owner="x"), "last decision is invalid"),
        (header(owner=["query", 7]), "7 is not a string"),
        (header(fence=[1]), "last decision is invalid"),
        (header(fence=[1, True]), "True is not an integer"),
    ],
)
def test_invalid_decision_record_is_corrupt(entry: DecisionRecord, said: str) -> None:
    with pytest.raises(ExactlyOnceError, match=said) as caught:
        read(entry)
    assert caught.value.kind is ErrorKind.CORRUPT
    assert "topic p.decisions" in str(caught.value)


@pytest.mark.parametrize(
    "handles", [None, [["id", 1, 0]], [["id", 1, 0, [["t", 0, 1]]]], [[1, 1, 0, []]], [["id", -1, 0, []]], 7]
)
def test_invalid_handles_are_corrupt(handles: Any) -> None:
    part = DecisionRecord(
        b"handles-0", json.dumps({"version": 1, "fence": [FENCE.producer_id, 3], "handles": handles}).encode()
    )
    with pytest.raises(ExactlyOnceError, match="last decision is invalid"):
        read(part, header(parts=1))


@given(st.binary(max_size=60), st.binary(max_size=12))
def test_any_decision_bytes_are_parsed_or_corrupt(value: bytes, key: bytes) -> None:
    for entry in (DecisionRecord(key, value), DecisionRecord(b"decision", value)):
        with suppress(ExactlyOnceError):
            assert read(entry) is None
