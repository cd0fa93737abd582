"""Server-side assignors of the consumer protocol: Pure functions, no randomness.

``uniform``  balanced, with few moves. If all members subscribe to the same topics, the numbers of partitions differ by
             one at most, and no partition moves without need. If not, each topic is balanced among its subscribers, by
             moves from the member with the most partitions to the one with the fewest, until nothing moves any more.
``range``    one range of each topic per subscriber. Topics with equal numbers of partitions have equal ranges, so that
             co-partitioned topics can be joined. Not sticky
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from broker_embedded._groups.consumer.member import TopicIdPartition

Assignment: TypeAlias = frozenset[TopicIdPartition]

_MAX_ROUNDS: Final = 16
"""Upper bound of the rounds over all topics.

Each about halves the imbalance between topics with different subscribers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member for an assignor. ``topic_ids`` are existing topics, ``assignment`` is its last target."""

    topic_ids: frozenset[UUID]
    assignment: Assignment = frozenset()
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
"""Called with members by id and the number of partitions of every subscribed topic.

Returns each member's assignment.
"""


def assign_uniformly(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """The assignment of each member. ``partitions`` has the number of partitions of every subscribed topic."""
    if not members:
        return {}
    if len({member.topic_ids for member in members.values()}) == 1:
        return _assign_same_topics(members, partitions)
    table = _Table(members, partitions)
    table.assign_unassigned()
    table.balance()
    return {member_id: frozenset(part) for member_id, part in table.parts.items()}


def _assign_same_topics(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    order = sorted(members)
    (topic_ids,) = {member.topic_ids for member in members.values()}
    wanted = [
        TopicIdPartition(topic_id, index) for topic_id in sorted(topic_ids) for index in range(partitions[topic_id])
    ]
    least, extras = divmod(len(wanted), len(order))
    parts: dict[str, list[TopicIdPartition]] = {}
    for member_id in order:  # each keeps its share; the extra partitions stay with members that have them
        kept = sorted(part for part in members[member_id].assignment if part.topic_id in topic_ids)
        size = least + (extras > 0 and len(kept) > least)
        extras -= size > least
        parts[member_id] = kept[:size]
    taken = {part for kept in parts.values() for part in kept}
    free = iter([part for part in wanted if part not in taken])
    for member_id in order:
        short = least - len(parts[member_id])
        if extras > 0 and short >= 0:
            short, extras = short + 1, extras - 1
        parts[member_id] += [part for _, part in zip(range(short), free, strict=False)]
    return {member_id: frozenset(part) for member_id, part in parts.items()}


class _Table:
    """The assignments while partitions are added and moved."""

    def __init__(self, members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> None:
        self.partitions = partitions
        self.subscribers: dict[UUID, list[str]] = {}
        for member_id in sorted(members):
            for topic_id in members[member_id].topic_ids:
                self.subscribers.setdefault(topic_id, []).append(member_id)
        self.parts = {
            member_id: {part for part in member.assignment if part.topic_id in member.topic_ids}
            for member_id, member in members.items()
        }
        # Topics with the most partitions per subscriber first, because they have the least choice.
        self.topics = sorted(
            self.subscribers,
            key=lambda topic_id: (
                -partitions[topic_id] / len(self.subscribers[topic_id]),
                len(self.subscribers[topic_id]),
                topic_id,
            ),
        )

    def assign_unassigned(self) -> None:
        """Assign each unassigned partition to the subscriber with the fewest partitions."""
        taken = {part for parts in self.parts.values() for part in parts}
        for topic_id in self.topics:
            loads = self._loads(self.subscribers[topic_id])
            for index in range(self.partitions[topic_id]):
                part = TopicIdPartition(topic_id, index)
                if part not in taken:
                    load, member_id = loads[0]
                    self.parts[member_id].add(part)
                    heapq.heapreplace(loads, (load + 1, member_id))

    def balance(self) -> None:
        """Move partitions of one topic after the other, as long as that improves the balance."""
        shared = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) > 1]
        for _ in range(_MAX_ROUNDS):
            moved = [self._balance_topic(topic_id) for topic_id in shared]
            if not any(moved):
                return

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Balance one topic; whether a partition moved."""
        members = self.subscribers[topic_id]
        least = self._loads(members)
        movable = {
            member_id: sorted(part for part in self.parts[member_id] if part.topic_id == topic_id)
            for member_id in members
        }
        most = [(-len(self.parts[member_id]), member_id) for member_id in members if movable[member_id]]
        heapq.heapify(most)
        moved = False
        while most:
            load, giver = -most[0][0], most[0][1]
            low, taker = least[0]
            if load - low <= 1:
                break
            part = movable[giver].pop()
            self.parts[giver].remove(part)
            self.parts[taker].add(part)
            moved = True
            # A source always has more partitions than a destination, so that the two heaps are independent.
            heapq.heapreplace(least, (low + 1, taker))
            if movable[giver]:
                heapq.heapreplace(most, (1 - load, giver))
            else:
                heapq.heappop(most)
        return moved

    def _loads(self, members: Iterable[str]) -> list[tuple[int, str]]:
        loads = [(len(self.parts[member_id]), member_id) for member_id in members]
        heapq.heapify(loads)
        return loads


def assign_ranges(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """A range of every topic for each of its subscribers. The first ones get one partition more if necessary.

    Static members are first, in the order of their instance ids, so that their assignment does not depend on their
    member ids.
    """
    order = sorted(members, key=lambda member_id: _order_of(member_id, members[member_id]))
    taken: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    for topic_id, count in partitions.items():
        subscribers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            taken[member_id].update(TopicIdPartition(topic_id, number) for number in range(start, start + size))
            start += size
    return {member_id: frozenset(part) for member_id, part in taken.items()}


def _order_of(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (False, member.instance_id) if member.instance_id is not None else (True, member_id)


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
"""Every assignor by its name in requests and in ``group.consumer.assignors``."""
