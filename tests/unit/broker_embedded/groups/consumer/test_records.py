from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._groups.consumer import records as consumer_records
from broker_embedded._groups.consumer.records import (
    KEY_VERSIONS,
    ClassicMemberMetadata,
    ClassicProtocolEntry,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    Entry,
    PartitionRacks,
    SubscribedTopic,
    TargetTopicPartitions,
    read_entry,
    to_record,
)
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.records.message_strategies import messages

KINDS = sorted(consumer_records.CONSUMER_GROUP_RECORDS.values(), key=str)
ENTRIES = st.sampled_from(KINDS).flatmap(
    lambda kind: st.builds(Entry, messages(kind.key, 0), st.none() | messages(kind.value, 0))
)
ID = UUID(int=5)
MEMBER = Entry(
    ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
    ConsumerGroupMemberMetadataValue(
        instance_id="i",
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex="",
        rebalance_timeout_ms=7,
        server_assignor=None,
        classic_member_metadata=None,
    ),
)
"""A member as it joins."""


@pytest.mark.parametrize(
    ("entry", "key", "value"),
    [
        (
            Entry(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2)),
            "0003 0001 67",
            "0000 00000002 00",
        ),
        (
            Entry(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2, metadata_hash=-1)),
            "0003 0001 67",
            "0000 00000002 01 00 08 ffffffffffffffff",
        ),
        (
            Entry(
                ConsumerGroupPartitionMetadataKey(group_id="g"),
                ConsumerGroupPartitionMetadataValue(
                    topics=(
                        SubscribedTopic(
                            topic_id=ID,
                            topic_name="t",
                            num_partitions=2,
                            partition_metadata=(PartitionRacks(partition=1, racks=("r",)),),
                        ),
                    )
                ),
            ),
            "0004 0001 67",
            "0000 02 00000000000000000000000000000005 0274 00000002 02 00000001 020272 00 00 00",
        ),
        (MEMBER, "0005 0001 67 0001 6d", "0000 0269 00 0263 032f68 020274 01 00000007 00 01 00 01 00"),
        (
            Entry(
                ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
                ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=9),
            ),
            "0006 0001 67",
            "0000 00000003 01 00 08 0000000000000009",
        ),
        (
            Entry(
                ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
                ConsumerGroupTargetAssignmentMemberValue(
                    topic_partitions=(TargetTopicPartitions(topic_id=ID, partitions=(0, 1)),)
                ),
            ),
            "0007 0001 67 0001 6d",
            "0000 02 00000000000000000000000000000005 03 00000000 00000001 00 00",
        ),
        (
            Entry(
                ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
                ConsumerGroupCurrentMemberAssignmentValue(
                    member_epoch=3,
                    previous_member_epoch=2,
                    state=1,
                    assigned_partitions=(CurrentTopicPartitions(topic_id=ID, partitions=(4,), assignment_epochs=(3,)),),
                ),
            ),
            "0008 0001 67 0001 6d",
            "0000 00000003 00000002 01 02 00000000000000000000000000000005 02 00000004 01 00 05 02 00000003 01 00",
        ),
        (
            Entry(
                ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="t.*"),
                ConsumerGroupRegularExpressionValue(topics=("t",), version=1, timestamp=2),
            ),
            "0010 0001 67 0003 742e2a",
            "0000 020274 0000000000000001 0000000000000002 00",
        ),
    ],
)
def test_the_bytes_are_apache_kafkas(entry: Entry, key: str, value: str) -> None:
    record = to_record(entry)
    assert (record.key.hex(), (record.value or b"").hex()) == (key.replace(" ", ""), value.replace(" ", ""))
    assert read_entry(record) == entry


def test_a_classic_member_is_a_tagged_struct() -> None:
    entry = Entry(
        MEMBER.key,
        ConsumerGroupMemberMetadataValue(
            subscribed_topic_regex="",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=6, supported_protocols=(ClassicProtocolEntry(name="r", metadata=b"\x01"),)
            ),
        ),
    )
    value = to_record(entry).value or b""
    assert value.hex().endswith("01" + "00" + "0c" + "01" + "00000006" + "02" + "0272" + "0201" + "00" + "00")
    assert read_entry(to_record(entry)) == entry


@given(ENTRIES)
def test_group_records_survive_encoding(entry: Entry) -> None:
    assert read_entry(to_record(entry)) == entry


@given(ENTRIES, st.data())
def test_records_that_are_cut_short_are_corrupt(entry: Entry, data: st.DataObject) -> None:
    record = to_record(entry)
    cut_key = data.draw(st.integers(2, len(record.key) - 1))
    with pytest.raises(CorruptBatch):
        read_entry(CoordinatorRecord(key=record.key[:cut_key], value=record.value))
    if record.value is not None:
        cut_value = data.draw(st.integers(0, len(record.value) - 1))
        with pytest.raises(CorruptBatch):
            read_entry(CoordinatorRecord(key=record.key, value=record.value[:cut_value]))


def test_values_of_unknown_versions_are_corrupt() -> None:
    record = to_record(MEMBER)
    for version in (b"\x00\x01", b"\xff\xff"):
        with pytest.raises(CorruptBatch):
            read_entry(CoordinatorRecord(key=record.key, value=version + (record.value or b"")[2:]))


def test_fields_that_a_newer_broker_added_are_passed_over() -> None:
    record = to_record(MEMBER)
    known = b"\x00\x01\x00"
    assert (record.value or b"").endswith(b"\x01" + known)
    newer = (record.value or b"")[: -len(known) - 1] + b"\x02" + known + b"\x09\x02xy"
    assert read_entry(CoordinatorRecord(key=record.key, value=newer)) == MEMBER


def test_the_key_versions() -> None:
    assert KEY_VERSIONS == (3, 4, 5, 6, 7, 8, 16)
