import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_embedded._groups.classic.group import (
    JOIN_TIMER,
    SYNC_TIMER,
    ClassicConfig,
    ClassicGroup,
    ClassicState,
    session_timer,
)
from broker_embedded._groups.records import OffsetCommitValue
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.support.groups.classic_driver import Call, GroupDriver, subscription
from tests.support.refusals import refused

OF_CONNECT = {"protocol_type": "connect", "protocols": {"compatible": b"url"}}


def in_state(state: ClassicState) -> GroupDriver:
    """A group with a member a, in that state; Empty after it has left."""
    group = GroupDriver()
    group.join("a", instance_id="i")
    if state is ClassicState.PREPARING_REBALANCE:
        return group
    group.advance(ms=3_000)
    if state is ClassicState.COMPLETING_REBALANCE:
        return group
    group.settle()
    if state is ClassicState.EMPTY:
        group.leave("a")
    return group


@pytest.mark.parametrize(
    ("state", "fields", "code"),
    [
        (ClassicState.EMPTY, {}, ErrorCode.NONE),
        (ClassicState.EMPTY, {"member_id": "any"}, ErrorCode.NONE),
        (ClassicState.EMPTY, {"generation_id_or_member_epoch": 2, "member_id": "a"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"group_instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        (ClassicState.STABLE, {"member_id": "i-1"}, ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, {"generation_id_or_member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"generation_id_or_member_epoch": 0, "member_id": "i-1"}, ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, {"generation_id_or_member_epoch": 1, "member_id": "i-1"}, ErrorCode.NONE),
        (ClassicState.PREPARING_REBALANCE, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.PREPARING_REBALANCE, {"generation_id_or_member_epoch": 0, "member_id": "i-1"}, ErrorCode.NONE),
        (ClassicState.COMPLETING_REBALANCE, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (
            ClassicState.COMPLETING_REBALANCE,
            {"generation_id_or_member_epoch": 1, "member_id": "i-1"},
            ErrorCode.REBALANCE_IN_PROGRESS,
        ),
    ],
)
def test_commits_by_state_member_and_generation(
    state: ClassicState, fields: dict[str, object], code: ErrorCode
) -> None:
    group = in_state(state)
    assert group.ids == {"a": "i-1"}
    assert group.commit(**fields) is code  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("state", "fields", "code"),
    [
        (ClassicState.EMPTY, {}, ErrorCode.NONE),
        (ClassicState.EMPTY, {"member_id": "any"}, ErrorCode.NONE),
        (ClassicState.EMPTY, {"generation_id": 2, "member_id": "i-1"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {}, ErrorCode.NONE),
        (ClassicState.STABLE, {"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"group_instance_id": "i", "member_id": "old"}, ErrorCode.FENCED_INSTANCE_ID),
        (ClassicState.STABLE, {"member_id": "i-1"}, ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, {"generation_id": 0, "member_id": "i-1"}, ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, {"generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, {"generation_id": 1, "member_id": "i-1"}, ErrorCode.NONE),
        (ClassicState.STABLE, {"generation_id": 1, "member_id": "i-1", "group_instance_id": "i"}, ErrorCode.NONE),
        (ClassicState.COMPLETING_REBALANCE, {"generation_id": 1, "member_id": "i-1"}, ErrorCode.NONE),
        (ClassicState.PREPARING_REBALANCE, {}, ErrorCode.NONE),
    ],
)
def test_transactional_commits_by_state_member_and_generation(
    state: ClassicState, fields: dict[str, object], code: ErrorCode
) -> None:
    request = TxnOffsetCommitRequest(group_id="g", **fields)  # type: ignore[arg-type]  # by name
    group = in_state(state).classic
    if code is ErrorCode.NONE:
        group.check_commit_in_transaction(request)
        return
    assert refused(group.check_commit_in_transaction, request).code is code


@pytest.mark.parametrize("state", list(ClassicState))
def test_only_an_empty_group_may_be_deleted(state: ClassicState) -> None:
    group = in_state(state).classic
    if state is ClassicState.EMPTY:
        group.check_delete()
        return
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        group.check_delete()


def test_committed_offsets_of_members_of_other_protocol_types_are_not_deleted() -> None:
    group = GroupDriver()
    group.stabilize("w", **OF_CONNECT)
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        group.classic.check_offset_delete()
    group.leave("w")
    group.classic.check_offset_delete()
    assert not group.classic.is_subscribed("t")


@pytest.mark.parametrize("state", list(ClassicState))
def test_subscribed_topics_by_state(state: ClassicState) -> None:
    group = in_state(state).classic
    group.check_offset_delete()
    assert group.is_subscribed("t") == (state is not ClassicState.EMPTY)
    assert group.is_subscribed("u") == (state is ClassicState.PREPARING_REBALANCE)  # not known yet


def start_of(group: ClassicGroup) -> int | None:
    start = group.retention_start()
    return None if start is None else start(OffsetCommitValue(commit_timestamp=7))


@pytest.mark.parametrize(
    ("group", "start_ms"),
    [
        (ClassicGroup(group_id="g", config=ClassicConfig()), 7),
        # Old brokers did not write when a group became empty.
        (ClassicGroup(group_id="g", config=ClassicConfig(), protocol_type="consumer"), 7),
        (in_state(ClassicState.STABLE).classic, 7),
        (in_state(ClassicState.PREPARING_REBALANCE).classic, None),
        (in_state(ClassicState.COMPLETING_REBALANCE).classic, None),
    ],
)
def test_retention_of_offsets_starts_with_their_commit_unless_the_group_rebalances(
    group: ClassicGroup, start_ms: int | None
) -> None:
    assert start_of(group) == start_ms


def test_retention_of_offsets_starts_when_the_group_becomes_empty() -> None:
    group = in_state(ClassicState.EMPTY)
    assert start_of(group.classic) == group.now_ms
    group.advance(ms=1000)
    group.restart()
    assert start_of(group.classic) == group.now_ms - 1000


@pytest.mark.parametrize("kind", [OF_CONNECT, {"protocols": {"range": b"nonsense"}}])
def test_offsets_do_not_expire_if_the_subscribed_topics_are_unknown(kind: dict[str, object]) -> None:
    group = GroupDriver()
    group.stabilize("w", **kind)
    assert start_of(group.classic) is None


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    group = GroupDriver()
    group.stabilize("a", "b")
    described = group.classic.described()
    assert (described.group_id, described.group_state) == ("g", "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first, second = described.members
    assert (first.member_id, first.client_id, first.client_host) == (group.ids["a"], "a", "/127.0.0.1")
    assert (first.member_metadata, first.member_assignment) == (subscription("t"), b"a")
    assert (second.group_instance_id, second.member_assignment) == (None, b"b")


@pytest.mark.parametrize("state", [s for s in ClassicState if s is not ClassicState.STABLE])
def test_a_group_that_is_not_stable_is_described_without_protocol_and_metadata(state: ClassicState) -> None:
    described = in_state(state).classic.described()
    assert (described.group_state, described.protocol_type, described.protocol_data) == (state.value, "consumer", "")
    members = [] if state is ClassicState.EMPTY else [("i", b"")]
    assert [(member.group_instance_id, member.member_metadata) for member in described.members] == members


def test_waiting_members_are_answered_when_the_broker_stops() -> None:
    group = GroupDriver()
    calls = [group.join(name) for name in "ab"]
    assert {
        (reply.request_id, reply.response.error_code) for reply in group.classic.released(ErrorCode.NOT_COORDINATOR)
    } == {(call.request_id, ErrorCode.NOT_COORDINATOR) for call in calls}
    group.advance(ms=6_000)
    call = group.sync("b")
    assert [reply.request_id for reply in group.classic.released(ErrorCode.NOT_COORDINATOR)] == [call.request_id]


NAMES = st.sampled_from("abcd")
SESSIONS = st.sampled_from([6_000, 20_000])
REBALANCES = st.sampled_from([5_000, 30_000])
PROTOCOLS = st.sampled_from(
    [
        {"range": subscription("t")},
        {"range": subscription("u"), "sticky": subscription("u")},
        {"sticky": subscription("t"), "range": subscription("t")},
    ]
)


class GroupMachine(RuleBasedStateMachine):
    """Clients that join, sync, commit, leave and fall silent in any order, a log that fails and a broker that stops.

    `GroupDriver` checks the group after each step. Here: generations only rise, all members of one generation agree on
    its leader, and waiting members are answered in the end.
    """

    @initialize(
        delay_ms=st.sampled_from([0, 3_000]),
        max_size=st.sampled_from([2, 100]),
        instances=st.lists(NAMES, unique=True, max_size=2),
        members=st.sampled_from(["", "a", "ab", "abc", "abcd"]),
        synced=st.booleans(),
    )
    def begin(self, delay_ms: int, max_size: int, instances: list[str], members: str, synced: bool) -> None:
        self.group = GroupDriver(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.instances = instances
        self.waiting: list[Call] = []
        self.generation = 0
        self.leaders: dict[int, str] = {}
        for name in members:
            self.join_with_the_id_given(name, {"range": subscription("t")})
        if members:
            self.group.end_join()
            self._sync_all(synced)

    @rule(
        name=NAMES,
        protocols=PROTOCOLS,
        session_ms=SESSIONS,
        rebalance_ms=REBALANCES,
        version=st.sampled_from([3, 8, 9]),
        forgets_id=st.sampled_from([False, False, False, True]),
    )
    def join(
        self, name: str, protocols: dict[str, bytes], session_ms: int, rebalance_ms: int, version: int, forgets_id: bool
    ) -> None:
        if forgets_id:
            self.group.ids.pop(name, None)
        call = self.group.ask_join(
            name,
            protocols=protocols,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            version=version,
            instance_id=f"i-{name}" if name in self.instances else None,
        )
        self._note(call)

    @rule(name=NAMES, protocols=PROTOCOLS)
    def join_with_the_id_given(self, name: str, protocols: dict[str, bytes]) -> None:
        instance_id = f"i-{name}" if name in self.instances else None
        self._note(self.group.join(name, protocols=protocols, instance_id=instance_id))

    @rule(name=NAMES, assigned=st.sets(NAMES))
    def sync(self, name: str, assigned: set[str]) -> None:
        self._note(self.group.sync(name, {other: other.encode() for other in assigned}))

    @rule(protocols=PROTOCOLS)
    def all_join(self, protocols: dict[str, bytes]) -> None:
        for name in sorted(self.group.ids):
            self.join_with_the_id_given(name, protocols)

    @precondition(lambda self: self.group.group is not None and self.group.state is ClassicState.COMPLETING_REBALANCE)
    @rule(and_the_leader=st.booleans())
    def all_sync(self, and_the_leader: bool) -> None:
        self._sync_all(and_the_leader)

    @rule(names=st.sets(NAMES))
    def heartbeat(self, names: set[str]) -> None:
        for name in sorted(names):
            self.group.heartbeat(name)

    @rule(name=NAMES)
    def commit(self, name: str) -> None:
        if self.group.group is not None:
            self.group.commit(name)

    @rule(names=st.sets(NAMES, min_size=1))
    def leave(self, names: set[str]) -> None:
        if self.group.log_error is None:  # or the response of the last one to leave is an error
            self.group.leave(*sorted(names))

    @rule(ms=st.sampled_from([1, 1_000, 2_999, 3_000, 6_000, 31_000]))
    def advance(self, ms: int) -> None:
        if self.group.log_error is None:
            self.group.advance(ms)

    @rule(fails=st.booleans())
    def log(self, fails: bool) -> None:
        self.group.log_error = ErrorCode.NOT_COORDINATOR if fails else None

    @precondition(lambda self: self.group.log_error is None)
    @rule()
    def restart(self) -> None:
        self.waiting.clear()
        self.group.restart()
        self.leaders.clear()
        self.generation = self.group.generation  # a generation without assignments is not in the log

    @invariant()
    def generations_rise(self) -> None:
        if hasattr(self, "group") and self.group.group is not None:
            assert self.group.generation >= self.generation
            self.generation = self.group.generation

    @invariant()
    def answers_agree(self) -> None:
        for call in [call for call in getattr(self, "waiting", ()) if not call.waits]:
            self.waiting.remove(call)
            response = call.response
            if (
                response.error_code == ErrorCode.NONE
                and response.protocol_name is not None
                and hasattr(response, "leader")
            ):
                leader = self.leaders.setdefault(response.generation_id, response.leader)
                assert leader == response.leader or self.instances  # a static one's successor has another id
                assert (response.leader == response.member_id) == bool(response.members)

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        self.group.log_error = None
        self.group.advance(ms=10_000_000)
        assert not [call for call in self.waiting if call.waits]
        assert not self.group.calls
        assert not self.group.timers
        assert self.group.group is None or self.group.state is ClassicState.EMPTY

    def _sync_all(self, and_the_leader: bool) -> None:
        leader = self.group.leader
        for name in sorted(self.group.named(), key=lambda name: name == leader):
            if name != leader or and_the_leader:
                self.sync(name, set(self.group.ids))

    def _note(self, call: Call) -> None:
        if call.waits:
            self.waiting.append(call)


TestWhateverHappens = GroupMachine.TestCase
TestWhateverHappens.settings = settings(max_examples=150, stateful_step_count=40)


def test_states_have_kafkas_names() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
    assert [state.value for state in ClassicState] == names


def test_timers_do_not_meet() -> None:
    assert len({JOIN_TIMER, SYNC_TIMER, session_timer("join"), session_timer("sync"), session_timer("m")}) == 5


def test_defaults_are_kafkas() -> None:
    config = ClassicConfig()
    assert (config.initial_rebalance_delay_ms, config.max_size) == (3000, 2**31 - 1)
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (6000, 1_800_000)
