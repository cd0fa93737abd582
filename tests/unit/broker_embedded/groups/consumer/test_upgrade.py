from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._groups.classic.group import ClassicGroup
from broker_embedded._groups.consumer.config import ConsumerConfig, MigrationPolicy
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import TopicIdPartition
from broker_embedded._groups.consumer.migration import assignment_of, partitions_of
from broker_embedded._groups.consumer.topics import SubscribableTopic, TopicsView
from broker_embedded._groups.group import Pending
from spark_kafka_native._protocol.consumer_protocol import TopicPartitions, read_assignment
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol
from spark_kafka_native._protocol.messages.leave_group import MemberIdentity
from tests.support.groups.classic_members import assigned, stable_classic
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    return ConsumerDriver(t=4)


def test_an_empty_classic_group_is_simply_replaced(group: ConsumerDriver) -> None:
    (old,) = stable_classic(group, "t")
    group.classic_leave(MemberIdentity(member_id=old.member_id))
    group.advance(60_000)
    assert isinstance(group.group, ClassicGroup)
    assert group.state == "Empty"
    group.config = replace(group.config, migration_policy=MigrationPolicy.DISABLED)
    group.join("a", topics=["t"])
    assert len(group.owned("a")) == 4
    group.restart()
    assert isinstance(group.group, ConsumerGroup)


def test_members_keep_what_they_have_and_the_new_one_gets_its_part(group: ConsumerDriver) -> None:
    old, other = stable_classic(group, "t", "t")
    generation = old.generation
    group.join("a", topics=["t"])
    found = group.consumer_group
    assert found.classic_count == 2
    assert {found.members[client.member_id].member_epoch for client in (old, other)} == {generation}
    assert found.members[old.member_id].client_id == "old"
    for _ in range(4):
        group.beat("a")
        for client in (old, other):
            group.classic_round(client)
        group.advance(1000)
    assert group.state == "Stable"
    assert [sum(map(len, client.owned.values())) for client in (old, other)] in ([1, 2], [2, 1])
    assert len(group.owned("a")) == 1


def test_a_restart_in_between_makes_no_difference(group: ConsumerDriver) -> None:
    (old,) = stable_classic(group, "t")
    group.join("a", topics=["t"])
    group.restart()
    for _ in range(4):
        group.beat("a")
        group.classic_round(old)
        group.advance(1000)
    assert (group.state, len(group.owned("a")), len(old.owned["t"])) == ("Stable", 2, 2)


def test_the_session_of_a_classic_member_keeps_its_timeout(group: ConsumerDriver) -> None:
    (old,) = stable_classic(group, "t")
    group.join("a", topics=["t"])
    assert group.timers["session", old.member_id] == group.now_ms + 20_000
    assert ("join",) not in group.timers
    assert ("sync",) not in group.timers


def test_members_that_wait_in_a_rebalance_are_answered_rebalance_in_progress(group: ConsumerDriver) -> None:
    (old,) = stable_classic(group, "t")
    waiting = ClassicClient(topics=("t",))
    assert isinstance(group.classic_join(waiting), Pending)
    assert list(group.replies.values())[-1] is None
    group.join("a", topics=["t"])
    assert list(group.replies.values())[-1].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert old.member_id in group.consumer_group.members


def refusal(group: ConsumerDriver) -> ErrorCode:
    error = refused(group.join, "a", topics=["t"])
    del group.clients["a"]
    assert isinstance(group.group, ClassicGroup)
    return error.code


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_policy_may_not_allow_it(group: ConsumerDriver, policy: MigrationPolicy) -> None:
    stable_classic(group, "t")
    group.config = replace(group.config, migration_policy=policy)
    assert refusal(group) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_too_large_stays_what_it_is() -> None:
    group = ConsumerDriver(ConsumerConfig(max_size=1), t=1)
    stable_classic(group, "t", "t")
    assert refusal(group) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": (JoinGroupRequestProtocol(name="cooperative-sticky", metadata=b"\x00"),)},
        {"assignments": [b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02xy"]},  # the user data would be lost
    ],
)
def test_a_classic_group_that_a_consumer_group_cannot_express_is_not_upgraded(
    group: ConsumerDriver, fields: dict[str, Any]
) -> None:
    stable_classic(group, "t", **fields)
    assert refusal(group) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_heartbeat_of_an_unknown_member_finds_no_consumer_group(group: ConsumerDriver) -> None:
    stable_classic(group, "t")
    for epoch in (3, -1):
        assert refused(group.ask, member_id="x", member_epoch=epoch).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_assignments_are_taken_over_as_they_are(group: ConsumerDriver) -> None:
    old, _ = stable_classic(group, "t", "t", assignments=[assigned(group, t=[3]), b""])
    group.join("a", topics=["t"])
    assert group.names_of(group.consumer_group.members[old.member_id].assigned) == {"t-3"}


TOPIC = SubscribableTopic(topic_id=UUID(int=7), name="t", partitions=3)
VIEW = TopicsView.of([TOPIC])


def test_an_assignment_goes_by_names_and_comes_back_by_ids() -> None:
    gone = TopicIdPartition(UUID(int=8), 0)
    target = {TopicIdPartition(TOPIC.topic_id, 2), TopicIdPartition(TOPIC.topic_id, 0), gone}
    read = read_assignment(assignment_of(target, VIEW, 1))
    assert read.assigned_partitions == (TopicPartitions(topic="t", partitions=(0, 2)),)
    assert partitions_of(read.assigned_partitions, VIEW) == target - {gone}
    assert partitions_of([TopicPartitions(topic="gone", partitions=(0,))], VIEW) == frozenset()
