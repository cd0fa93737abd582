"""Server-side assignors of the consumer protocol: each member's partitions. Pure functions, no randomness.

``uniform``  as even as possible, and of all even assignments one that moves few partitions. If all members subscribe
             to the same topics, numbers of partitions differ by one at most, and nothing moves without need. If not,
             topic after topic is evened out among its subscribers, by moves from the one that has most to the one that
             has least, until nothing moves any more.
``range``    every topic cut into one range per subscriber: the same ranges for topics of one size, so that partitions
             with the same number, of topics to be joined, come to one member; moves whatever that takes
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from broker_embedded.groups.consumer.member import TopicIdPartition

Assignment: TypeAlias = frozenset[TopicIdPartition]

_MOST_ROUNDS: Final = 16
"""Rounds over all topics. Each about halves what is uneven between topics whose subscribers differ in part only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One member as assignors see it. ``topic_ids`` are existing topics, ``assignment`` is its last target."""

    topic_ids: frozenset[UUID]
    assignment: Assignment = frozenset()
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
"""From members by id, and the number of partitions of every subscribed topic, to the assignment of each member."""


def assign_uniformly(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """The assignment of each member. ``partitions`` has the number of partitions of every subscribed topic."""
    if not members:
        return {}
    if len({member.topic_ids for member in members.values()}) == 1:
        return _assign_same_topics(members, partitions)
    table = _Table(members, partitions)
    table.hand_out()
    table.even_out()
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
        # Topics with much to carry for each of their subscribers first; those leave the least choice.
        self.topics = sorted(
            self.subscribers,
            key=lambda topic_id: (
                -partitions[topic_id] / len(self.subscribers[topic_id]),
                len(self.subscribers[topic_id]),
                topic_id,
            ),
        )

    def hand_out(self) -> None:
        """Give each unassigned partition to the subscriber with the fewest partitions."""
        taken = {part for parts in self.parts.values() for part in parts}
        for topic_id in self.topics:
            loads = self._loads(self.subscribers[topic_id])
            for index in range(self.partitions[topic_id]):
                part = TopicIdPartition(topic_id, index)
                if part not in taken:
                    load, member_id = loads[0]
                    self.parts[member_id].add(part)
                    heapq.heapreplace(loads, (load + 1, member_id))

    def even_out(self) -> None:
        """Move partitions of one topic after the other, as long as that makes anything more even."""
        shared = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) > 1]
        for _ in range(_MOST_ROUNDS):
            moved = [self._even_out(topic_id) for topic_id in shared]
            if not any(moved):
                return

    def _even_out(self, topic_id: UUID) -> bool:
        """Even out one topic; whether anything moved."""
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
            # A giver stays above every taker of this topic, so that neither heap must hear of the other's changes.
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
    """A range of every topic for each of its subscribers; the first ones get one partition more where it must be.

    Static members come first, in the order of their instance ids, so that what they have does not depend on the member
    ids that they happen to have.
    """
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    taken: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in order}
    for topic_id, count in partitions.items():
        subscribers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            taken[member_id].update(TopicIdPartition(topic_id, number) for number in range(start, start + size))
            start += size
    return {member_id: frozenset(part) for member_id, part in taken.items()}


def _place(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (False, member.instance_id) if member.instance_id is not None else (True, member_id)


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
"""Every assignor by the name that clients and ``group.consumer.assignors`` call it."""
