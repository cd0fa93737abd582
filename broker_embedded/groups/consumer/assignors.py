"""Server-side assignors of the new consumer protocol: who shall have which partition. Pure functions, no randomness.

``uniform``  as even as can be, and of all even assignments one that moves few partitions (`consumer.uniform`)
``range``    every topic cut into one range per subscriber: the same ranges for topics of one size, so that partitions
             with the same number, of topics to be joined, come to one member; moves whatever that takes
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from broker_embedded.groups.consumer.member import TopicIdPartition
from broker_embedded.groups.consumer.uniform import Assignment, Subscriber, assign_uniformly

Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
"""From the members by id, and the number of partitions of every topic that any of them wants, to each one's part."""


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
