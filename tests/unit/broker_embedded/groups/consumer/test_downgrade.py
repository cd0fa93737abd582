from dataclasses import replace

import pytest

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState
from broker_embedded._groups.consumer.config import ConsumerConfig, MigrationPolicy
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.group import Pending
from spark_kafka_native._protocol.consumer_protocol import read_assignment
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.groups.classic_members import stable_classic
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver


@pytest.fixture
def group() -> ConsumerDriver:
    return mixed(ConsumerDriver(t=4))


def mixed(group: ConsumerDriver) -> ConsumerDriver:
    """A stable group with a member of each protocol."""
    (group.old,) = stable_classic(group, "t")  # type: ignore[attr-defined]  # for the tests here
    group.join("a", topics=["t"], instance_id="i")
    for _ in range(4):
        group.beat("a")
        group.classic_round(old_of(group))
        group.advance(1000)
    assert group.state == "Stable"
    return group


def old_of(group: ConsumerDriver) -> ClassicClient:
    old: ClassicClient = group.old  # type: ignore[attr-defined]  # `mixed` has put it there
    return old


def classic(group: ConsumerDriver) -> ClassicGroup:
    assert isinstance(group.group, ClassicGroup)
    return group.group


def test_an_empty_consumer_group_is_simply_replaced() -> None:
    group = ConsumerDriver(ConsumerConfig(migration_policy=MigrationPolicy.DISABLED), t=1)
    group.join("a", topics=["t"])
    group.leave("a")
    old = ClassicClient(topics=("t",))
    assert isinstance(group.classic_join(old), Pending)
    assert group.state == "PreparingRebalance"
    group.restart()
    assert isinstance(group.group, ClassicGroup)


def test_an_empty_consumer_group_is_not_downgraded_for_an_unknown_member_id() -> None:
    group = ConsumerDriver(t=1)
    group.join("a", topics=["t"])
    group.leave("a")
    assert isinstance(group.group, ConsumerGroup)
    assert group.classic_code(ClassicClient(member_id="x", topics=("t",))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(group.group, ConsumerGroup)


@pytest.mark.parametrize("how", ["leaves", "falls silent"])
def test_the_last_consumer_member_leaves_and_the_classic_ones_rebalance(group: ConsumerDriver, how: str) -> None:
    epoch, target = group.epochs[0], group.consumer_group.targets[old_of(group).member_id]
    if how == "leaves":
        group.leave("a")
    else:
        group.lose("a")
        group.fire(("session", "a-id"))
    found = classic(group)
    assert (found.state, found.generation) == (ClassicState.PREPARING_REBALANCE, epoch)
    assert found.protocol_name == "cooperative-sticky"
    (member,) = found.members.values()
    assert group.names_of(target) == {
        f"t-{number}" for topic in read_assignment(member.assignment).assigned_partitions for number in topic.partitions
    }
    assert group.timers["session", member.member_id] == group.now_ms + 20_000
    assert isinstance(group.classic_join(old_of(group)), Pending) or group.state != "PreparingRebalance"
    group.advance(0)
    assert classic(group).generation == epoch + 1


def test_the_log_brings_back_the_classic_group(group: ConsumerDriver) -> None:
    group.leave("a")
    before = classic(group)
    group.restart()
    assert classic(group).state is ClassicState.STABLE, "a rebalance is nothing that is written down"
    assert classic(group).generation == before.generation
    assert {m.assignment for m in classic(group).members.values()} == {m.assignment for m in before.members.values()}


def test_a_static_member_comes_back_with_the_classic_protocol(group: ConsumerDriver) -> None:
    had = group.owned("a")
    group.leave("a", epoch=-2)
    new = ClassicClient(topics=("t",), instance_id="i")
    response = group.classic_join(new)
    assert not isinstance(response, Pending)
    found = classic(group)
    assert (found.state, found.generation) == (ClassicState.STABLE, response.generation_id)
    assert "i" in {member.instance_id for member in found.members.values()}
    group.classic_sync(new)
    assert {f"t-{number}" for number in new.owned["t"]} == had
    assert group.classic_beat(old_of(group)) is ErrorCode.NONE


def test_a_static_member_comes_back_with_another_subscription(group: ConsumerDriver) -> None:
    group.topic("u", 1)
    group.leave("a", epoch=-2)
    group.classic_join(ClassicClient(topics=("u",), instance_id="i"))
    assert classic(group).state is ClassicState.PREPARING_REBALANCE


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_the_policy_may_not_allow_it(group: ConsumerDriver, policy: MigrationPolicy) -> None:
    group.config = replace(group.config, migration_policy=policy)
    group.leave("a")
    assert isinstance(group.group, ConsumerGroup)
    if policy is MigrationPolicy.UPGRADE:  # and the members that are left stay as they are
        group.classic_round(old_of(group))
        assert len(old_of(group).owned["t"]) == 4


def test_a_group_that_is_too_large_stays_what_it_is() -> None:
    group = mixed(ConsumerDriver(classic=ClassicConfig(initial_rebalance_delay_ms=0, max_size=1), t=4))
    second = ClassicClient(topics=("t",))
    group.classic_join(second)
    group.leave("a")
    assert isinstance(group.group, ConsumerGroup)
