from dataclasses import replace

import pytest

from broker_embedded._groups.consumer import regexes
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.groups.consumer_driver import ConsumerDriver
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(u=1)
    group.topic("t-a", 1)
    group.topic("t-b", 2)
    return group


def matched(group: ConsumerDriver, regex: str) -> set[str]:
    return set(group.consumer_group.regexes[regex].topics)


def test_an_expression_is_looked_up_beside_the_heartbeat(group: ConsumerDriver) -> None:
    assert (group.join("a", regex="t-.*").member_epoch, group.owned("a")) == (1, set())
    group.advance(0)
    assert matched(group, "t-.*") == {"t-a", "t-b"}
    group.beat("a")
    assert group.owned("a") == {"t-a-0", "t-b-0", "t-b-1"}


def test_the_whole_name_must_match(group: ConsumerDriver) -> None:
    group.join("a", regex="t")
    group.settle()
    assert group.owned("a") == set()


def test_an_expression_that_is_known_counts_at_once(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    epoch = group.epochs[0]
    group.join("b", regex="t-.*")
    assert group.epochs[0] == epoch + 1


def test_an_expression_that_matches_nothing_changes_no_assignment(group: ConsumerDriver) -> None:
    group.join("a", topics=["u"], regex="nothing")
    epochs = group.epochs
    group.advance(0)
    assert matched(group, "nothing") == set()
    assert group.epochs == epochs


def test_names_and_an_expression_add_up(group: ConsumerDriver) -> None:
    group.join("a", regex="t-a", topics=["u"])
    group.settle()
    assert group.owned("a") == {"t-a-0", "u-0"}


@pytest.mark.parametrize("regex", ["(", "a**", "[b-a]", "(?=x)", "\\1", "x{1001}"])
def test_an_invalid_expression_is_refused(group: ConsumerDriver, regex: str) -> None:
    error = refused(group.join, "a", regex=regex)
    assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert repr(regex) in error.detail
    assert group.group is None


def test_new_topics_are_found_ten_seconds_after_the_last_look(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    looked_ms = group.consumer_group.regexes["t-.*"].timestamp
    group.topic("t-c", 1)
    group.now_ms = looked_ms + 10_000
    group.settle()
    assert "t-c-0" not in group.owned("a")
    group.now_ms = looked_ms + 10_001
    group.beat("a")
    group.advance(0)
    group.settle()
    assert "t-c-0" in group.owned("a")


def test_a_topic_that_is_deleted_goes_at_once_and_from_the_records_later(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    group.drop_topic("t-b")
    group.settle()
    assert group.owned("a") == {"t-a-0"}
    assert matched(group, "t-.*") == {"t-a", "t-b"}
    group.advance(group.config.regex_refresh_interval_ms)
    group.join("a")
    group.settle()
    assert matched(group, "t-.*") == {"t-a"}


def test_a_second_expression_within_ten_seconds_waits(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.advance(0)
    group.join("b", regex="u")
    group.advance(5000)
    group.beat("b")
    assert set(group.consumer_group.regexes) == {"t-.*"}
    group.advance(5001)
    group.beat("b")
    group.advance(0)
    assert matched(group, "u") == {"u"}


def test_a_new_expression_replaces_the_last_one(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    epoch = group.epochs[0]
    group.clients["a"].holds_on = True
    group.subscribe("a", regex="u")
    assert set(group.consumer_group.regexes) == set()
    assert group.epochs[0] == epoch, "there is nothing to assign until it is looked up"
    assert group.owned("a") == {"t-a-0", "t-b-0", "t-b-1"}
    group.clients["a"].holds_on = False
    group.give_back("a")
    assert group.owned("a") == set(), "but what it does not want any more it gives back"
    group.advance(10_001)
    group.beat("a")
    group.settle()
    assert group.owned("a") == {"u-0"}


def test_a_member_may_do_without_again(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*", topics=["u"])
    group.settle()
    epoch = group.epochs[0]
    group.subscribe("a", regex="")
    assert group.epochs[0] == epoch + 1
    group.settle()
    assert group.owned("a") == {"u-0"}


def test_all_expressions_of_a_group_are_looked_up_again_after_a_while(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    first_ms = group.consumer_group.regexes["t-.*"].timestamp
    group.config = replace(group.config, regex_refresh_interval_ms=20_000, session_timeout_ms=60_000)
    group.advance(20_000)
    group.beat("a")
    group.advance(0)
    assert group.consumer_group.regexes["t-.*"].timestamp > first_ms
    assert group.state == "Stable", "an equal expression changes no assignment"


def test_a_look_that_cannot_be_written_is_taken_again(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.log_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        group.advance(0)
    group.log_error = None
    group.settle()
    assert group.owned("a") == {"t-a-0", "t-b-0", "t-b-1"}


def test_a_lookup_records_only_what_members_are_still_subscribed_to(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    topics = {"t-.*": frozenset({"t-a"}), "gone": frozenset({"u"})}
    group.apply(lambda _, now_ms: regexes.resolved(group.consumer_group, topics, 1, now_ms))
    assert set(group.consumer_group.regexes) == {"t-.*"}
    outcome = regexes.resolved(group.consumer_group, {"gone": frozenset()}, 1, group.now_ms)
    assert (outcome.records, outcome.group) == ((), None)


def test_a_clock_that_is_set_back_delays_no_lookup(group: ConsumerDriver) -> None:
    group.join("a", regex="t-.*")
    group.settle()
    group.now_ms -= 3_600_000
    group.join("b", regex="u")
    group.settle()
    assert (matched(group, "u"), group.owned("b")) == ({"u"}, {"u-0"})
    assert {resolved.timestamp <= group.now_ms for resolved in group.consumer_group.regexes.values()} == {True}
