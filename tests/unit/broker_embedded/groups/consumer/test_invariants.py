"""Whatever members, topics and time do: no partition is with two of them, and left alone the group comes to rest.

The driver holds the group against the first after every step, and against what a restart would make of it. The second
is tried at the end of every run.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from broker_embedded._groups.consumer.config import ConsumerConfig
from broker_embedded._groups.group import Pending
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver

NAMES = st.sampled_from("abcd")
TOPICS = st.lists(st.sampled_from(["t", "u", "v"]), unique=True)
REGEXES = st.sampled_from(["t|u", "[uv]", ".*"])
GIVEN_UP = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
OF_STATIC = {ErrorCode.FENCED_INSTANCE_ID}


def expect(error: KafkaError, codes: set[ErrorCode]) -> None:
    """Ignore these error codes; others are raised."""
    if error.code not in codes:
        raise error


class Group(RuleBasedStateMachine):
    """Up to four consumers of the new protocol, two of the classic one, and three topics."""

    def __init__(self) -> None:
        super().__init__()
        self.group = ConsumerDriver(ConsumerConfig(assignment_interval_ms=500), t=3)
        self.away: set[str] = set()
        self.classic: dict[str, ClassicClient] = {}
        self.selves = 0

    @property
    def is_consumer_group(self) -> bool:
        return self.group.group is not None and self.group.group.group_type == "consumer"

    # --- the new protocol --------------------------------------------------------------------------------------------

    @rule(name=NAMES, topics=TOPICS, regex=st.none() | REGEXES, static=st.booleans())
    def join(self, name: str, topics: list[str], regex: str | None, static: bool) -> None:
        if name in self.group.clients:
            return
        self.selves += 1
        self.away.discard(name)
        wants = {
            "topics": topics,
            "regex": regex,
            "instance_id": name if static else None,
            "member_id": f"{name}-{self.selves}",
        }
        try:
            self.group.join(name, **wants)
        except KafkaError as error:
            expect(error, {ErrorCode.UNRELEASED_INSTANCE_ID})
            del self.group.clients[name]

    @rule(name=NAMES, full=st.booleans())
    def beat(self, name: str, full: bool) -> None:
        client = self.group.clients.get(name)
        if client is None:
            return
        try:
            self.group.beat(name, full=full)
        except KafkaError as error:
            expect(error, GIVEN_UP | OF_STATIC)
            self.group.clients.pop(name)

    @rule(name=NAMES)
    def lose_a_response(self, name: str) -> None:
        client = self.group.clients.get(name)
        if client is None or not client.epoch:
            return
        believed = client.epoch, client.owned, client.assigned, client.sent
        self.beat(name, full=False)
        client.epoch, client.owned, client.assigned, _ = believed
        client.sent = None  # it says everything again after an error
        self.group.check()

    @rule(name=NAMES, topics=TOPICS, regex=REGEXES | st.just(""))
    def subscribe(self, name: str, topics: list[str], regex: str) -> None:
        if name in self.group.clients:
            client = self.group.clients[name]
            client.topics, client.regex = tuple(topics), regex
            self.beat(name, full=True)

    @rule(name=NAMES, slow=st.booleans())
    def be_slow(self, name: str, slow: bool) -> None:
        client = self.group.clients.get(name)
        if client is not None:
            client.holds_on = slow
            if not slow:
                client.owned = client.owned & client.assigned

    @rule(name=NAMES, static=st.booleans())
    def leave(self, name: str, static: bool) -> None:
        client = self.group.clients.get(name)
        if client is None:
            return
        for_a_while = static and client.instance_id is not None
        try:
            self.group.leave(name, epoch=-2 if for_a_while else -1)
        except KafkaError as error:
            expect(error, GIVEN_UP | OF_STATIC)

    @rule(name=NAMES)
    def fall_silent(self, name: str) -> None:
        if name in self.group.clients:
            self.group.lose(name)

    # --- the classic protocol ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_consumer_group and not self.group.consumer_group.is_empty)
    @rule(name=st.sampled_from("xy"), topics=TOPICS)
    def classic_join(self, name: str, topics: list[str]) -> None:
        client = ClassicClient(topics=tuple(topics), instance_id=name)
        assert not isinstance(self.group.classic_join(client), Pending)
        self.classic[name] = client

    @precondition(lambda self: self.is_consumer_group)
    @rule(name=st.sampled_from("xy"), beats=st.booleans())
    def classic_continues(self, name: str, beats: bool) -> None:
        client = self.classic.get(name)
        if client is None:
            return
        try:
            if beats:
                self.group.classic_beat(client)
            else:
                self.group.classic_join(client)
                self.group.classic_sync(client)
        except KafkaError:
            del self.classic[name]

    # --- the world ---------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["t", "u", "v"]), more=st.integers(1, 3))
    def make_or_widen(self, name: str, more: int) -> None:
        known = self.group.view.by_name.get(name)
        self.group.topic(name, more + (known.partitions if known else 0))

    @rule(name=st.sampled_from(["t", "u", "v"]))
    def drop(self, name: str) -> None:
        self.group.drop_topic(name)

    @rule(ms=st.sampled_from([0, 400, 1_000, 11_000, 46_000]))
    def let_time_pass(self, ms: int) -> None:
        self.group.advance(ms)

    @rule()
    def restart(self) -> None:
        if self.is_consumer_group:
            self.group.restart()

    def teardown(self) -> None:
        """At the end every member has an even share of its subscribed topics, and nothing else."""
        group = self.group
        group.advance(61_000)
        for name in list(group.clients):
            self.be_slow(name, slow=False)
            self.beat(name, full=True)
        for _ in range(3):
            group.advance(15_000)
            for name in list(group.clients):
                self.beat(name, full=False)
        if not group.clients or not self.is_consumer_group:
            return
        group.settle()
        found = group.consumer_group
        assert found.members.keys() == {client.member_id for client in group.clients.values()}
        wanted = {
            f"{topic.name}-{number}"
            for topic in group.view.by_name.values()
            if topic.name in found.subscribed_topics
            for number in range(topic.partitions)
        }
        assert set().union(*(group.owned(name) for name in group.clients)) == wanted
        for name in group.clients:
            topics = {part.rsplit("-", 1)[0] for part in group.owned(name)}
            assert topics <= found.subscriptions_of(group.member(name))


TestGroup = Group.TestCase
TestGroup.settings = settings(max_examples=40, stateful_step_count=40)
