from collections.abc import Callable
from typing import Any

import pytest
from dirty_equals import HasLen

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.requests.consumer_group import RawConsumer, as_topics, describe, make_topic, settle, topic_id
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server
from tests.support.waiting import eventually

MakeMember = Callable[..., RawConsumer]


def test_epochs_of_a_member_alone(member: MakeMember, admin: RawClient, group_id: str, topic: str) -> None:
    alone = member(topic)
    response = alone.join()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (alone.member_id, 2, 500)
    assert alone.numbers() == [0, 1, 2, 3]
    group = describe(admin, group_id)
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    assert alone.beat().assignment is None, "nothing is new"
    assert alone.beat(full=True).assignment is not None, "but it asks"
    assert alone.leave() is ErrorCode.NONE
    left = describe(admin, group_id)
    assert (left.group_state, left.group_epoch, left.members) == ("Empty", 3, ())


def test_a_member_is_described_in_every_detail(member: MakeMember, admin: RawClient, group_id: str, topic: str) -> None:
    alone = member(topic, instance_id="i", rack_id="r", server_assignor="range")
    alone.join()
    group = describe(admin, group_id)
    assert (group.error_code, group.error_message, group.assignor_name) == (0, None, "range")
    (found,) = group.members
    assert (found.member_id, found.instance_id, found.rack_id, found.member_epoch) == (alone.member_id, "i", "r", 2)
    assert (found.client_id, found.client_host, found.member_type) == ("raw", "/127.0.0.1", 1)
    assert (found.subscribed_topic_names, found.subscribed_topic_regex) == ((topic,), "")
    for assignment in (found.assignment, found.target_assignment):
        (part,) = assignment.topic_partitions
        assert (part.topic_id, part.topic_name, sorted(part.partitions)) == (
            topic_id(admin, topic),
            topic,
            [0, 1, 2, 3],
        )


def test_partitions_pass_on_once_they_are_given_back(
    member: MakeMember, admin: RawClient, group_id: str, topic: str
) -> None:
    first, second = member(topic), member(topic)
    first.join()
    first.holds_on = True
    second.join()
    assert (second.epoch, second.numbers()) == (3, [])
    assert (first.beat().member_epoch, len(first.assigned)) == (2, 2)
    second.beat()
    assert second.numbers() == []
    assert describe(admin, group_id).group_state == "Reconciling"
    assert first.give_back().member_epoch == 3
    second.beat()
    assert len(second.numbers()) == 2
    assert sorted(first.numbers() + second.numbers()) == [0, 1, 2, 3]
    assert describe(admin, group_id).group_state == "Stable"


def test_the_partitions_of_a_member_that_leaves_go_to_the_others(member: MakeMember, topic: str) -> None:
    members = [member(topic) for _ in range(3)]
    for each in members:
        each.join()
    settle(*members)
    assert sorted(len(each.owned) for each in members) == [1, 1, 2]
    members[0].leave()
    settle(*members[1:])
    assert [len(each.owned) for each in members[1:]] == [2, 2]


def test_a_member_that_does_not_give_back_is_given_up(member: MakeMember, topic: str) -> None:
    first, second = member(topic, rebalance_timeout_ms=300), member(topic)
    first.join()
    first.holds_on = True
    second.join()
    first.beat()

    def code_of_first() -> ErrorCode:
        second.beat()
        return first.code()

    eventually(code_of_first, ErrorCode.UNKNOWN_MEMBER_ID)
    settle(second)
    assert second.numbers() == [0, 1, 2, 3]


def test_members_may_read_nothing(member: MakeMember, admin: RawClient, group_id: str) -> None:
    assert member(subscribed_topic_names=()).join().member_epoch == 1
    assert describe(admin, group_id).group_state == "Stable"
    unknown = member("not-there")
    assert unknown.join().member_epoch == 2
    assert unknown.numbers() == []


def test_subscriptions_change(member: MakeMember, server: Server, topic: str) -> None:
    other = make_topic(server)
    alone = member(topic)
    alone.join()
    alone.holds_on = True
    alone.fields["subscribed_topic_names"] = (other,)
    alone.beat(full=True)
    assert alone.assigned == frozenset()
    alone.give_back()
    assert alone.owned == {(topic_id(alone.client, other), 0)}


def test_topics_grow_and_go(member: MakeMember, admin: RawClient, topic: str) -> None:
    alone = member(topic)
    alone.join()
    grow = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=topic, count=6, assignments=None),), timeout_ms=10_000
    )
    assert admin.ask(grow, 3).results[0].error_code == 0

    eventually(alone.beaten, HasLen(6))
    admin.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name=topic),), timeout_ms=10_000), 6)
    eventually(alone.beaten, HasLen(0))


def test_the_range_assignor_keeps_numbers_together(member: MakeMember, server: Server, topic: str) -> None:
    other = make_topic(server, 4)
    members = [member(topic, other, server_assignor="range") for _ in range(3)]
    for each in members:
        each.join()
    settle(*members)
    ids = [topic_id(members[0].client, name) for name in (topic, other)]
    for each in members:
        of_each = [[number for id_, number in sorted(each.owned) if id_ == wanted] for wanted in ids]
        assert of_each[0] == of_each[1]
    assert sorted(len(each.owned) for each in members) == [2, 2, 4]


def test_regular_expressions(member: MakeMember, server: Server, group_id: str) -> None:
    topics = [make_topic(server) for _ in range(3)]
    alone = member(subscribed_topic_regex=f"{topics[0]}|(?:{topics[1]})+")
    alone.join()
    settle_regex(alone, 2)
    assert {id_ for id_, _ in alone.owned} == {topic_id(alone.client, name) for name in topics[:2]}
    second = member(topics[2], subscribed_topic_regex=f"{topics[0]}|(?:{topics[1]})+")
    second.join()
    settle(alone, second)
    assert {id_ for id_, _ in alone.owned | second.owned} == {topic_id(alone.client, name) for name in topics}
    found = {each.member_id: each.subscribed_topic_regex for each in describe(alone.client, group_id).members}
    assert set(found.values()) == {alone.fields["subscribed_topic_regex"]}


def test_regular_expressions_match_the_brokers_own_topics_too(member: MakeMember) -> None:
    alone = member(subscribed_topic_regex="__consumer_off.*")
    alone.join()
    settle_regex(alone, 3)


def settle_regex(alone: RawConsumer, count: int) -> None:
    eventually(alone.beaten, HasLen(count))


JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "topic_partitions": (),
    "subscribed_topic_names": (),
}


@pytest.mark.parametrize(
    ("version", "fields", "code"),
    [
        (1, {"member_id": ""}, ErrorCode.INVALID_REQUEST),
        (1, {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        (1, {"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        (1, {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        (1, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        (1, {"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        (1, {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        (1, {"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        (1, {"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        (1, {"server_assignor": "magic"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (1, {"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (1, {"subscribed_topic_regex": r"(a)\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (1, {"subscribed_topic_regex": "(?=a)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (1, {"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        (1, {"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        (0, {"member_id": "", "member_epoch": 1}, ErrorCode.INVALID_REQUEST),
        (0, {"member_id": "", "member_epoch": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_heartbeats_are_refused(
    member: MakeMember, version: int, fields: dict[str, Any], code: ErrorCode
) -> None:
    response = member().ask(version, **{**JOIN, **fields})
    assert ErrorCode.of(response.error_code) is code
    assert (response.error_message is not None, response.member_id, response.member_epoch) == (True, None, 0)


def test_an_id_is_made_in_version_0(member: MakeMember) -> None:
    response = member().ask(0, **{**JOIN, "member_id": ""})
    assert response.error_code == 0
    assert response.member_id


def test_epochs_that_are_not_the_members(member: MakeMember, topic: str) -> None:
    alone, other = member(topic), member(topic)
    alone.join()
    for epoch in (1, 3):
        assert alone.code(member_epoch=epoch) is ErrorCode.FENCED_MEMBER_EPOCH
    other.member_id = "unknown"
    assert other.code(member_epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert other.code(member_epoch=-1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_response_that_got_lost(member: MakeMember, topic: str) -> None:
    first, second = member(topic), member(topic)
    first.join()
    had = first.owned
    second.join()
    first.beat()
    kept = as_topics(first.owned)
    assert first.ask(topic_partitions=kept).member_epoch == 3
    assert first.ask(member_epoch=2, topic_partitions=kept).member_epoch == 3, "said again"
    assert first.code(member_epoch=2, topic_partitions=as_topics(had)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.code(member_epoch=2) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group(member: MakeMember, topic: str) -> None:
    for _ in range(4):
        member(topic).join()
    response = member(topic).ask(**JOIN)
    assert ErrorCode.of(response.error_code) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_to_what_it_had(
    member: MakeMember, admin: RawClient, group_id: str, topic: str
) -> None:
    first, second = member(topic, instance_id="i"), member(topic)
    first.join()
    second.join()
    settle(first, second)
    epoch = describe(admin, group_id).group_epoch
    had = first.owned
    response = first.ask(member_epoch=-2)
    assert (response.member_id, response.member_epoch) == (first.member_id, -2)
    again = member(topic, instance_id="i")
    assert again.join().member_epoch == first.epoch
    assert again.owned == had
    assert describe(admin, group_id).group_epoch == epoch
    assert first.code() is ErrorCode.FENCED_INSTANCE_ID


def test_static_members_that_are_not_who_they_say(member: MakeMember, topic: str) -> None:
    member(topic, instance_id="i").join()
    other = member(topic, instance_id="i")
    assert other.code(**JOIN) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.code(member_epoch=2) is ErrorCode.FENCED_INSTANCE_ID
    assert other.code(member_epoch=-1) is ErrorCode.FENCED_INSTANCE_ID
    assert other.code(member_epoch=-2) is ErrorCode.FENCED_INSTANCE_ID
    other.instance_id = "j"
    for epoch in (2, -1, -2):
        assert other.code(member_epoch=epoch) is ErrorCode.UNKNOWN_MEMBER_ID
