import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from tests.support.requests.classic_group import RawMember
from tests.support.requests.consumer_group import RawConsumer, describe, settle
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server

MakeMember = Callable[..., RawConsumer]


def committed(client: RawClient, group_id: str, topic: str, member_id: str | None, epoch: int) -> tuple[int, int]:
    request = offset_fetch(topic, version=9, group_id=group_id, member_id=member_id, member_epoch=epoch)
    (group,) = client.ask(request, 9).groups
    return group.error_code, group.topics[0].partitions[0].committed_offset if not group.error_code else -1


def commit(client: RawClient, group_id: str, topic: str, member_id: str, epoch: int, version: int = 9) -> ErrorCode:
    member = {"group_id": group_id, "member_id": member_id, "generation_id_or_member_epoch": epoch}
    request = offset_commit(topic, 7, **member)  # type: ignore[arg-type]  # by name
    return ErrorCode.of(client.ask(request, version).topics[0].partitions[0].error_code)


def test_positions_are_for_members_at_their_epoch(
    member: MakeMember, admin: RawClient, group_id: str, topic: str
) -> None:
    alone = member(topic)
    alone.join()
    me = alone.member_id
    assert commit(admin, group_id, topic, me, 2) is ErrorCode.NONE
    assert commit(admin, group_id, topic, me, 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(admin, group_id, topic, me, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(admin, group_id, topic, me, 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(admin, group_id, topic, "unknown", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(admin, group_id, topic, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(admin, group_id, topic, None, -1) == (0, 7)
    assert committed(admin, group_id, topic, me, 2) == (0, 7)
    assert committed(admin, group_id, topic, me, 1)[0] == ErrorCode.STALE_MEMBER_EPOCH
    assert committed(admin, group_id, topic, "unknown", 2)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    alone.leave()
    assert commit(admin, group_id, topic, "", -1) is ErrorCode.NONE


def test_a_member_of_an_older_epoch_may_commit_partitions_that_it_kept(
    member: MakeMember, admin: RawClient, group_id: str, topic: str
) -> None:
    first, second = member(topic), member(topic)
    first.join()
    second.join()
    settle(first, second)
    keeper, other = (first, second) if 0 in first.numbers() else (second, first)
    since = 2 if keeper is first else 3
    assert keeper.epoch == 3
    assert commit(admin, group_id, topic, keeper.member_id, 2) is (
        ErrorCode.NONE if since == 2 else ErrorCode.STALE_MEMBER_EPOCH
    )
    assert commit(admin, group_id, topic, other.member_id, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(admin, group_id, topic, other.member_id, 3) is ErrorCode.NONE


def test_groups_of_both_kinds_are_listed_and_deleted(
    member: MakeMember, admin: RawClient, group_id: str, topic: str
) -> None:
    alone = member(topic)
    alone.join()

    def listed(**filters: Any) -> list[tuple[str, str, str, str]]:
        groups = admin.ask(ListGroupsRequest(**filters), 5).groups
        return [
            (group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in groups
            if group.group_id == group_id
        ]

    assert listed() == [(group_id, "consumer", "Stable", "consumer")]
    assert listed(types_filter=("Consumer",), states_filter=("stable",)) == listed()
    assert listed(types_filter=("classic",)) == []
    (found,) = admin.ask(DescribeGroupsRequest(groups=(group_id,)), 6).groups
    assert (found.error_code, found.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")

    def deleted() -> int:
        code: int = admin.ask(DeleteGroupsRequest(groups_names=(group_id,)), 2).results[0].error_code
        return code

    assert deleted() == ErrorCode.NON_EMPTY_GROUP
    alone.leave()
    assert deleted() == ErrorCode.NONE
    assert describe(admin, group_id).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(admin, "").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.fixture
def classic(server: Server, group_id: str, topic: str) -> Iterator[RawMember]:
    """A member that speaks the classic protocol and has not joined yet."""
    with RawMember(server.bootstrap_servers, group_id, topics=(topic,)) as old:
        yield old


def types(client: RawClient, group_id: str) -> dict[str, int]:
    return {found.member_id: found.member_type for found in describe(client, group_id).members}


def settle_both(old: RawMember, *members: RawConsumer) -> None:
    deadline = time.monotonic() + 30
    while True:
        for each in members:
            each.beat()
        while old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            assert old.join().error_code == 0
            assert old.sync().error_code == 0
        if describe(members[0].client, members[0].group_id).group_state == "Stable":
            return
        assert time.monotonic() < deadline


def test_an_empty_group_goes_over_either_way(
    member: MakeMember, classic: RawMember, admin: RawClient, group_id: str, topic: str
) -> None:
    classic.join()
    classic.sync({classic.member_id: b""})
    assert classic.leave() is ErrorCode.NONE
    new = member(topic)
    assert new.join().member_epoch == 2
    new.leave()
    classic.member_id = ""
    assert classic.join().generation_id == 1
    assert describe(admin, group_id).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_group_is_upgraded_and_downgraded_under_its_members(
    member: MakeMember, classic: RawMember, admin: RawClient, group_id: str, topic: str
) -> None:
    classic.join()
    everything = b"\x00\x00" + b"\x00\x00\x00\x01" + len(topic).to_bytes(2, "big") + topic.encode()
    everything += (4).to_bytes(4, "big") + b"".join(number.to_bytes(4, "big") for number in range(4)) + b"\xff" * 4
    assert classic.sync({classic.member_id: everything}).error_code == 0
    new = member(topic)
    assert new.join().member_epoch == 2
    assert new.numbers() == []
    assert types(admin, group_id) == {classic.member_id: 0, new.member_id: 1}
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle_both(classic, new)
    assert len(new.owned) == 2
    (found,) = [each for each in describe(admin, group_id).members if each.member_id == classic.member_id]
    assert (found.member_epoch, found.client_id, found.subscribed_topic_names) == (classic.generation, "raw", (topic,))
    assert commit(admin, group_id, topic, classic.member_id, classic.generation, version=8) is ErrorCode.NONE
    assert commit(admin, group_id, topic, classic.member_id, classic.generation + 1, version=8) is (
        ErrorCode.ILLEGAL_GENERATION
    )
    assert new.leave() is ErrorCode.NONE
    (back,) = admin.ask(DescribeGroupsRequest(groups=(group_id,)), 6).groups
    assert (back.error_code, [each.member_id for each in back.members]) == (0, [classic.member_id])
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join().leader == classic.member_id


def test_classic_members_join_a_consumer_group(
    member: MakeMember, classic: RawMember, admin: RawClient, group_id: str, topic: str
) -> None:
    new = member(topic)
    new.join()
    response = classic.join()
    assert (response.generation_id, response.leader, response.members) == (3, "", ())
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert classic.heartbeat(generation_id=9) is ErrorCode.ILLEGAL_GENERATION
    assert classic.heartbeat(member_id=new.member_id, generation_id=2) is ErrorCode.UNKNOWN_MEMBER_ID
    classic.sync()
    settle_both(classic, new)
    assert len(new.owned) == 2
    assert types(admin, group_id) == {classic.member_id: 0, new.member_id: 1}
    assert classic.leave() is ErrorCode.NONE
    settle(new)
    assert len(new.owned) == 4


def test_classic_members_with_other_protocols_are_refused(member: MakeMember, classic: RawMember, topic: str) -> None:
    member(topic).join()
    for fields in ({"protocol_type": "connect"}, {"protocols": ()}):
        response = classic.client.ask(classic.join_request(**fields), 9)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_consumers_of_librdkafka_share_a_topic_and_take_over(server: Server, group_id: str, topic: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for number in range(40):
        producer.produce(topic, b"%d" % number, partition=number % 4)
    producer.flush(30)
    config = {
        "bootstrap.servers": server.bootstrap_servers,
        "group.id": group_id,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumers = [Consumer(config) for _ in range(2)]
    values: set[bytes] = set()

    def poll_until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline
            for consumer in consumers:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    values.add(message.value() or b"")

    for consumer in consumers:
        consumer.subscribe([topic])
    try:
        poll_until(lambda: all(len(consumer.assignment()) == 2 for consumer in consumers))
        poll_until(lambda: len(values) == 40)
        with RawClient(server.bootstrap_servers) as client:
            assert set(types(client, group_id).values()) == {1}
        leaving = consumers.pop()
        leaving.commit(asynchronous=False)
        leaving.close()
        poll_until(lambda: len(consumers[0].assignment()) == 4)
    finally:
        for consumer in consumers:
            consumer.close()
