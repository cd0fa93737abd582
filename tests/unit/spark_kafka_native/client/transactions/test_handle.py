import json
import pickle

import pytest

from spark_kafka_native._client.transactions.handle import (
    UNKNOWN_OFFSET,
    TransactionalIdentity,
    TransactionHandle,
    WrittenPartition,
)
from spark_kafka_native._protocol.topic import TopicPartition

IDENTITY = TransactionalIdentity(
    transactional_id="sink.1.2", producer_id=7000, producer_epoch=3, timeout_ms=60_000, transaction_version=2
)
HANDLE = TransactionHandle(
    transactional_id="sink.1.2",
    producer_id=7000,
    producer_epoch=3,
    timeout_ms=60_000,
    transaction_version=2,
    partitions=(
        WrittenPartition(partition=TopicPartition("t", 1), from_offset=5, until_offset=9),
        WrittenPartition(partition=TopicPartition("u", 0)),
    ),
    groups=("g",),
    started_ms=1_700_000_000_000,
)


@pytest.mark.parametrize("value", [IDENTITY, HANDLE])
def test_handles_can_be_pickled_and_written_as_json(value: TransactionalIdentity) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert type(value).from_json(json.loads(json.dumps(value.to_json()))) == value
    assert len({value, pickle.loads(pickle.dumps(value))}) == 1


def test_a_handle_has_its_producers_identity() -> None:
    assert HANDLE.identity == IDENTITY
    assert TransactionalIdentity.from_json(HANDLE.to_json()) == IDENTITY
    assert str(HANDLE) == str(IDENTITY) == "sink.1.2 (producer 7000, epoch 3)"


def test_versions_say_whether_each_transaction_has_its_epoch() -> None:
    found = [
        TransactionalIdentity.from_json({**IDENTITY.to_json(), "transaction_version": version}) for version in range(4)
    ]
    assert [value.has_epoch_per_transaction for value in found] == [False, False, True, True]


def test_partitions_say_where_their_records_are() -> None:
    assert [str(part) for part in HANDLE.partitions] == ["t-1 offsets 5 to 9", "u-0 offsets -1 to -1"]
    assert HANDLE.partitions[1].from_offset == UNKNOWN_OFFSET


def test_a_handle_with_groups_alone_is_not_empty() -> None:
    def with_only(**own: object) -> TransactionHandle:
        return TransactionHandle.from_json({**HANDLE.to_json(), "partitions": [], "groups": [], **own})

    assert with_only().is_empty
    assert not with_only(groups=["g"]).is_empty
    assert not with_only(partitions=[["t", 0, 1, 2]]).is_empty


def test_malformed_handles_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="this is no TransactionHandle: partitions, groups, started_ms missing"):
        TransactionHandle.from_json(IDENTITY.to_json())
    for wrong in ([["t", 0]], [1], None):
        with pytest.raises(ValueError, match=r"not \[topic, partition, from, until\]"):
            TransactionHandle.from_json({**HANDLE.to_json(), "partitions": wrong})
    with pytest.raises(ValueError, match="no TransactionalIdentity: producer_id"):
        TransactionalIdentity.from_json({"transactional_id": "x"})
