from dataclasses import replace
from uuid import UUID

import pytest

from broker_embedded.groups.classic.group import ClassicConfig, ClassicGroup, ClassicState, session_timer
from broker_embedded.groups.classic.member import ClassicMember
from broker_embedded.groups.group import Group, Outcome, SetTimer
from broker_embedded.groups.offsets import GroupOffsets, OffsetCommit
from broker_embedded.groups.records import RecordVersions
from broker_embedded.groups.replay import ReplayContext, replay
from broker_embedded.records.coordinator_record import CoordinatorRecord
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID
from spark_kafka_native.records.errors import CorruptBatch
from tests.support.refusals import refused

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID = UUID(int=1)
CONFIG = ClassicConfig()
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


class OffsetsDriver:
    """Groups, their offsets, a log and a clock: every decision is read from the log, as in the broker."""

    def __init__(self) -> None:
        self.state = GroupOffsets(max_metadata_chars=8)
        self.groups: dict[str, Group] = {}
        self.log: list[CoordinatorRecord] = []
        self.now_ms = 1000
        self.config = CONFIG

    def decide_commit(
        self, group: str, partition: TopicPartition, offset: int, *, metadata: str = "", **others: int | str
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        timestamp_ms = others.pop("timestamp_ms", None)
        commit = OffsetCommit(
            partition=partition,
            topic_id=ID,
            offset=offset,
            leader_epoch=0,
            metadata=metadata,
            timestamp_ms=timestamp_ms,  # type: ignore[arg-type]  # an int
        )
        version = int(others.pop("version", 8))
        request = OffsetCommitRequest(group_id=group, **others)  # type: ignore[arg-type]  # by name
        return self.state.commit(
            self.groups.get(group), request, [commit], version=version, now_ms=self.now_ms, config=self.config
        )

    def commit(self, group: str, partition: TopicPartition, offset: int, **others: int | str) -> ErrorCode:
        outcome = self.decide_commit(group, partition, offset, **others)  # type: ignore[arg-type]  # by name
        self.carry_out(group, outcome)
        return outcome.response[partition]  # type: ignore[index]  # it is never pending

    def expire(self, group: str, retention_ms: int) -> bool:
        outcome = self.state.expire(self.groups.get(group), self.now_ms, retention_ms)
        self.carry_out(group, outcome)
        return bool(outcome.response)

    def carry_out(self, group: str, outcome: Outcome[object]) -> None:
        for record in outcome.records:
            self.state.replay(record, len(self.log))
            self.log.append(record)
        if outcome.removed:
            del self.groups[group]
        elif outcome.group is not None:
            self.groups[group] = outcome.group

    def offset(self, group: str, partition: TopicPartition, topic_id: UUID = ID) -> int | None:
        value = self.state.committed(group, partition, topic_id)
        return None if value is None else value.offset

    def restart(self) -> None:
        self.state = GroupOffsets(max_metadata_chars=8)
        self.groups = {}
        for offset, record in enumerate(self.log):
            self.state.replay(record, offset)
            replay(self.groups, record, ReplayContext(classic=CONFIG))


@pytest.fixture
def driver() -> OffsetsDriver:
    return OffsetsDriver()


def test_the_last_commit_of_each_group_counts(driver: OffsetsDriver) -> None:
    assert (driver.offset("g", A0), driver.state.all_committed("g")) == (None, {})
    driver.decide_commit("g", A0, 5)
    assert driver.offset("g", A0) is None, "a decision changes nothing before its record is replayed"
    driver.commit("g", A0, 5)
    driver.commit("g", A0, 7)
    driver.commit("g", A1, 1)
    driver.commit("h", A0, 2)
    assert [driver.offset("g", A0), driver.offset("g", A1), driver.offset("h", A0)] == [7, 1, 2]
    assert set(driver.state.all_committed("g")) == {A0, A1}
    assert driver.state.groups_in("a") == ["g", "h"]
    assert driver.state.groups_in("b") == []


def test_commits_are_written_as_the_release_does(driver: OffsetsDriver) -> None:
    driver.config = ClassicConfig(record_versions=RecordVersions(offset=3))
    driver.commit("g", A0, 5)
    driver.commit("g", A0, 6, retention_time_ms=10)
    assert [record.value[:2] for record in driver.log if record.value is not None] == [b"\x00\x03", b"\x00\x01"]
    assert driver.offset("g", A0) == 6


def test_a_commit_makes_a_simple_group(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    assert (driver.groups["g"].protocol_type, driver.groups["g"].state_name) == ("", "Empty")
    before = driver.groups
    driver.restart()
    assert driver.groups == before


def test_the_log_alone_brings_the_state_back(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5, metadata="note")
    driver.commit("g", B0, 6)
    driver.carry_out("g", driver.state.forget_topic("g", "b"))
    driver.restart()
    assert driver.offset("g", A0) == 5
    assert driver.offset("g", B0) is None
    assert driver.state.all_committed("g")[A0].metadata == "note"
    driver.state.clear()
    assert driver.state.all_committed("g") == {}


def test_commit_metadata_that_is_too_long_is_refused_for_its_partition(driver: OffsetsDriver) -> None:
    assert driver.commit("g", A1, 5, metadata="ä" * 9) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.commit("g", A1, 5, metadata="😀" * 5) is ErrorCode.OFFSET_METADATA_TOO_LARGE  # two chars each in Java
    assert not driver.groups
    assert driver.commit("g", A0, 5, metadata="ä" * 8) is ErrorCode.NONE
    assert driver.offset("g", A1) is None


def test_a_request_may_set_the_commit_timestamp(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5, timestamp_ms=77)
    driver.commit("g", A1, 5)
    assert [driver.state.all_committed("g")[part].commit_timestamp for part in (A0, A1)] == [77, 1000]


def test_a_member_unknown_to_a_group_is_refused(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    assert (
        refused(driver.commit, "g", A0, 6, generation_id_or_member_epoch=0, member_id="m").code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert driver.offset("g", A0) == 5


def test_members_commit_and_are_alive(driver: OffsetsDriver) -> None:
    driver.groups["g"] = STABLE
    outcome = driver.decide_commit("g", A0, 5, generation_id_or_member_epoch=3, member_id="m")
    assert outcome.timers == (SetTimer(key=session_timer("m"), after_ms=10_000),)
    assert outcome.group is None
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        driver.commit("g", A0, 5)


def test_an_offset_of_a_topic_made_again_does_not_count(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    assert driver.offset("g", A0, UUID(int=2)) is None
    assert driver.offset("g", A0, ZERO_UUID) == 5


def test_offset_delete_refuses_partitions_of_subscribed_topics(driver: OffsetsDriver) -> None:
    for partition in (A0, B0):
        driver.commit("g", partition, 5)
    driver.groups["g"] = STABLE
    outcome = driver.state.delete(STABLE, "g", [A0, B0, TopicPartition("b", 1)])
    assert outcome.response == {
        A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        B0: ErrorCode.NONE,
        TopicPartition("b", 1): ErrorCode.NONE,
    }
    assert len(outcome.records) == 1
    driver.carry_out("g", outcome)
    assert [driver.offset("g", A0), driver.offset("g", B0)] == [5, None]


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
        driver.commit("g", partition, 5)
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
    driver.commit("g", A0, 5)
    driver.commit("g", A1, 6, retention_time_ms=50)
    driver.commit("h", B0, 7, retention_time_ms=500)
    driver.now_ms += 100
    driver.expire("g", 101)
    assert [driver.offset("g", A0), driver.offset("g", A1)] == [5, None]
    driver.now_ms += 1
    for group in "gh":
        driver.expire(group, 101)
    assert driver.state.all_committed("g") == {}
    assert driver.offset("h", B0) == 7
    assert set(driver.groups) == {"h"}
    driver.restart()
    assert set(driver.groups) == {"h"}


def test_committed_offsets_of_an_empty_group_expire_together(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    driver.groups["g"] = replace(STABLE, state=ClassicState.EMPTY, state_since_ms=2000, members={}, subscribed=None)
    driver.now_ms = 2099
    driver.commit("g", B0, 5)
    driver.groups["g"] = replace(driver.groups["g"], subscribed=frozenset())  # type: ignore[type-var]  # a classic one
    driver.expire("g", 100)
    assert len(driver.state.all_committed("g")) == 2
    driver.now_ms = 2100
    driver.expire("g", 100)
    assert (driver.groups, driver.state.all_committed("g")) == ({}, {})


def test_committed_offsets_of_subscribed_topics_do_not_expire(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    driver.commit("g", B0, 5)
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
        driver.commit("g", TopicPartition("a", index), 5)
    driver.now_ms += 1000
    assert [driver.expire("g", 1000) for _ in range(3)] == [True, True, False]
    assert not driver.groups


def test_committed_offsets_of_a_deleted_topic_are_deleted(driver: OffsetsDriver) -> None:
    for group in ("g", "h"):
        driver.commit(group, A0, 5)
        driver.commit(group, B0, 5)
    for group in driver.state.groups_in("a"):
        outcome = driver.state.forget_topic(group, "a")
        assert outcome.response is False
        driver.carry_out(group, outcome)
    assert [driver.offset(group, part) for group in ("g", "h") for part in (A0, B0)] == [None, 5, None, 5]


def test_a_tombstone_for_nothing_changes_nothing(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    stones = driver.state.forget_topic("g", "a")
    driver.carry_out("g", stones)
    driver.carry_out("g", stones)
    assert driver.state.all_committed("g") == {}


def test_a_corrupt_record_changes_nothing(driver: OffsetsDriver) -> None:
    driver.commit("g", A0, 5)
    with pytest.raises(CorruptBatch):
        driver.state.replay(CoordinatorRecord(key=driver.log[0].key, value=b"\x00\x03"), 1)
    assert driver.offset("g", A0) == 5
