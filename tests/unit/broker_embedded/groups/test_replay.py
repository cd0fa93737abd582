"""From the log to groups, whatever kinds of records are in it."""

import pytest

from broker_embedded.groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded.groups.classic.records import group_tombstone, new_group_record
from broker_embedded.groups.group import Group
from broker_embedded.groups.records import OffsetCommitKey, OffsetCommitValue, offset_record
from broker_embedded.groups.replay import ReplayContext, replay
from broker_embedded.records.coordinator_record import CoordinatorRecord
from spark_kafka_native.records.errors import CorruptBatch

CONTEXT = ReplayContext(classic=ClassicConfig(max_size=7))
POSITION = OffsetCommitKey(group="g", topic="t", partition=0)


def after(*records: CoordinatorRecord) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for record in records:
        replay(groups, record, CONTEXT)
    return groups


def test_a_position_makes_a_simple_group() -> None:
    record = offset_record(POSITION, OffsetCommitValue(offset=5))
    assert after(record) == {"g": ClassicGroup(group_id="g", config=CONTEXT.classic)}
    assert after(offset_record(POSITION, None)) == {}


def test_a_position_does_not_touch_a_group_that_is_there() -> None:
    made = new_group_record("g", 9)
    assert after(made, offset_record(POSITION, OffsetCommitValue(offset=5))) == after(made)
    assert after(made, offset_record(POSITION, None)) == after(made)


def test_a_tombstone_ends_a_group() -> None:
    assert after(new_group_record("g", 9), new_group_record("h", 9), group_tombstone("g")).keys() == {"h"}
    assert after(group_tombstone("g")) == {}


def test_records_of_kinds_that_are_not_known_are_passed_over() -> None:
    assert after(CoordinatorRecord(key=b"\x00\x63rest", value=b"x")) == {}


@pytest.mark.parametrize("key", [b"", b"\x00"])
def test_a_record_without_a_key_is_damage(key: bytes) -> None:
    with pytest.raises(CorruptBatch):
        after(CoordinatorRecord(key=key, value=b"x"))
