from uuid import UUID

import pytest

from broker_embedded._groups.classic.records import (
    GroupMetadataValue,
    MemberMetadata,
    group_record,
    group_tombstone,
)
from broker_embedded._groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocolEntry,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
    Entry,
    to_record,
)
from broker_embedded._groups.records import OffsetCommitKey, OffsetCommitValue, RecordVersions, offset_record
from broker_embedded._records.coordinator_record import CoordinatorRecord
from broker_embedded._tools.record_decoders import (
    STRING_DECODER,
    Decoded,
    decode_group_record,
    decode_transaction_record,
    plain_decoder,
)
from broker_embedded._transactions.records import (
    TRANSACTION_RECORDS,
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    transaction_tombstone,
)
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
)
from spark_kafka_native._protocol.consumer_protocol import TopicPartitions as Owned
from spark_kafka_native._records.record import LogRecord
from tests.support.groups.subscriptions import encode_subscription

PACKAGE = "org.apache.kafka.tools.api"


def message(record: CoordinatorRecord) -> LogRecord:
    return LogRecord(7, 0, record.key, record.value)


def group(record: CoordinatorRecord) -> Decoded:
    return decode_group_record(message(record))


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (0, '"offset":5,"metadata":"m","commitTimestamp":9'),
        (3, '"offset":5,"leaderEpoch":2,"metadata":"m","commitTimestamp":9'),
        (4, '"offset":5,"leaderEpoch":2,"metadata":"m","commitTimestamp":9,"topicId":"AAAAAAAAAAAAAAAAAAAABQ"'),
    ],
)
def test_offset_commit_records_are_printed_as_json(version: int, fields: str) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9, topic_id=UUID(int=5))
    found = group(offset_record(key, value, RecordVersions(offset=version)))
    assert found == (
        '{"type":"1","data":{"group":"g","topic":"t","partition":1}}',
        f'{{"version":"{version}","data":{{{fields}}}}}',
    )


def test_tagged_fields_with_their_defaults_are_left_out() -> None:
    _, value = group(offset_record(OffsetCommitKey(), OffsetCommitValue(offset=5), RecordVersions(offset=4)))
    assert value == '{"version":"4","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":0}}'


def classic(protocol_type: str, subscription: bytes, assignment: bytes) -> Decoded:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", subscription=subscription, assignment=assignment
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol="range", leader="m", members=(member,)
    )
    return group(group_record("g", value))


def test_members_of_classic_groups_are_shown_with_their_subscriptions() -> None:
    owned = (Owned(topic="t", partitions=(0, 1)),)
    key, value = classic(
        "consumer",
        encode_subscription(Subscription(topics=("t",), owned_partitions=owned, rack_id="r", user_data=b"\1"), 3),
        encode_assignment(Assignment(assigned_partitions=owned), 0),
    )
    assert key == '{"type":"2","data":{"group":"g"}}'
    assert value == (
        '{"version":"3","data":{"protocolType":"consumer","generation":3,"protocol":"range","leader":"m",'
        '"currentStateTimestamp":-1,"members":[{"memberId":"m","groupInstanceId":null,"clientId":"c",'
        '"clientHost":"/h","rebalanceTimeout":-1,"sessionTimeout":0,'
        '"subscription":{"topics":["t"],"userData":"AQ==","ownedPartitions":[{"topic":"t","partitions":[0,1]}],'
        '"generationId":-1,"rackId":"r"},'
        '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0,1]}],"userData":null}}]}}'
    )


@pytest.mark.parametrize(("protocol_type", "subscription"), [("connect", b"\0\0\0\0"), ("consumer", b"\0"), ("", b"x")])
def test_other_members_show_bytes_as_base64(protocol_type: str, subscription: bytes) -> None:
    _, value = classic(protocol_type, subscription, b"")
    shown = {b"\0\0\0\0": "AAAAAA==", b"\0": "AA==", b"x": "eA=="}[subscription]
    assert value is not None
    assert f'"subscription":"{shown}","assignment":""' in value


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        (None, "null"),
        (
            ClassicMemberMetadata(supported_protocols=(ClassicProtocolEntry(name="range", metadata=b"\0\1"),)),
            '{"sessionTimeoutMs":0,"supportedProtocols":[{"name":"range","metadata":"AAE="}]}',
        ),
    ],
)
def test_members_of_consumer_groups(metadata: ClassicMemberMetadata | None, shown: str) -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = ConsumerGroupMemberMetadataValue(
        client_id="c", subscribed_topic_names=("t",), classic_member_metadata=metadata
    )
    fields = (
        '"instanceId":null,"rackId":null,"clientId":"c","clientHost":"","subscribedTopicNames":["t"],'
        '"subscribedTopicRegex":null,"rebalanceTimeoutMs":-1,"serverAssignor":null'
    )
    assert group(to_record(Entry(key, value))) == (
        '{"type":"5","data":{"groupId":"g","memberId":"m"}}',
        f'{{"version":"0","data":{{{fields},"classicMemberMetadata":{shown}}}}}',
    )


def test_assignments_of_consumer_groups() -> None:
    parts = (
        CurrentTopicPartitions(topic_id=UUID(int=1), partitions=(2,), assignment_epochs=(3,)),
        CurrentTopicPartitions(topic_id=UUID(int=2), partitions=(4,)),
    )
    assigned = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=5, assigned_partitions=parts)
    _, value = group(to_record(Entry(ConsumerGroupCurrentMemberAssignmentKey(), assigned)))
    assert value == (
        '{"version":"0","data":{"memberEpoch":5,"previousMemberEpoch":0,"state":0,"assignedPartitions":'
        '[{"topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":[2],"assignmentEpochs":[3]},'
        '{"topicId":"AAAAAAAAAAAAAAAAAAAAAg","partitions":[4]}],"partitionsPendingRevocation":[]}}'
    )


def test_transaction_records_are_printed_as_json() -> None:
    value = TransactionLogValue(
        producer_id=1,
        previous_producer_id=9,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=1,
        transaction_partitions=(TopicPartitions(topic="t", partition_ids=(0, 2)),),
        transaction_last_update_timestamp_ms=4,
        transaction_start_timestamp_ms=5,
        client_transaction_version=2,
    )
    common = (
        '"transactionTimeoutMs":3,"transactionStatus":1,"transactionPartitions":[{"topic":"t","partitionIds":[0,2]}],'
        '"transactionLastUpdateTimestampMs":4,"transactionStartTimestampMs":5'
    )
    key = TransactionLogKey(transactional_id="id")
    for version, shown in (
        (0, f'"producerId":1,"producerEpoch":2,{common}'),
        (1, f'"producerId":1,"previousProducerId":9,"producerEpoch":2,{common},"clientTransactionVersion":2'),
    ):
        record = TRANSACTION_RECORDS.write(key, value, version)
        assert decode_transaction_record(message(record)) == (
            '{"type":"0","data":{"transactionalId":"id"}}',
            f'{{"version":"{version}","data":{{{shown}}}}}',
        )


def test_a_tombstone_is_printed_as_delete() -> None:
    assert group(group_tombstone("g")) == ('{"type":"2","data":{"group":"g"}}', "<DELETE>")
    found = decode_transaction_record(message(transaction_tombstone("id")))
    assert found == ('{"type":"0","data":{"transactionalId":"id"}}', "<DELETE>")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"\0\x0a", b"", "Unknown record type 10 at offset 7, skipping."),
        (b"\0", b"", "Error at offset 7, skipping. malformed record: the key has 1 bytes, too few for its version"),
        (b"\0\1\0", b"", "Error at offset 7, skipping. malformed record, OffsetCommitKey: "),
        (b"\0\2\0\1g", b"\0\x09", "Error at offset 7, skipping. GroupMetadataValue of the unknown version 9"),
    ],
)
def test_records_that_cannot_be_read_are_skipped(key: bytes, value: bytes, text: str) -> None:
    shown, payload = group(CoordinatorRecord(key=key, value=value))
    assert payload is None
    assert shown is not None
    assert shown.startswith(text)


def test_a_record_without_a_key_is_not_a_coordinators() -> None:
    for decode in (decode_group_record, decode_transaction_record):
        with pytest.raises(ToolFailed, match="record at offset 7 has no key"):
            decode(LogRecord(7, 0, None, b"value"))


def test_keys_and_values_are_decoded_by_their_decoder_class() -> None:
    assert plain_decoder(STRING_DECODER, STRING_DECODER)(LogRecord(0, 0, "é".encode(), b"\xff")) == ("é", "\ufffd")
    surrogate = LogRecord(0, 0, None, b"a\xed\xa0\x80b\xed\xbf")  # one U+FFFD for each in Java, not for each byte
    assert plain_decoder(STRING_DECODER, STRING_DECODER)(surrogate) == (None, "a\ufffdb\ufffd")
    numbers = plain_decoder(f"{PACKAGE}.IntegerDecoder", f"{PACKAGE}.LongDecoder")
    assert numbers(LogRecord(0, 0, b"\xff" * 4, b"\0" * 7 + b"\5more")) == ("-1", "5")
    assert numbers(LogRecord(0, 0, None, None)) == (None, None)
    with pytest.raises(ToolFailed, match="record at offset 3 cannot be decoded: 3 bytes are too few"):
        numbers(LogRecord(3, 0, b"abc", None))
    with pytest.raises(InvalidOption, match=f"--value-decoder-class: .*'my.Decoder'.*{STRING_DECODER}"):
        plain_decoder(STRING_DECODER, "my.Decoder")
