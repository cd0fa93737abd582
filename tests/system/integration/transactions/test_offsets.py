from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.classic_group import RawMember, stabilize
from tests.support.requests.committed_offsets import commit_offset, committed_offset
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import described, reaches
from tests.support.requests.transactions import RawProducer
from tests.support.servers.brokers import Server
from tests.support.waiting import eventually
from tests.system.integration.transactions.conftest import MakeProducer

PATIENCE_S = 30.0


def becomes(reader: RawClient, group_id: str, topic: str, offset: int) -> None:
    """Wait until the offset is stable, and this one."""
    eventually(lambda: committed_offset(reader, group_id, topic, stable=True), offset, within_s=PATIENCE_S)


def test_offsets_count_when_the_transaction_is_committed(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.write(topic, "a")
    producer.send_offsets(group_id, {(topic, 0): 5})
    assert committed_offset(reader, group_id, topic) == -1
    assert committed_offset(reader, group_id, topic, stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.commit()
    becomes(reader, group_id, topic, 5)


def test_offsets_of_an_aborted_transaction_never_count(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    commit_offset(reader, group_id, topic, 3)
    producer.send_offsets(group_id, {(topic, 0): 5})
    assert committed_offset(reader, group_id, topic) == 3
    assert committed_offset(reader, group_id, topic, stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.abort()
    becomes(reader, group_id, topic, 3)


def test_the_last_offset_of_a_transaction_counts(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    for offset in (5, 9, 7):
        producer.send_offsets(group_id, {(topic, 0): offset})
    producer.commit()
    becomes(reader, group_id, topic, 7)


def test_a_plain_commit_after_a_pending_one_wins(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.send_offsets(group_id, {(topic, 0): 5})
    commit_offset(reader, group_id, topic, 9)
    assert committed_offset(reader, group_id, topic) == 9
    producer.commit()
    becomes(reader, group_id, topic, 9)


def test_several_groups_and_partitions(producer: RawProducer, reader: RawClient, topic: str, group_id: str) -> None:
    second = group_id + "-2"
    producer.send_offsets(group_id, {(topic, 0): 1, (topic, 1): 2})
    producer.send_offsets(second, {(topic, 0): 3})
    producer.commit()
    becomes(reader, group_id, topic, 1)
    becomes(reader, second, topic, 3)
    assert committed_offset(reader, group_id, topic, 1, stable=True) == 2
    assert committed_offset(reader, second, topic, 1, stable=True) == -1


def test_a_fenced_producer_commits_nothing(
    producer: RawProducer, new_producer: MakeProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.send_offsets(group_id, {(topic, 0): 5})
    new_producer(level=producer.level).begin()
    becomes(reader, group_id, topic, -1)
    assert producer.commit_offsets(group_id, {(topic, 0): 6}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert committed_offset(reader, group_id, topic, stable=True) == -1


@pytest.mark.parametrize(
    ("version", "expected"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_a_group_that_was_not_added(
    new_producer: MakeProducer, topic: str, group_id: str, version: int, expected: ErrorCode
) -> None:
    producer = new_producer(level=1).begin()
    assert producer.commit_offsets(group_id, {(topic, 0): 5}, version=version) == [expected]


@pytest.mark.parametrize("version", range(6))
def test_every_version(new_producer: MakeProducer, reader: RawClient, topic: str, group_id: str, version: int) -> None:
    producer = new_producer(level=2 if version >= 5 else 1).begin()
    if version < 5:
        assert producer.add_offsets(group_id, version=min(version, 4)) is ErrorCode.NONE
    assert producer.commit_offsets(group_id, {(topic, 0): 5}, version=version) == [ErrorCode.NONE]
    ongoing = described(reader, producer.transactional_id)
    assert [entry.topic for entry in ongoing.topics] == ["__consumer_offsets"]
    producer.commit()
    becomes(reader, group_id, topic, 5)
    reaches(reader, producer.transactional_id, "CompleteCommit")


def test_members_are_checked(
    producer: RawProducer, server: Server, reader: RawClient, topic: str, group_id: str
) -> None:
    """KIP-447: a former member commits nothing."""
    offsets = {(topic, 0): 5}
    with RawMember(server.bootstrap_servers, group_id) as member:
        stabilize(member)
        if producer.level == 1:
            assert producer.add_offsets(group_id) is ErrorCode.NONE
        real: dict[str, Any] = {"member_id": member.member_id, "generation_id": member.generation}
        wrongs: list[tuple[dict[str, Any], ErrorCode]] = [
            ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": member.generation + 1}, ErrorCode.ILLEGAL_GENERATION),
            ({"group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        for wrong, expected in wrongs:
            assert producer.commit_offsets(group_id, offsets, **(real | wrong)) == [expected]
        assert producer.commit_offsets(group_id, offsets, **real) == [ErrorCode.NONE]
        producer.commit()
        becomes(reader, group_id, topic, 5)
        member.leave()
