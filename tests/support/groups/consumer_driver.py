"""One consumer group (KIP-848) and its clients, driven in few words and virtual time.

    group = ConsumerDriver(orders=3)              # a topic with three partitions
    group.join("a", topics=["orders"]); group.settle()
    assert group.owned("a") == {"orders-0", "orders-1", "orders-2"}

A client here does what a consumer does: it keeps its epoch, revokes partitions when it is answered so, and says what it
has in the next heartbeat. After each step the group is held against what must always be true: no partition is with two
members, neither as the group has it nor as the clients have it; and the log alone makes the same group.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.consumer import regexes
from broker_embedded._groups.consumer.config import ConsumerConfig, ConsumerContext
from broker_embedded._groups.consumer.draft import REGEX_TIMER
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.heartbeat import HeartbeatContext, check_request, heartbeat
from broker_embedded._groups.consumer.member import ConsumerMember, TopicIdPartition
from broker_embedded._groups.consumer.topics import EMPTY_VIEW, SubscribableTopic, TopicsView
from broker_embedded._groups.group import Group, Outcome, Pending, TimerKey
from broker_embedded._groups.pattern import Pattern
from broker_embedded._groups.replay import ReplayContext, replay
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages import consumer_group_heartbeat as messages
from tests.support.groups.classic_requests import GROUP_ID, ClassicRequests
from tests.support.groups.context import GroupWorld
from tests.support.requests.consumer_group import as_topics

CLIENT: Final = HeartbeatContext(client_id="client", client_host="/127.0.0.1")


def topic_id(name: str) -> UUID:
    """The id that a topic has in these tests, unless it was made again."""
    return UUID(int=int.from_bytes(name.encode().ljust(16, b"\0")[:16], "big"))


@dataclass
class Client:
    """A consumer: what it believes, and what it wants. ``sent`` is what it sent last of what it owns."""

    member_id: str
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = 60_000
    holds_on: bool = False
    """Whether it is slow to give partitions back."""
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    assigned: frozenset[TopicIdPartition] = frozenset()
    sent: frozenset[TopicIdPartition] | None = None


class ConsumerDriver(GroupWorld, ClassicRequests):
    """A group, its log, its clock, its topics and its clients."""

    def __init__(
        self, config: ConsumerConfig | None = None, classic: ClassicConfig | None = None, **topics: int
    ) -> None:
        self.config = config or ConsumerConfig(assignment_interval_ms=0)
        self.view = EMPTY_VIEW
        GroupWorld.__init__(self)
        classic = classic or ClassicConfig(initial_rebalance_delay_ms=0)
        context = ConsumerContext(config=lambda _: self.config, topics=lambda: self.view, classic=classic)
        ClassicRequests.__init__(self, context)
        self.clients: dict[str, Client] = {}
        self.replies: dict[int, Any] = {}
        for name, partitions in topics.items():
            self.topic(name, partitions)

    # --- topics ------------------------------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int, *, new_id: UUID | None = None) -> None:
        """Make a topic, or give one more partitions; with ``new_id`` it was deleted and made again."""
        made = SubscribableTopic(topic_id=new_id or topic_id(name), name=name, partitions=partitions)
        self._use({**self.view.by_name, name: made}.values())

    def drop_topic(self, name: str) -> None:
        """Delete a topic."""
        self._use(topic for topic in self.view.by_name.values() if topic.name != name)

    def _use(self, topics: Iterable[SubscribableTopic]) -> None:
        before = self.view if self.view is not EMPTY_VIEW else None
        self.view = TopicsView.of(tuple(topics), version=self.now_ms, before=before)

    # --- requests of the new protocol --------------------------------------------------------------------------------

    def ask(self, version: int = 1, **fields: Any) -> messages.ConsumerGroupHeartbeatResponse:
        """One heartbeat with just these fields, by no client. Raises KafkaError."""
        request = messages.ConsumerGroupHeartbeatRequest(**{"group_id": GROUP_ID, **fields})
        check_request(request, version, self.config.assignors)
        response = self.apply(lambda group, now_ms: heartbeat(group, request, CLIENT, self.context, now_ms))
        assert isinstance(response, messages.ConsumerGroupHeartbeatResponse)
        return response

    def join(self, name: str, **wants: Any) -> messages.ConsumerGroupHeartbeatResponse:
        """A client joins, or joins again having given up all that it had. Raises KafkaError."""
        client = self.clients.get(name) or Client(member_id=f"{name}-id")
        for key, value in wants.items():
            setattr(client, key, tuple(value) if key == "topics" and value is not None else value)
        client.epoch, client.owned, client.assigned = 0, frozenset(), frozenset()
        self.clients[name] = client
        return self.beat(name, full=True)

    def beat(self, name: str, *, full: bool = False, **fields: Any) -> messages.ConsumerGroupHeartbeatResponse:
        """A client's heartbeat; it takes note of the response. Raises KafkaError."""
        client = self.clients[name]
        full = full or client.epoch == 0
        request: dict[str, Any] = {
            "member_id": client.member_id,
            "member_epoch": client.epoch,
            "instance_id": client.instance_id,
            "topic_partitions": as_topics(client.owned) if full or client.sent != client.owned else None,
        }
        if full:
            request |= {
                "rebalance_timeout_ms": client.rebalance_timeout_ms,
                "subscribed_topic_names": client.topics,
                "subscribed_topic_regex": client.regex,
                "server_assignor": client.assignor,
            }
        response = self.ask(**{**request, **fields})
        client.sent = client.owned
        self._note(client, response)
        return response

    def _note(self, client: Client, response: messages.ConsumerGroupHeartbeatResponse) -> None:
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.assigned = as_partitions(response.assignment.topic_partitions)
        if client.holds_on:
            client.owned |= client.assigned
        else:
            client.owned = client.assigned
        self.check()

    def subscribe(self, name: str, **wants: Any) -> messages.ConsumerGroupHeartbeatResponse:
        """A client that is a member wants something else from now on."""
        client = self.clients[name]
        for key, value in wants.items():
            setattr(client, key, tuple(value) if key == "topics" and value is not None else value)
        return self.beat(name, full=True)

    def give_back(self, name: str) -> messages.ConsumerGroupHeartbeatResponse:
        """A slow client has revoked its partitions, and sends a heartbeat."""
        client = self.clients[name]
        client.owned = client.assigned
        return self.beat(name)

    def leave(self, name: str, epoch: int = -1) -> messages.ConsumerGroupHeartbeatResponse:
        """A client leaves, for good or, a static one with the epoch -2, for a while."""
        client = self.clients.pop(name)
        return self.ask(member_id=client.member_id, member_epoch=epoch, instance_id=client.instance_id)

    def lose(self, name: str) -> Client:
        """A client is not heard of any more; what it believes it has counts for nothing."""
        return self.clients.pop(name)

    # --- the world ---------------------------------------------------------------------------------------------------

    def fire(self, key: TimerKey) -> None:
        """Let a timer run out now. A client that is given up for it has given up by itself: it counts the time too."""
        self.timers.pop(key, None)
        self._due(key)

    def _due(self, key: TimerKey) -> None:
        if key == REGEX_TIMER:
            topics = {
                regex: frozenset(filter(Pattern(regex).fullmatch, self.view.by_name))
                for regex in self.consumer_group.subscribed_regexes
            }
            self.apply(lambda _, now_ms: regexes.resolved(self.consumer_group, topics, self.view.version, now_ms))
            return
        self.apply(lambda group, now_ms: decisions.timer_fired(group, key, now_ms))
        for client in self.clients.values():
            if key[1:] == (client.member_id,) and client.member_id not in self.consumer_group.members:
                client.epoch, client.owned, client.assigned = 0, frozenset(), frozenset()

    def settle(self, rounds: int = 30) -> None:
        """Have all clients send heartbeats, second by second, until the group is stable."""
        for _ in range(rounds):
            for name in self.clients:
                self.beat(name)
            self.advance(1000)
            if self.state == "Stable" and all(client.sent == client.owned for client in self.clients.values()):
                return
        raise AssertionError(f"the group does not come to rest: {self.group}")

    def restart(self) -> None:
        """Start again from the log alone."""
        self.group = self._replayed()
        self.timers.clear()
        if self.group is not None:
            self._carry_out(decisions.resumed(self.group))

    def _replayed(self) -> Group | None:
        groups: dict[str, Group] = {}
        for record in self.log:
            replay(groups, record, ReplayContext(classic=self.context.classic, consumer=self.context))
        return groups.get(GROUP_ID)

    def apply(self, decide: Callable[[Group | None, int], Outcome[Any]]) -> Any:
        """Decide and carry out, as the broker's shell does. Raises KafkaError: nothing has changed."""
        before = repr(self.group)
        try:
            outcome = decide(self.group, self.now_ms)
        finally:
            assert repr(self.group) == before, "deciding must change nothing"
        if outcome.records and self.log_error is not None:
            raise KafkaError(self.log_error, "the log is full")
        self._carry_out(outcome)
        if isinstance(self.group, ConsumerGroup):
            assert self._replayed() == self.group, "a restart would make another group"
        self.check()
        return outcome.response

    def _carry_out(self, outcome: Outcome[Any]) -> None:
        super()._carry_out(outcome)
        if isinstance(outcome.response, Pending):
            self.replies[outcome.response.request_id] = None
        for reply in outcome.replies:
            self.replies[reply.request_id] = reply.response

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def consumer_group(self) -> ConsumerGroup:
        """The group, which must be a consumer group."""
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    @property
    def state(self) -> str:
        """The group's state; ``Dead`` where there is none."""
        return "Dead" if self.group is None else self.group.state_name

    @property
    def epochs(self) -> tuple[int, int]:
        """The group's and the target assignment's."""
        return self.consumer_group.epoch, self.consumer_group.assignment_epoch

    def member(self, name: str) -> ConsumerMember:
        """A client's member, as the group has it."""
        return self.consumer_group.members[self.clients[name].member_id]

    def owned(self, name: str) -> set[str]:
        """What a client has, as ``topic-partition``."""
        return self.names_of(self.clients[name].owned)

    def names_of(self, partitions: Iterable[TopicIdPartition]) -> set[str]:
        """Partitions by name; those of topics that are gone by id."""
        names = {id_: topic.name for id_, topic in self.view.by_id.items()}
        return {f"{names.get(part.topic_id, part.topic_id)}-{part.partition}" for part in partitions}

    def check(self) -> None:
        """What must always be true."""
        held = [part for client in self.clients.values() for part in client.owned]
        assert len(held) == len(set(held)), "two clients have the same partition"
        if isinstance(self.group, ConsumerGroup):
            given = [part for member in self.group.members.values() for part in member.held]
            assert len(given) == len(set(given)), "two members have the same partition"
            for member in self.group.members.values():
                assert member.assigned.keys().isdisjoint(member.pending_revocation)


def as_partitions(topics: Iterable[messages.TopicPartitions]) -> frozenset[TopicIdPartition]:
    """Partitions out of a heartbeat."""
    return frozenset(TopicIdPartition(topic.topic_id, number) for topic in topics for number in topic.partitions)
