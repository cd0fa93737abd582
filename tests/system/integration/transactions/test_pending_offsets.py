from collections.abc import Mapping
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from tests.support.requests.classic_group import RawMember, stabilize, sync_all
from tests.support.requests.committed_offsets import commit_offset, committed_offset, committed_offsets
from tests.support.requests.consumer_group import RawConsumer, make_topic, settle
from tests.support.requests.of_topic import offset_delete, offset_fetch
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transactions import RawProducer
from tests.support.servers.brokers import Server
from tests.support.waiting import eventually
from tests.system.integration.transactions.conftest import MakeProducer

PATIENCE_S = 30.0
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def producer(new_producer: MakeProducer) -> RawProducer:
    """A producer that needs no AddOffsetsToTxn."""
    return new_producer(level=2).begin()


def become(reader: RawClient, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Wait until these are all offsets of a group, and stable."""
    eventually(lambda: committed_offsets(reader, group_id, stable=True), offsets, within_s=PATIENCE_S)


def is_listed(reader: RawClient, group_id: str) -> bool:
    return group_id in {group.group_id for group in reader.ask(ListGroupsRequest(), 4).groups}


def test_of_two_transactions_the_later_commit_counts_not_the_later_end(
    new_producer: MakeProducer, producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    second = new_producer(group_id, level=2).begin()
    producer.send_offsets(group_id, {(topic, 0): 5, (topic, 1): 6})
    second.send_offsets(group_id, {(topic, 0): 7})
    second.commit()
    eventually(lambda: committed_offset(reader, group_id, topic), 7, within_s=PATIENCE_S)
    assert committed_offset(reader, group_id, topic, stable=True) is UNSTABLE
    producer.commit()
    become(reader, group_id, {(topic, 0): 7, (topic, 1): 6})


def test_a_plain_commit_does_not_make_it_stable(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.send_offsets(group_id, {(topic, 0): 5})
    commit_offset(reader, group_id, topic, 3)
    assert committed_offset(reader, group_id, topic, stable=True) is UNSTABLE
    producer.abort()
    become(reader, group_id, {(topic, 0): 3})


def test_all_offsets_are_those_that_are_committed(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    commit_offset(reader, group_id, topic, 3)
    producer.send_offsets(group_id, {(topic, 0): 5, (topic, 1): 6})
    assert committed_offsets(reader, group_id) == {(topic, 0): 3}
    assert committed_offsets(reader, group_id, stable=True) == {(topic, 0): UNSTABLE}
    producer.commit()
    become(reader, group_id, {(topic, 0): 5, (topic, 1): 6})


def test_stable_offsets_in_the_first_version_that_has_them(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.send_offsets(group_id, {(topic, 0): 5})
    for stable, code in ((True, UNSTABLE), (False, ErrorCode.NONE)):
        request = offset_fetch(topic, 0, 1, version=7, group_id=group_id, require_stable=stable)
        (found,) = reader.ask(request, 7).topics
        assert [(part.error_code, part.committed_offset, part.metadata) for part in found.partitions] == [
            (code, -1, ""),
            (0, -1, ""),
        ]
    producer.abort()


def test_a_deleted_offset_takes_the_pending_one_along(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    producer.send_offsets(group_id, {(topic, 0): 5, (topic, 1): 6})
    response = reader.ask(offset_delete(topic, group_id=group_id), 0)
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (0, 0)
    assert committed_offset(reader, group_id, topic, stable=True) == -1
    assert committed_offset(reader, group_id, topic, 1, stable=True) is UNSTABLE
    producer.commit()
    become(reader, group_id, {(topic, 1): 6})


def test_a_deleted_group_takes_the_pending_ones_along(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    commit_offset(reader, group_id, topic, 3)
    producer.send_offsets(group_id, {(topic, 0): 5, (topic, 1): 6})
    (result,) = reader.ask(DeleteGroupsRequest(groups_names=(group_id,)), 2).results
    assert result.error_code == 0
    assert not is_listed(reader, group_id)
    producer.commit()
    producer.send_offsets(group_id, {(topic, 1): 8})
    producer.commit()
    become(reader, group_id, {(topic, 1): 8})


def test_a_group_is_there_from_its_first_pending_offset_on(
    producer: RawProducer, reader: RawClient, topic: str, group_id: str
) -> None:
    assert not is_listed(reader, group_id)
    producer.send_offsets(group_id, {(topic, 0): 5})
    assert is_listed(reader, group_id)
    producer.abort()
    become(reader, group_id, {})


def test_members_of_a_classic_group(
    producer: RawProducer, server: Server, reader: RawClient, topic: str, group_id: str
) -> None:
    offsets = {(topic, 0): 5}
    with (
        RawMember(server.bootstrap_servers, group_id, instance_id="i") as first,
        RawMember(server.bootstrap_servers, group_id) as second,
    ):
        stabilize(first)
        assert producer.commit_offsets(group_id, offsets) == [ErrorCode.NONE], "old clients do not say who they are"
        member: dict[str, Any] = {"member_id": first.member_id, "generation_id": first.generation}
        wrongs: list[tuple[dict[str, Any], ErrorCode]] = [
            ({"member_id": "another", "group_instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
            ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        for wrong, expected in wrongs:
            assert producer.commit_offsets(group_id, offsets, **(member | wrong)) == [expected], wrong
        second.begin_join()
        first.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        assert producer.commit_offsets(group_id, offsets, **member) == [ErrorCode.NONE]
        first.begin_join()
        for each in (first, second):
            each.joined()
        assert producer.commit_offsets(group_id, offsets, **member) == [ErrorCode.ILLEGAL_GENERATION]
        member["generation_id"] = first.generation
        assert producer.commit_offsets(group_id, {(topic, 0): 6}, **member) == [ErrorCode.NONE], "amid the rebalance"
        sync_all(first, second)
        for each in (first, second):
            each.leave()
    assert producer.commit_offsets(group_id, offsets, **member) == [ErrorCode.UNKNOWN_MEMBER_ID]
    producer.commit()
    become(reader, group_id, {(topic, 0): 6})


def test_members_of_a_consumer_group(producer: RawProducer, server: Server, reader: RawClient, group_id: str) -> None:
    """KIP-848: the field of the generation holds the member epoch."""
    topic = make_topic(server, 2)
    with RawConsumer(server.bootstrap_servers, group_id, topic) as first:
        first.join()
        settle(first)

        def commit(number: int, offset: int, epoch: int, member_id: str = first.member_id) -> ErrorCode:
            (code,) = producer.commit_offsets(
                group_id, {(topic, number): offset}, member_id=member_id, generation_id=epoch
            )
            return code

        epoch = first.epoch
        assert commit(0, 1, -1, "") is ErrorCode.NONE, "old clients do not say who they are"
        assert commit(0, 1, epoch, "unknown") is ErrorCode.UNKNOWN_MEMBER_ID
        assert commit(0, 1, epoch + 1) is ErrorCode.ILLEGAL_GENERATION
        assert commit(0, 2, epoch) is ErrorCode.NONE
        with RawConsumer(server.bootstrap_servers, group_id, topic) as second:
            second.join()
            settle(first, second)
            assert first.epoch > epoch
            (kept,), (lost,) = first.numbers(), second.numbers()
            assert commit(kept, 3, epoch) is ErrorCode.NONE, "it has had this one since"
            assert commit(lost, 3, epoch) is ErrorCode.ILLEGAL_GENERATION
            assert commit(lost, 4, second.epoch, second.member_id) is ErrorCode.NONE
            producer.commit()
            become(reader, group_id, {(topic, kept): 3, (topic, lost): 4})
            second.leave()
        first.leave()
