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


class Story:
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
def story() -> Story:
    return Story()


def test_the_last_commit_of_each_group_counts(story: Story) -> None:
    assert (story.offset("g", A0), story.state.all_committed("g")) == (None, {})
    story.decide_commit("g", A0, 5)
    assert story.offset("g", A0) is None, "a decision changes nothing before its record is replayed"
    story.commit("g", A0, 5)
    story.commit("g", A0, 7)
    story.commit("g", A1, 1)
    story.commit("h", A0, 2)
    assert [story.offset("g", A0), story.offset("g", A1), story.offset("h", A0)] == [7, 1, 2]
    assert set(story.state.all_committed("g")) == {A0, A1}
    assert story.state.groups_in("a") == ["g", "h"]
    assert story.state.groups_in("b") == []


def test_commits_are_written_as_the_release_does(story: Story) -> None:
    story.config = ClassicConfig(record_versions=RecordVersions(offset=3))
    story.commit("g", A0, 5)
    story.commit("g", A0, 6, retention_time_ms=10)
    assert [record.value[:2] for record in story.log if record.value is not None] == [b"\x00\x03", b"\x00\x01"]
    assert story.offset("g", A0) == 6


def test_a_commit_makes_a_simple_group(story: Story) -> None:
    story.commit("g", A0, 5)
    assert (story.groups["g"].protocol_type, story.groups["g"].state_name) == ("", "Empty")
    before = story.groups
    story.restart()
    assert story.groups == before


def test_the_log_alone_brings_the_state_back(story: Story) -> None:
    story.commit("g", A0, 5, metadata="note")
    story.commit("g", B0, 6)
    story.carry_out("g", story.state.forget_topic("g", "b"))
    story.restart()
    assert story.offset("g", A0) == 5
    assert story.offset("g", B0) is None
    assert story.state.all_committed("g")[A0].metadata == "note"
    story.state.clear()
    assert story.state.all_committed("g") == {}


def test_commit_metadata_that_is_too_long_is_refused_for_its_partition(story: Story) -> None:
    assert story.commit("g", A1, 5, metadata="ä" * 9) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert story.commit("g", A1, 5, metadata="😀" * 5) is ErrorCode.OFFSET_METADATA_TOO_LARGE  # two chars each in Java
    assert not story.groups
    assert story.commit("g", A0, 5, metadata="ä" * 8) is ErrorCode.NONE
    assert story.offset("g", A1) is None


def test_the_client_may_say_when_it_committed(story: Story) -> None:
    story.commit("g", A0, 5, timestamp_ms=77)
    story.commit("g", A1, 5)
    assert [story.state.all_committed("g")[part].commit_timestamp for part in (A0, A1)] == [77, 1000]


def test_a_member_unknown_to_a_group_is_refused(story: Story) -> None:
    story.commit("g", A0, 5)
    assert (
        refused(story.commit, "g", A0, 6, generation_id_or_member_epoch=0, member_id="m").code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert story.offset("g", A0) == 5


def test_members_commit_and_are_alive(story: Story) -> None:
    story.groups["g"] = STABLE
    outcome = story.decide_commit("g", A0, 5, generation_id_or_member_epoch=3, member_id="m")
    assert outcome.timers == (SetTimer(key=session_timer("m"), after_ms=10_000),)
    assert outcome.group is None
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        story.commit("g", A0, 5)


def test_an_offset_of_a_topic_made_again_does_not_count(story: Story) -> None:
    story.commit("g", A0, 5)
    assert story.offset("g", A0, UUID(int=2)) is None
    assert story.offset("g", A0, ZERO_UUID) == 5


def test_offset_delete_refuses_partitions_of_subscribed_topics(story: Story) -> None:
    for partition in (A0, B0):
        story.commit("g", partition, 5)
    story.groups["g"] = STABLE
    outcome = story.state.delete(STABLE, "g", [A0, B0, TopicPartition("b", 1)])
    assert outcome.response == {
        A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        B0: ErrorCode.NONE,
        TopicPartition("b", 1): ErrorCode.NONE,
    }
    assert len(outcome.records) == 1
    story.carry_out("g", outcome)
    assert [story.offset("g", A0), story.offset("g", B0)] == [5, None]


def test_positions_of_a_group_that_is_not_there_or_busy_are_not_to_be_forgotten(story: Story) -> None:
    busy = replace(STABLE, protocol_type="connect")
    for group, group_id, code in (
        (None, "g", "GROUP_ID_NOT_FOUND"),
        (None, "", "INVALID_GROUP_ID"),
        (busy, "g", "NON_EMPTY_GROUP"),
    ):
        with pytest.raises(KafkaError, match=code):
            story.state.delete(group, group_id, [A0])


def test_an_empty_group_goes_with_all_its_positions(story: Story) -> None:
    for partition in (A0, B0):
        story.commit("g", partition, 5)
    outcome = story.state.delete_group(story.groups["g"], "g")
    assert len(outcome.records) == 3
    story.carry_out("g", outcome)
    for _ in range(2):
        assert (story.groups, story.state.all_committed("g")) == ({}, {})
        story.restart()


def test_a_group_that_is_not_there_or_busy_is_not_deleted(story: Story) -> None:
    for group, code in ((None, "GROUP_ID_NOT_FOUND"), (STABLE, "NON_EMPTY_GROUP")):
        with pytest.raises(KafkaError, match=code):
            story.state.delete_group(group, "g")


def test_positions_expire_by_their_commit_or_by_their_own_time(story: Story) -> None:
    story.commit("g", A0, 5)
    story.commit("g", A1, 6, retention_time_ms=50)
    story.commit("h", B0, 7, retention_time_ms=500)
    story.now_ms += 100
    story.expire("g", 101)
    assert [story.offset("g", A0), story.offset("g", A1)] == [5, None]
    story.now_ms += 1
    for group in "gh":
        story.expire(group, 101)
    assert story.state.all_committed("g") == {}
    assert story.offset("h", B0) == 7
    assert set(story.groups) == {"h"}
    story.restart()
    assert set(story.groups) == {"h"}


def test_positions_of_a_group_that_is_empty_expire_together(story: Story) -> None:
    story.commit("g", A0, 5)
    story.groups["g"] = replace(STABLE, state=ClassicState.EMPTY, state_since_ms=2000, members={}, subscribed=None)
    story.now_ms = 2099
    story.commit("g", B0, 5)
    story.groups["g"] = replace(story.groups["g"], subscribed=frozenset())  # type: ignore[type-var]  # a classic one
    story.expire("g", 100)
    assert len(story.state.all_committed("g")) == 2
    story.now_ms = 2100
    story.expire("g", 100)
    assert (story.groups, story.state.all_committed("g")) == ({}, {})


def test_positions_that_members_need_do_not_expire(story: Story) -> None:
    story.commit("g", A0, 5)
    story.commit("g", B0, 5)
    story.groups["g"] = STABLE
    story.now_ms += 1000
    story.expire("g", 1000)
    assert set(story.state.all_committed("g")) == {A0}
    assert "g" in story.groups
    story.groups["g"] = replace(STABLE, state=ClassicState.PREPARING_REBALANCE, subscribed=frozenset())
    story.expire("g", 1000)
    assert set(story.state.all_committed("g")) == {A0}


def test_an_empty_group_without_positions_goes_at_the_next_look(story: Story) -> None:
    story.groups["g"] = ClassicGroup(group_id="g", config=CONFIG)
    story.expire("g", 1000)
    assert not story.groups
    story.groups["g"] = replace(STABLE)
    story.expire("g", 1000)
    assert story.groups
    assert not story.expire("unknown", 1000)


def test_many_expired_offsets_are_deleted_in_batches(story: Story) -> None:
    for index in range(2500):
        story.commit("g", TopicPartition("a", index), 5)
    story.now_ms += 1000
    assert [story.expire("g", 1000) for _ in range(3)] == [True, True, False]
    assert not story.groups


def test_a_deleted_topic_takes_its_positions_along(story: Story) -> None:
    for group in ("g", "h"):
        story.commit(group, A0, 5)
        story.commit(group, B0, 5)
    for group in story.state.groups_in("a"):
        outcome = story.state.forget_topic(group, "a")
        assert outcome.response is False
        story.carry_out(group, outcome)
    assert [story.offset(group, part) for group in ("g", "h") for part in (A0, B0)] == [None, 5, None, 5]


def test_a_tombstone_for_nothing_changes_nothing(story: Story) -> None:
    story.commit("g", A0, 5)
    stones = story.state.forget_topic("g", "a")
    story.carry_out("g", stones)
    story.carry_out("g", stones)
    assert story.state.all_committed("g") == {}


def test_a_corrupt_record_changes_nothing(story: Story) -> None:
    story.commit("g", A0, 5)
    with pytest.raises(CorruptBatch):
        story.state.replay(CoordinatorRecord(key=story.log[0].key, value=b"\x00\x03"), 1)
    assert story.offset("g", A0) == 5
