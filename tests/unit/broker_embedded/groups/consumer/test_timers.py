import pytest

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import JOIN_TIMER, SYNC_TIMER
from broker_embedded._groups.consumer.config import ConsumerConfig
from broker_embedded._groups.consumer.draft import REGEX_TIMER
from broker_embedded._groups.group import Outcome
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.groups.consumer_driver import ConsumerDriver
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(t=6)
    group.join("a", topics=["t"])
    group.join("b", topics=["t"])
    group.settle()
    return group


def test_the_partitions_of_a_member_whose_session_ended_move_to_the_others(group: ConsumerDriver) -> None:
    group.lose("a")
    for _ in range(9):
        group.advance(5000)
        group.beat("b")
    assert list(group.consumer_group.members) == ["b-id"]
    group.settle()
    assert len(group.owned("b")) == 6
    assert refused(group.ask, member_id="a-id", member_epoch=3).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_every_heartbeat_prolongs_the_session(group: ConsumerDriver) -> None:
    for _ in range(4):
        group.beat("a")
        group.beat("b")
        group.advance(44_999)
    assert len(group.consumer_group.members) == 2


def test_the_session_of_one_group_may_be_longer() -> None:
    group = ConsumerDriver(ConsumerConfig(session_timeout_ms=60_000), t=1)
    group.join("a", topics=["t"])
    group.advance(59_999)
    assert group.state == "Stable"
    group.advance(1)
    assert group.state == "Empty"


def test_a_member_that_does_not_revoke_is_fenced_after_the_rebalance_timeout(group: ConsumerDriver) -> None:
    group.clients["a"].holds_on = True
    group.join("c", topics=["t"])
    group.beat("a")
    assert ("rebalance", "a-id") in group.timers
    group.advance(30_000)
    for name in "abc":
        group.beat(name)
    group.clients.pop("a")  # it does not know yet, and believes in vain that it has something
    group.advance(30_000)
    assert "a-id" not in group.consumer_group.members
    group.settle()
    assert len(group.owned("b")) + len(group.owned("c")) == 6


def test_a_member_that_revokes_in_time_stays(group: ConsumerDriver) -> None:
    group.clients["a"].holds_on = True
    group.join("c", topics=["t"])
    group.beat("a")
    group.give_back("a")
    assert ("rebalance", "a-id") not in group.timers


def test_a_static_member_has_its_session_to_come_back(group: ConsumerDriver) -> None:
    group.join("c", topics=["t"], instance_id="i")
    group.settle()
    group.leave("c", epoch=-2)
    for _ in range(8):
        group.advance(5000)
        group.settle() if group.state != "Reconciling" else [group.beat(name) for name in "ab"]
    assert "c-id" in group.consumer_group.members
    group.advance(5000)
    group.settle()
    assert "c-id" not in group.consumer_group.members
    assert len(group.owned("a")) + len(group.owned("b")) == 6


def test_after_a_restart_every_member_has_a_whole_session(group: ConsumerDriver) -> None:
    group.clients["a"].holds_on = True
    group.join("c", topics=["t"])
    group.beat("a")
    group.advance(40_000)
    group.restart()
    assert group.timers == {
        ("session", "a-id"): group.now_ms + 45_000,
        ("session", "b-id"): group.now_ms + 45_000,
        ("session", "c-id"): group.now_ms + 45_000,
        ("rebalance", "a-id"): group.now_ms + 60_000,
    }


def test_timers_of_members_that_are_gone_do_nothing(group: ConsumerDriver) -> None:
    before = group.group
    for kind in ("session", "rebalance", "join", "sync"):
        group.fire((kind, "unknown"))
    group.fire(("rebalance", "a-id"))
    group.fire(REGEX_TIMER)
    assert group.group == before


def test_a_timer_whose_records_cannot_be_written_has_done_nothing(group: ConsumerDriver) -> None:
    group.log_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        group.fire(("session", "a-id"))
    assert "a-id" in group.consumer_group.members


@pytest.mark.parametrize("key", [JOIN_TIMER, SYNC_TIMER])
def test_timers_that_fire_after_a_downgrade_do_nothing(group: ConsumerDriver, key: tuple[str, ...]) -> None:
    assert decisions.timer_fired(group.consumer_group, key, 0) == Outcome(response=None)
