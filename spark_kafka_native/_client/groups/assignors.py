"""The assignors of the classic group protocol: which member reads which partitions. Pure functions, no randomness.

``range``               of each topic a range of partitions per member, so that one member gets the same partition
                        numbers of all topics
``roundrobin``          all partitions one after the other, to one member after the other
``sticky``              balanced, and partitions stay with their members where that leaves the assignment balanced
``cooperative-sticky``  the same; a partition that moves is assigned only after its owner has given it up (KIP-429)

``range`` and ``roundrobin`` assign exactly as Kafka's. Racks are not considered (KIP-881).
"""

import dataclasses
import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from spark_kafka_native._protocol.topic import TopicPartition

RANGE: Final = "range"
ROUND_ROBIN: Final = "roundrobin"
STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"

Assignments = dict[str, list[TopicPartition]]
"""Member id -> partitions. Each member has an entry."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedMember:
    """What the leader knows of a member, itself included."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it owned when it joined, for the sticky assignors."""
    generation: int = -1
    """The generation in which it owned them; -1: not known."""
    instance_id: str | None = None


Members = Mapping[str, SubscribedMember]
Assign = Callable[[Members, Mapping[str, int]], Assignments]
"""Members by id, and the number of partitions of each topic that exists -> the assignment."""


def assign_range(members: Members, partitions: Mapping[str, int]) -> Assignments:
    """As Kafka's RangeAssignor."""
    found: Assignments = {member_id: [] for member_id in members}
    for topic, subscribers in _subscribers(members, partitions).items():
        each, extra = divmod(partitions[topic], len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + each + (index < extra)
            found[member_id] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return found


def assign_round_robin(members: Members, partitions: Mapping[str, int]) -> Assignments:
    """As Kafka's RoundRobinAssignor."""
    found: Assignments = {member_id: [] for member_id in members}
    topics = _subscribers(members, partitions)
    turns = itertools.cycle(_in_order(members))
    for topic in sorted(topics):
        subscribers = set(topics[topic])
        for number in range(partitions[topic]):
            member_id = next(member_id for member_id in turns if member_id in subscribers)
            found[member_id].append(TopicPartition(topic, number))
    return found


def assign_sticky(members: Members, partitions: Mapping[str, int]) -> Assignments:
    """Balanced, with few moves.

    If all members subscribe to the same topics, their numbers of partitions differ by one at most. Otherwise no
    partition can move to a member with at least two partitions fewer.
    """
    if not members:
        return {}
    subscribers = _subscribers(members, partitions)
    found = _valid_owned(members, partitions)
    if len({member.topics for member in members.values()}) == 1:
        _keep_quotas(found, sum(partitions[topic] for topic in subscribers))
    _assign_free(found, subscribers, partitions)
    _balance(found, subscribers)
    return {member_id: sorted(parts) for member_id, parts in found.items()}


def assign_cooperative(members: Members, partitions: Mapping[str, int]) -> Assignments:
    """As ``assign_sticky``, without the partitions that another member still owns.

    That member gives them up because they are not in its assignment, and joins again; then they are free.
    """
    owners = {part: member_id for member_id, parts in _valid_owned(members, partitions).items() for part in parts}
    return {
        member_id: [part for part in parts if owners.get(part, member_id) == member_id]
        for member_id, parts in assign_sticky(members, partitions).items()
    }


ASSIGNORS: Final[Mapping[str, Assign]] = {
    RANGE: assign_range,
    ROUND_ROBIN: assign_round_robin,
    STICKY: assign_sticky,
    COOPERATIVE_STICKY: assign_cooperative,
}
"""By their names in JoinGroup."""


def _in_order(members: Members) -> list[str]:
    """Member ids in Kafka's order: static members by their instance ids, then the others by their ids."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=key)


def _subscribers(members: Members, partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """The members that subscribe to each topic that exists, in Kafka's order."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for member_id in _in_order(members):
        for topic in members[member_id].topics:
            if partitions.get(topic):
                found[topic].append(member_id)
    return dict(found)


# --- sticky


def _valid_owned(members: Members, partitions: Mapping[str, int]) -> dict[str, set[TopicPartition]]:
    """The partitions that members own and may keep.

    Of several owners the one of the latest generation keeps a partition; none does if there are several of these.
    """
    claims: defaultdict[TopicPartition, list[str]] = defaultdict(list)
    for member_id in _in_order(members):
        member = members[member_id]
        for part in set(member.owned):
            if part.topic in member.topics and 0 <= part.partition < partitions.get(part.topic, 0):
                claims[part].append(member_id)
    found: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    for part, claimants in claims.items():
        latest = max(members[member_id].generation for member_id in claimants)
        owners = [member_id for member_id in claimants if members[member_id].generation == latest]
        if len(owners) == 1:
            found[owners[0]].add(part)
    return found


def _keep_quotas(found: dict[str, set[TopicPartition]], total: int) -> None:
    """Free the partitions that members of the same topics own beyond their equal share."""
    least, more = divmod(total, len(found))
    by_load = sorted(found, key=lambda member_id: -len(found[member_id]))
    for index, member_id in enumerate(by_load):
        for part in sorted(found[member_id])[least + (index < more) :]:
            found[member_id].remove(part)


def _assign_free(
    found: dict[str, set[TopicPartition]], subscribers: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> None:
    """Assign each free partition to the subscriber with the fewest; first those with the fewest subscribers."""
    owned = {part for parts in found.values() for part in parts}
    for topic in sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic)):
        free = [part for part in _partitions_of(topic, partitions) if part not in owned]
        loads = [(len(found[member_id]), index) for index, member_id in enumerate(subscribers[topic])]
        heapq.heapify(loads)
        for part in free:
            load, index = loads[0]
            found[subscribers[topic][index]].add(part)
            heapq.heapreplace(loads, (load + 1, index))


def _balance(found: dict[str, set[TopicPartition]], subscribers: Mapping[str, Sequence[str]]) -> None:
    """Move partitions to members with at least two fewer, until there are none.

    It ends, because each move makes the sum of the squares of the members' numbers smaller.
    """
    numbers: dict[str, defaultdict[str, list[int]]] = {topic: defaultdict(list) for topic in subscribers}
    for member_id, parts in found.items():
        for part in parts:
            numbers[part.topic][member_id].append(-part.partition)
    for heap in itertools.chain.from_iterable(heaps.values() for heaps in numbers.values()):
        heapq.heapify(heap)
    is_balanced = False
    while not is_balanced:
        moves = [_balance_topic(topic, found, able, numbers[topic]) for topic, able in subscribers.items()]
        is_balanced = not any(moves)


def _balance_topic(
    topic: str, found: dict[str, set[TopicPartition]], able: Sequence[str], numbers: defaultdict[str, list[int]]
) -> int:
    """Move partitions of one topic until no subscriber has two fewer partitions than one that can give one up.

    Returns how many were moved. ``able``: the subscribers. ``numbers``: heaps of each member's partitions of the topic,
    negative, so that the greatest is the first.
    """
    # An entry of these heaps is valid while its member has as many partitions.
    most = [(-len(found[member_id]), index) for index, member_id in enumerate(able) if member_id in numbers]
    fewest = [(len(found[member_id]), index) for index, member_id in enumerate(able)]
    heapq.heapify(most)
    heapq.heapify(fewest)
    moved = 0
    while True:
        while not numbers[able[most[0][1]]] or -most[0][0] != len(found[able[most[0][1]]]):
            heapq.heappop(most)
        while fewest[0][0] != len(found[able[fewest[0][1]]]):
            heapq.heappop(fewest)
        if -most[0][0] - fewest[0][0] < 2:
            return moved
        giver, taker = most[0][1], fewest[0][1]
        number = heapq.heappop(numbers[able[giver]])
        heapq.heappush(numbers[able[taker]], number)
        part = TopicPartition(topic, -number)
        found[able[giver]].remove(part)
        found[able[taker]].add(part)
        for index in (giver, taker):
            heapq.heappush(most, (-len(found[able[index]]), index))
            heapq.heappush(fewest, (len(found[able[index]]), index))
        moved += 1


def _partitions_of(topic: str, partitions: Mapping[str, int]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic, number) for number in range(partitions[topic]))
