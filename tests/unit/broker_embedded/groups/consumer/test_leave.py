import pytest

from broker_embedded._groups.consumer.member import MemberState
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.groups.consumer_driver import ConsumerDriver
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(t=4)
    group.join("a", topics=["t"])
    group.join("b", topics=["t"])
    group.settle()
    return group


def test_the_partitions_of_a_member_that_leaves_go_to_the_others(group: ConsumerDriver) -> None:
    response = group.leave("a")
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a-id", -1, 0)
    assert group.state == "Assigning"
    group.settle()
    assert len(group.owned("b")) == 4


def test_an_empty_group_keeps_its_epoch(group: ConsumerDriver) -> None:
    group.leave("a")
    group.leave("b")
    assert group.state == "Empty"
    epoch = group.epochs[0]
    group.restart()
    assert (group.epochs[0], group.state) == (epoch, "Empty")
    group.join("c", topics=["t"])
    assert group.clients["c"].epoch == epoch + 1


def test_a_member_that_leaves_takes_its_timers_along(group: ConsumerDriver) -> None:
    group.leave("a")
    assert set(group.timers) == {("session", "b-id")}


def test_a_static_member_may_leave_for_good(group: ConsumerDriver) -> None:
    group.join("c", topics=["t"], instance_id="i")
    group.settle()
    group.leave("c")
    assert "i" not in group.consumer_group.static_members
    group.settle()
    assert len(group.owned("a")) + len(group.owned("b")) == 4


def test_a_static_member_leaves_under_its_own_ids_only(group: ConsumerDriver) -> None:
    group.join("c", topics=["t"], instance_id="i")
    for instance_id, code in (("i", ErrorCode.FENCED_INSTANCE_ID), ("j", ErrorCode.UNKNOWN_MEMBER_ID)):
        for epoch in (-1, -2):
            assert refused(group.ask, member_id="x", member_epoch=epoch, instance_id=instance_id).code is code


def test_a_static_member_that_is_away_has_nothing_to_give_back(group: ConsumerDriver) -> None:
    group.join("c", topics=["t"], instance_id="i")
    group.settle()
    group.clients["c"].holds_on = True
    group.subscribe("c", topics=[])
    assert group.member("c").state is MemberState.UNREVOKED_PARTITIONS
    group.leave("c", epoch=-2)
    away = group.consumer_group.members["c-id"]
    assert (away.member_epoch, dict(away.pending_revocation)) == (-2, {})
    assert ("rebalance", "c-id") not in group.timers
    assert ("session", "c-id") in group.timers
    assert set(away.assigned.values()) <= {0}, "partitions are assigned as of the first epoch"


def test_a_regular_expression_goes_with_its_last_member(group: ConsumerDriver) -> None:
    for name in ("c", "d"):
        group.join(name, regex="t.*", topics=[])
    group.advance(1)
    assert set(group.consumer_group.regexes) == {"t.*"}
    group.leave("c")
    assert set(group.consumer_group.regexes) == {"t.*"}
    group.leave("d")
    assert set(group.consumer_group.regexes) == set()
