from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest

from broker_embedded._groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition
from broker_embedded._groups.consumer.reconciliation import TargetAssignment, reconcile
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.refusals import refused

A, B = UUID(int=1), UUID(int=2)
A0, A1, A2, A3 = (TopicIdPartition(A, number) for number in range(4))
B0 = TopicIdPartition(B, 0)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def member(
    *,
    epoch: int = 5,
    state: MemberState = STABLE,
    has: Mapping[TopicIdPartition, int],
    gives: Iterable[TopicIdPartition] = (),
) -> ConsumerMember:
    return ConsumerMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned=has,
        pending_revocation=dict.fromkeys(gives, 3),
    )


def step(
    before: ConsumerMember,
    *wanted: TopicIdPartition,
    epoch: int = 6,
    taken: tuple[TopicIdPartition, ...] = (),
    topics: tuple[UUID, ...] = (A, B),
    owned: tuple[TopicIdPartition, ...] | None = None,
    changed: bool = False,
) -> ConsumerMember:
    target = TargetAssignment(epoch=epoch, partitions=frozenset(wanted), topic_ids=topics, is_taken=taken.__contains__)
    return reconcile(before, target, owned=None if owned is None else frozenset(owned), subscription_changed=changed)


def summary(after: ConsumerMember) -> tuple[MemberState, int, int, dict[TopicIdPartition, int], set[TopicIdPartition]]:
    return (
        after.state,
        after.member_epoch,
        after.previous_member_epoch,
        dict(after.assigned),
        set(after.pending_revocation),
    )


def test_a_stable_member_at_its_target_stays() -> None:
    before = member(has={A0: 4})
    assert step(before, A0, epoch=5) is before


def test_a_stable_member_takes_what_is_new_and_remembers_since_when_it_has_each() -> None:
    assert summary(step(member(has={A0: 4}), A0, A1)) == (STABLE, 6, 5, {A0: 4, A1: 6}, set())


def test_a_stable_member_gives_back_before_it_takes() -> None:
    assert summary(step(member(has={A0: 4, A1: 4}), A0, A2)) == (UNREVOKED, 5, 5, {A0: 4}, {A1})


def test_a_member_that_has_revoked_already_gets_the_next_epoch_at_once() -> None:
    assert summary(step(member(has={A0: 4, A1: 4}), A0, A2, owned=(A0,))) == (STABLE, 6, 5, {A0: 4, A2: 6}, set())


def test_a_member_waits_for_partitions_that_others_own() -> None:
    after = step(member(has={A0: 4}), A0, A1, A2, taken=(A1,))
    assert summary(after) == (UNRELEASED, 6, 5, {A0: 4, A2: 6}, set())
    assert summary(step(after, A0, A1, A2, taken=(A1,))) == (UNRELEASED, 6, 6, {A0: 4, A2: 6}, set())
    assert summary(step(after, A0, A1, A2)) == (STABLE, 6, 6, {A0: 4, A1: 6, A2: 6}, set())


def test_a_member_that_waits_may_have_to_give_back_for_the_next_target() -> None:
    waiting = member(epoch=6, state=UNRELEASED, has={A0: 4, A2: 6})
    assert summary(step(waiting, A0, A1, epoch=7, taken=(A1,))) == (UNREVOKED, 6, 6, {A0: 4}, {A2})


@pytest.mark.parametrize("owned", [None, (A0, A1), (A1,)], ids=["says nothing", "has all", "has one"])
def test_a_member_stays_until_it_has_given_back(owned: tuple[TopicIdPartition, ...] | None) -> None:
    before = member(state=UNREVOKED, has={A0: 4}, gives=(A1,))
    assert step(before, A0, A2, owned=owned) is before


def test_a_member_that_has_given_back_goes_to_the_latest_target() -> None:
    before = member(state=UNREVOKED, has={A0: 4}, gives=(A1,))
    assert summary(step(before, A0, A2, epoch=9, owned=(A0,))) == (STABLE, 9, 5, {A0: 4, A2: 9}, set())
    assert summary(step(before, A2, epoch=9, owned=(A0,))) == (UNREVOKED, 5, 5, {}, {A0})


def test_a_partition_pending_revocation_may_be_assigned_again() -> None:
    before = member(state=UNREVOKED, has={A0: 4}, gives=(A1,))
    assert summary(step(before, A0, A1, epoch=7, owned=(A0,))) == (STABLE, 7, 5, {A0: 4, A1: 7}, set())


def test_topics_that_a_member_left_are_taken_from_it_before_there_is_a_target() -> None:
    before = member(has={A0: 4, B0: 4})
    assert summary(step(before, A0, B0, epoch=5, topics=(A,), changed=True)) == (UNREVOKED, 5, 5, {A0: 4}, {B0})
    assert summary(step(before, A0, B0, epoch=5, topics=(A,), changed=True, owned=(A0,))) == (
        STABLE,
        5,
        5,
        {A0: 4},
        set(),
    )
    assert step(before, A0, B0, epoch=5, changed=True) is before
    assert step(before, A0, B0, epoch=5, topics=(A,)) is before, "unless its subscription changed just now"


def test_topics_that_a_member_left_join_what_it_has_to_give_back() -> None:
    before = member(state=UNREVOKED, has={A0: 4, B0: 4}, gives=(A1,))
    after = step(before, A0, topics=(A,), changed=True)
    assert summary(after) == (UNREVOKED, 5, 5, {A0: 4}, {A1, B0})


def test_a_target_in_a_topic_that_the_member_left_does_not_count() -> None:
    assert summary(step(member(has={}), A0, B0, topics=(A,))) == (STABLE, 6, 5, {A0: 6}, set())


def test_an_unknown_state_restarts_the_reconciliation() -> None:
    before = member(state=MemberState.UNKNOWN, has={A0: 4})
    for owned in (None, (A0,)):
        assert refused(step, before, A1, owned=owned).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert summary(step(before, A1, owned=())) == (STABLE, 6, 5, {A1: 6}, set())
