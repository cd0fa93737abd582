from dataclasses import replace
from typing import Any

import pytest

from broker_embedded._groups.consumer.config import ConsumerConfig
from broker_embedded._groups.consumer.member import MemberState
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.groups.consumer_driver import ConsumerDriver, topic_id
from tests.support.refusals import refused
from tests.support.requests.consumer_group import as_topics

ALL = {"t-0", "t-1", "t-2", "t-3"}


@pytest.fixture
def group() -> ConsumerDriver:
    return ConsumerDriver(t=4)


def test_the_first_member_gets_everything_at_once(group: ConsumerDriver) -> None:
    response = group.join("a", topics=["t"])
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a-id", 2, 5000)
    assert group.owned("a") == ALL
    assert (group.epochs, group.state) == ((2, 2), "Stable")


def test_the_second_member_gets_its_part_when_the_first_has_given_it_back(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"], holds_on=True)
    group.join("b", topics=["t"])
    assert (group.state, group.owned("b"), group.member("b").state) == (
        "Reconciling",
        set(),
        MemberState.UNRELEASED_PARTITIONS,
    )
    group.beat("a")
    assert group.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert group.member("a").member_epoch == 2, "it stays at its epoch until it has given back"
    group.beat("a")
    group.beat("b")
    assert (len(group.owned("a")), group.owned("b")) == (4, set()), "no member gets a partition that is not revoked yet"
    group.give_back("a")
    assert (group.member("a").state, group.member("a").member_epoch) == (MemberState.STABLE, 3)
    group.beat("b")
    assert (len(group.owned("a")), len(group.owned("b")), group.state) == (2, 2, "Stable")
    assert group.owned("a") | group.owned("b") == ALL


def test_a_heartbeat_response_has_an_assignment_only_if_it_is_new_or_requested(group: ConsumerDriver) -> None:
    assert group.join("a", topics=["t"]).assignment is not None
    assert group.beat("a").assignment is None
    assert group.beat("a", full=True).assignment is not None


def test_an_idle_heartbeat_writes_nothing(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    group.beat("a")
    written = len(group.log)
    group.beat("a")
    assert len(group.log) == written


def test_a_member_that_changes_its_subscription_gives_up_the_old_topic_first(group: ConsumerDriver) -> None:
    group.topic("u", 2)
    group.join("a", topics=["t"], holds_on=True)
    group.subscribe("a", topics=["u"])
    assert group.owned("a") == ALL
    assert group.member("a").state is MemberState.UNREVOKED_PARTITIONS
    group.give_back("a")
    assert group.owned("a") == {"u-0", "u-1"}


def test_members_with_nothing_to_read_belong_to_the_group_all_the_same(group: ConsumerDriver) -> None:
    group.join("a", topics=[])
    assert (group.member("a").member_epoch, group.epochs, group.state) == (1, (1, 1), "Stable")
    group.join("b", topics=["nothing"])
    group.settle()
    assert (group.owned("a"), group.owned("b")) == (set(), set())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda group: group.topic("t", 6), ALL | {"t-4", "t-5"}),
        (lambda group: group.topic("u", 1), ALL | {"u-0"}),
        (lambda group: group.drop_topic("t"), set()),
        (lambda group: group.topic("t", 2, new_id=topic_id("another")), {"t-0", "t-1"}),
        (lambda group: group.topic("other", 9), ALL),
    ],
    ids=["more partitions", "a topic is made", "a topic is deleted", "a topic is made again", "none of its topics"],
)
def test_changes_of_topics_reach_the_members(group: ConsumerDriver, change: object, expected: set[str]) -> None:
    group.join("a", topics=["t", "u"])
    group.beat("a")
    epoch, _ = group.epochs
    assert callable(change)
    change(group)
    group.settle()
    assert group.owned("a") == expected
    assert group.epochs[0] == epoch + (expected != ALL)


def test_an_epoch_that_the_member_has_not_is_fenced(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    for epoch in (1, 3, 7):
        assert refused(group.ask, member_id="a-id", member_epoch=epoch).code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_response_does_no_harm(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    group.join("b", topics=["t"])
    owned = group.clients["a"].owned
    group.beat("a")  # gets the revocation
    kept = group.clients["a"].owned
    lost = group.ask(member_id="a-id", member_epoch=2, topic_partitions=as_topics(kept))
    assert lost.member_epoch == 3
    again = group.ask(member_id="a-id", member_epoch=2, topic_partitions=as_topics(kept))
    assert again.member_epoch == 3
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    revoked = as_topics(owned)
    assert refused(group.ask, member_id="a-id", member_epoch=2, topic_partitions=revoked).code is fenced
    assert refused(group.ask, member_id="a-id", member_epoch=2).code is fenced, "it sends no owned partitions"


def test_a_fenced_member_rejoins_with_its_partitions(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    epoch = group.epochs
    group.join("a")
    assert group.owned("a") == ALL
    assert group.epochs == epoch, "nothing has changed for the group"


@pytest.mark.parametrize("epoch", [5, -1])
def test_heartbeats_of_unknown_members_are_refused(group: ConsumerDriver, epoch: int) -> None:
    assert refused(group.ask, member_id="x", member_epoch=epoch).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.join("a", topics=["t"])
    assert refused(group.ask, member_id="x", member_epoch=epoch).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_another_member(group: ConsumerDriver) -> None:
    group.config = replace(group.config, max_size=1)
    group.join("a", topics=["t"])
    assert refused(group.join, "b", topics=["t"]).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    del group.clients["b"]
    assert group.beat("a").error_code == 0
    group.join("a")


def test_the_assignor_that_most_members_name_is_used(group: ConsumerDriver) -> None:
    group.topic("u", 4)
    group.join("a", topics=["t", "u"], assignor="range")
    group.join("b", topics=["t", "u"], assignor="range")
    group.join("c", topics=["t", "u"], assignor="uniform")
    assert group.consumer_group.preferred_assignor == "range"
    group.settle()
    for name in "abc":
        numbers = {partition[2:] for partition in group.owned(name)}
        assert group.owned(name) == {f"{topic}-{number}" for topic in "tu" for number in numbers}


def test_assignments_are_made_at_most_so_often() -> None:
    group = ConsumerDriver(ConsumerConfig(assignment_interval_ms=1000), t=4)
    group.join("a", topics=["t"])
    group.join("b", topics=["t"])
    assert (group.state, group.epochs) == ("Assigning", (3, 2))
    group.advance(999)
    group.beat("b")
    assert group.state == "Assigning"
    group.advance(1)
    group.beat("b")
    assert group.epochs == (3, 3)
    group.settle()
    assert len(group.owned("a")) == len(group.owned("b")) == 2


def test_the_fields_of_a_member_are_kept_until_it_sends_others(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    group.beat("a", rack_id="r1", server_assignor="range", rebalance_timeout_ms=5)
    group.beat("a")
    member = group.member("a")
    assert (member.rack_id, member.server_assignor, member.rebalance_timeout_ms) == ("r1", "range", 5)
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.subscribed_topic_names == {"t"}


def test_a_heartbeat_whose_write_fails_changes_nothing(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"])
    group.log_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        group.join("b", topics=["t"])
    del group.clients["b"]
    assert list(group.consumer_group.members) == ["a-id"]
    group.topic("t", 5)
    with pytest.raises(KafkaError):
        group.beat("a")
    group.log_error = None
    group.settle()
    assert group.owned("a") == ALL | {"t-4"}, "the change was not forgotten"


def test_a_restarted_coordinator_continues_the_reconciliation(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"], holds_on=True)
    group.join("b", topics=["t"])
    group.beat("a")
    group.restart()
    group.give_back("a")
    group.settle()
    assert group.owned("a") | group.owned("b") == ALL


def test_a_static_member_gets_back_what_it_had(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"], instance_id="i")
    group.join("b", topics=["t"])
    group.settle()
    had = group.owned("a")
    epochs = group.epochs
    assert group.leave("a", epoch=-2).member_epoch == -2
    group.beat("b")
    assert len(group.owned("b")) == 2, "its part waits for it"
    response = group.join("a2", topics=["t"], instance_id="i")
    assert (response.member_epoch, group.owned("a2")) == (epochs[1], had)
    assert group.epochs == epochs
    assert group.state == "Stable"


def test_static_members_with_another_id_are_refused(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"], instance_id="i")
    join: dict[str, Any] = {"rebalance_timeout_ms": 5, "topic_partitions": (), "subscribed_topic_names": ("t",)}
    with pytest.raises(KafkaError, match="UNRELEASED_INSTANCE_ID"):
        group.ask(member_id="x", member_epoch=0, instance_id="i", **join)
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        group.ask(member_id="x", member_epoch=2, instance_id="i")
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        group.ask(member_id="a-id", member_epoch=2, instance_id="j")
    assert group.ask(member_id="a-id", member_epoch=2).error_code == 0, "the member id alone is enough"


@pytest.mark.parametrize(("name", "topic", "partitions"), [("a2", "u", {"u-0"}), ("a", "t", ALL)])
def test_a_static_member_rejoins_with_another_subscription_or_its_old_member_id(
    group: ConsumerDriver, name: str, topic: str, partitions: set[str]
) -> None:
    group.topic("u", 1)
    group.join("a", topics=["t"], instance_id="i")
    group.leave("a", epoch=-2)
    group.join(name, topics=[topic], instance_id="i")
    group.settle()
    assert group.owned(name) == partitions


def test_a_restarted_static_member_owns_what_its_predecessor_had_not_revoked(group: ConsumerDriver) -> None:
    group.join("a", topics=["t"], instance_id="i", holds_on=True)
    group.join("b", topics=["t"])
    group.beat("a")
    assert group.member("a").state is MemberState.UNREVOKED_PARTITIONS
    group.leave("a", epoch=-2)
    group.join("a2", topics=["t"], instance_id="i")
    group.settle()
    assert (len(group.owned("a2")), len(group.owned("b"))) == (2, 2)


def test_a_clock_that_is_set_back_delays_no_assignment() -> None:
    group = ConsumerDriver(ConsumerConfig(assignment_interval_ms=1000), t=4)
    group.join("a", topics=["t"])
    group.settle()
    group.now_ms -= 3_600_000
    group.join("b", topics=["t"])
    group.settle()
    assert len(group.owned("a")) == len(group.owned("b")) == 2
    group.join("c", topics=["t"])
    epochs = group.epochs
    group.join("d", topics=["t"])
    assert group.epochs == (epochs[0] + 1, epochs[1]), "the interval counts by the clock as it is now"
