from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded._groups.classic.records import group_tombstone, new_group_record
from broker_embedded._groups.group import Group
from broker_embedded._groups.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    RecordVersions,
    offset_record,
    read_offset_record,
)
from broker_embedded._groups.replay import ReplayContext, replay
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._records.errors import CorruptBatch

KEY = OffsetCommitKey(group="gruppe", topic="t", partition=7)
RAW_KEY = b"\x00\x01\x00\x06gruppe\x00\x01t\x00\x00\x00\x07"
TEXT = st.text(max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


def test_a_commit_record_has_the_bytes_of_apache_kafka_4() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9, topic_id=UUID(int=3))
    record = offset_record(KEY, value)
    assert record.key == RAW_KEY
    assert record.value == (
        b"\x00\x04"
        + (5).to_bytes(8, "big")
        + (2).to_bytes(4, "big")
        + b"\x02m"
        + (9).to_bytes(8, "big")
        + b"\x01\x00\x10"  # one tagged field, number 0, 16 bytes
        + (3).to_bytes(16, "big")
    )


@pytest.mark.parametrize(("version", "expires"), [(0, -1), (0, 11), (1, -1), (1, 11), (2, -1), (3, -1), (4, -1)])
def test_a_commit_can_be_written_as_older_releases_did(version: int, expires: int) -> None:
    value = OffsetCommitValue(
        offset=5, leader_epoch=2, metadata="m", commit_timestamp=9, expire_timestamp=expires, topic_id=UUID(int=3)
    )
    record = offset_record(KEY, value, RecordVersions(offset=version))
    assert record.value is not None
    assert record.value[:2] == version.to_bytes(2, "big")
    known = replace(
        value,
        leader_epoch=2 if version >= 3 else -1,
        expire_timestamp=expires if version == 1 else -1,
        topic_id=UUID(int=3) if version >= 4 else ZERO_UUID,
    )
    assert read_offset_record(record) == (KEY, known)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_expiry_time_is_written_in_version_1(version: int) -> None:
    record = offset_record(KEY, OffsetCommitValue(expire_timestamp=11), RecordVersions(offset=version))
    assert record.value is not None
    assert record.value[:2] == b"\x00\x01"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (
            b"\x00\x00" + b"\0" * 7 + b"\x05" + b"\x00\x01m" + b"\0" * 7 + b"\x09",
            OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9),
        ),
        (
            b"\x00\x02" + b"\0" * 7 + b"\x05" + b"\x00\x01m" + b"\0" * 7 + b"\x09",
            OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9),
        ),
        (
            b"\x00\x03" + b"\0" * 7 + b"\x05" + b"\0\0\0\x02" + b"\x00\x01m" + b"\0" * 7 + b"\x09",
            OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9),
        ),
        (
            b"\x00\x04" + b"\0" * 7 + b"\x05" + b"\0\0\0\x02" + b"\x02m" + b"\0" * 7 + b"\x09" + b"\0",
            OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9),
        ),
    ],
)
def test_values_of_all_versions_are_read(raw: bytes, value: OffsetCommitValue) -> None:
    assert read_offset_record(CoordinatorRecord(key=RAW_KEY, value=raw)) == (KEY, value)


def test_a_tombstone_and_an_old_key_are_read() -> None:
    assert read_offset_record(CoordinatorRecord(key=RAW_KEY, value=None)) == (KEY, None)
    old = CoordinatorRecord(key=b"\x00\x00" + RAW_KEY[2:], value=None)
    assert read_offset_record(old) == (KEY, None)


def test_records_of_other_kinds_are_passed_over() -> None:
    assert read_offset_record(CoordinatorRecord(key=b"\x00\x02\x00\x01g", value=b"whatever")) is None


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(key=b"", value=None),
        CoordinatorRecord(key=RAW_KEY[:-1], value=None),
        CoordinatorRecord(key=RAW_KEY, value=b""),
        CoordinatorRecord(key=RAW_KEY, value=b"\x00\x05" + b"\0" * 40),
        CoordinatorRecord(key=RAW_KEY, value=b"\xff\xff" + b"\0" * 40),
        CoordinatorRecord(key=RAW_KEY, value=b"\x00\x03" + b"\0" * 10),
    ],
)
def test_malformed_records_are_corrupt(record: CoordinatorRecord) -> None:
    with pytest.raises(CorruptBatch):
        read_offset_record(record)


@given(TEXT, TEXT, INT32, INT64, INT32, TEXT, INT64, st.uuids())
def test_offset_records_survive_encoding(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, timestamp: int, topic_id: UUID
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=timestamp, topic_id=topic_id
    )
    assert read_offset_record(offset_record(key, value)) == (key, value)


CONTEXT = ReplayContext(classic=ClassicConfig(max_size=7))
POSITION = OffsetCommitKey(group="g", topic="t", partition=0)


def after(*records: CoordinatorRecord) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for record in records:
        replay(groups, record, CONTEXT)
    return groups


def test_a_committed_offset_creates_a_simple_group() -> None:
    record = offset_record(POSITION, OffsetCommitValue(offset=5))
    assert after(record) == {"g": ClassicGroup(group_id="g", config=CONTEXT.classic)}
    assert after(offset_record(POSITION, None)) == {}


def test_a_committed_offset_does_not_change_an_existing_group() -> None:
    made = new_group_record("g", 9)
    assert after(made, offset_record(POSITION, OffsetCommitValue(offset=5))) == after(made)
    assert after(made, offset_record(POSITION, None)) == after(made)


def test_a_tombstone_ends_a_group() -> None:
    assert after(new_group_record("g", 9), new_group_record("h", 9), group_tombstone("g")).keys() == {"h"}
    assert after(group_tombstone("g")) == {}


def test_records_of_unknown_kinds_are_ignored_and_keys_without_a_version_are_corrupt() -> None:
    assert after(CoordinatorRecord(key=b"\x00\x63rest", value=b"x")) == {}
    for key in (b"", b"\x00"):
        with pytest.raises(CorruptBatch):
            after(CoordinatorRecord(key=key, value=b"x"))
