from dataclasses import replace
from uuid import UUID

import pytest

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState, session_timer
from broker_embedded._groups.classic.member import ClassicMember
from broker_embedded._groups.group import SetTimer
from broker_embedded._groups.records import RecordVersions
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.groups.offsets_driver import CONFIG, OffsetsDriver
from tests.support.refusals import refused

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MEMBER = ClassicMember(member_id="m", session_timeout_ms=10_000, rebalance_timeout_ms=0, protocols=())
STABLE = ClassicGroup(
    group_id="g",
    config=CONFIG,
    state=ClassicState.STABLE,
    generation=3,
    protocol_type="consumer",
    leader="m",
    members={"m": MEMBER},
    subscribed=frozenset({"a"}),
)


@pytest.fixture
def driver() -> OffsetsDriver:
    return OffsetsDriver()


def test_the_last_commit_of_each_group_counts(driver: OffsetsDriver) -> None:
    assert (driver.offset(A0), driver.state.all_committed("g")) == (None, {})
    driver.decide_commit(A0, to=5)
    assert driver.offset(A0) is None, "a decision changes nothing before its record is replayed"
    driver.commit(A0, to=5)
    driver.commit(A0, to=7)
    driver.commit(A1, to=1)
    driver.commit(A0, to=2, group="h")
    assert [driver.offset(A0), driver.offset(A1), driver.offset(A0, "h")] == [7, 1, 2]
    assert set(driver.state.all_committed("g")) == {A0, A1}
    assert driver.state.groups_in("a") == ["g", "h"]
    assert driver.state.groups_in("b") == []


def test_commits_are_written_as_the_release_does(driver: OffsetsDriver) -> None:
    driver.config = ClassicConfig(record_versions=RecordVersions(offset=3))
    driver.commit(A0, to=5)
    driver.commit(A0, to=6, retention_time_ms=10)
    assert [record.value[:2] for record in driver.records if record.value is not None] == [b"\x00\x03", b"\x00\x01"]
    assert driver.offset(A0) == 6


def test_a_commit_makes_a_simple_group(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    assert (driver.groups["g"].protocol_type, driver.groups["g"].state_name) == ("", "Empty")
    before = driver.groups
    driver.restart()
    assert driver.groups == before


def test_the_log_alone_brings_the_state_back(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5, metadata="note")
    driver.commit(B0, to=6)
    driver.carry_out("g", driver.state.forget_topic("g", "b"))
    driver.restart()
    assert driver.offset(A0) == 5
    assert driver.offset(B0) is None
    assert driver.state.all_committed("g")[A0].metadata == "note"
    driver.state.clear()
    assert driver.state.all_committed("g") == {}


def test_commit_metadata_that_is_too_long_is_refused_for_its_partition(driver: OffsetsDriver) -> None:
    assert driver.commit(A1, to=5, metadata="ä" * 9) == {A1: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    # Two chars each in Java.
    assert driver.commit(A1, to=5, metadata="😀" * 5) == {A1: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert not driver.groups
    assert driver.commit(A0, to=5, metadata="ä" * 8) == {A0: ErrorCode.NONE}
    assert driver.offset(A1) is None


def test_a_request_may_set_the_commit_timestamp(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5, timestamp_ms=77)
    driver.commit(A1, to=5)
    assert [driver.state.all_committed("g")[part].commit_timestamp for part in (A0, A1)] == [77, 1000]


def test_a_member_unknown_to_a_group_is_refused(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    assert (
        refused(driver.commit, A0, to=6, generation_id_or_member_epoch=0, member_id="m").code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert driver.offset(A0) == 5


def test_members_commit_and_are_alive(driver: OffsetsDriver) -> None:
    driver.groups["g"] = STABLE
    outcome = driver.decide_commit(A0, to=5, generation_id_or_member_epoch=3, member_id="m")
    assert outcome.timers == (SetTimer(key=session_timer("m"), after_ms=10_000),)
    assert outcome.group is None
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        driver.commit(A0, to=5)


def test_an_offset_of_a_topic_made_again_does_not_count(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    assert driver.offset(A0, topic_id=UUID(int=2)) is None
    assert driver.offset(A0, topic_id=ZERO_UUID) == 5


def test_offset_delete_refuses_partitions_of_subscribed_topics(driver: OffsetsDriver) -> None:
    for partition in (A0, B0):
        driver.commit(partition, to=5)
    driver.groups["g"] = STABLE
    outcome = driver.state.delete(STABLE, "g", [A0, B0, TopicPartition("b", 1)])
    assert outcome.response == {
        A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        B0: ErrorCode.NONE,
        TopicPartition("b", 1): ErrorCode.NONE,
    }
    assert len(outcome.records) == 1
    driver.carry_out("g", outcome)
    assert [driver.offset(A0), driver.offset(B0)] == [5, None]


def test_offset_delete_refuses_unknown_and_active_groups(driver: OffsetsDriver) -> None:
    busy = replace(STABLE, protocol_type="connect")
    for group, group_id, code in (
        (None, "g", "GROUP_ID_NOT_FOUND"),
        (None, "", "INVALID_GROUP_ID"),
        (busy, "g", "NON_EMPTY_GROUP"),
    ):
        with pytest.raises(KafkaError, match=code):
            driver.state.delete(group, group_id, [A0])


def test_an_empty_group_is_deleted_with_all_its_committed_offsets(driver: OffsetsDriver) -> None:
    for partition in (A0, B0):
        driver.commit(partition, to=5)
    outcome = driver.state.delete_group(driver.groups["g"], "g")
    assert len(outcome.records) == 3
    driver.carry_out("g", outcome)
    for _ in range(2):
        assert (driver.groups, driver.state.all_committed("g")) == ({}, {})
        driver.restart()


def test_a_group_that_is_not_there_or_busy_is_not_deleted(driver: OffsetsDriver) -> None:
    for group, code in ((None, "GROUP_ID_NOT_FOUND"), (STABLE, "NON_EMPTY_GROUP")):
        with pytest.raises(KafkaError, match=code):
            driver.state.delete_group(group, "g")


def test_committed_offsets_expire_by_their_commit_or_by_their_own_time(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    driver.commit(A1, to=6, retention_time_ms=50)
    driver.commit(B0, to=7, group="h", retention_time_ms=500)
    driver.now_ms += 100
    driver.expire("g", 101)
    assert [driver.offset(A0), driver.offset(A1)] == [5, None]
    driver.now_ms += 1
    for group in "gh":
        driver.expire(group, 101)
    assert driver.state.all_committed("g") == {}
    assert driver.offset(B0, "h") == 7
    assert set(driver.groups) == {"h"}
    driver.restart()
    assert set(driver.groups) == {"h"}


def test_committed_offsets_of_an_empty_group_expire_together(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    driver.groups["g"] = replace(STABLE, state=ClassicState.EMPTY, state_since_ms=2000, members={}, subscribed=None)
    driver.now_ms = 2099
    driver.commit(B0, to=5)
    driver.groups["g"] = replace(driver.groups["g"], subscribed=frozenset())  # type: ignore[type-var]  # a classic one
    driver.expire("g", 100)
    assert len(driver.state.all_committed("g")) == 2
    driver.now_ms = 2100
    driver.expire("g", 100)
    assert (driver.groups, driver.state.all_committed("g")) == ({}, {})


def test_committed_offsets_of_subscribed_topics_do_not_expire(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    driver.commit(B0, to=5)
    driver.groups["g"] = STABLE
    driver.now_ms += 1000
    driver.expire("g", 1000)
    assert set(driver.state.all_committed("g")) == {A0}
    assert "g" in driver.groups
    driver.groups["g"] = replace(STABLE, state=ClassicState.PREPARING_REBALANCE, subscribed=frozenset())
    driver.expire("g", 1000)
    assert set(driver.state.all_committed("g")) == {A0}


def test_an_empty_group_without_committed_offsets_is_deleted_by_the_next_expiration(driver: OffsetsDriver) -> None:
    driver.groups["g"] = ClassicGroup(group_id="g", config=CONFIG)
    driver.expire("g", 1000)
    assert not driver.groups
    driver.groups["g"] = replace(STABLE)
    driver.expire("g", 1000)
    assert driver.groups
    assert not driver.expire("unknown", 1000)


def test_many_expired_offsets_are_deleted_in_batches(driver: OffsetsDriver) -> None:
    for index in range(2500):
        driver.commit(TopicPartition("a", index), to=5)
    driver.now_ms += 1000
    assert [driver.expire("g", 1000) for _ in range(3)] == [True, True, False]
    assert not driver.groups


def test_committed_offsets_of_a_deleted_topic_are_deleted(driver: OffsetsDriver) -> None:
    for group in ("g", "h"):
        driver.commit(A0, to=5, group=group)
        driver.commit(B0, to=5, group=group)
    for group in driver.state.groups_in("a"):
        outcome = driver.state.forget_topic(group, "a")
        assert outcome.response is False
        driver.carry_out(group, outcome)
    assert [driver.offset(part, group) for group in ("g", "h") for part in (A0, B0)] == [None, 5, None, 5]


def test_a_tombstone_for_nothing_changes_nothing(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    stones = driver.state.forget_topic("g", "a")
    driver.carry_out("g", stones)
    driver.carry_out("g", stones)
    assert driver.state.all_committed("g") == {}


def test_a_corrupt_record_changes_nothing(driver: OffsetsDriver) -> None:
    driver.commit(A0, to=5)
    with pytest.raises(CorruptBatch):
        driver.state.replay(CoordinatorRecord(key=driver.records[0].key, value=b"\x00\x03"), 1)
    assert driver.offset(A0) == 5
