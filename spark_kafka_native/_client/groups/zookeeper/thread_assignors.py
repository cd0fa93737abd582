"""The assignors of groups in ZooKeeper: which thread of which consumer reads which partitions. Pure functions.

``range``       of each topic a range of partitions per thread
``roundrobin``  all partitions, in the order of the hashes of their names, to one thread after the other

Each member computes the assignment of all members, so these assign exactly as those of Kafka's ZooKeeper consumers.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from spark_kafka_native._client.groups.assignors import RANGE, ROUND_ROBIN
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.consumer_znodes import ThreadId

Threads = Mapping[str, Iterable[ThreadId]]
"""The threads that read each topic."""
Partitions = Mapping[str, Sequence[int]]
"""The partitions of each topic; a topic that does not exist is missing."""
Owners = dict[TopicPartition, ThreadId]


def assign_range(threads: Threads, partitions: Partitions) -> Owners:
    """As RangeAssignor of Kafka's ZooKeeper consumers."""
    owners: Owners = {}
    for topic, numbers in partitions.items():
        ordered = sorted(threads.get(topic, ()), key=str)
        if not ordered:
            continue
        each, extra = divmod(len(numbers), len(ordered))
        left = iter(sorted(numbers))
        for index, thread in enumerate(ordered):
            for number in itertools.islice(left, each + (index < extra)):
                owners[TopicPartition(topic, number)] = thread
    return owners


def assign_round_robin(threads: Threads, partitions: Partitions) -> Owners:
    """As RoundRobinAssignor of Kafka's ZooKeeper consumers."""
    able = {topic: frozenset(threads.get(topic, ())) for topic in partitions}
    order = sorted(frozenset().union(*able.values()), key=str)
    indexes = {thread: index for index, thread in enumerate(order)}
    indexes_of = {topic: sorted(indexes[thread] for thread in each) for topic, each in able.items()}
    every = [
        TopicPartition(topic, number) for topic, numbers in partitions.items() if able[topic] for number in numbers
    ]
    owners: Owners = {}
    next_index = 0
    for part in sorted(every, key=lambda part: _java_hash(f"[{part.topic},{part.partition}]")):
        found = indexes_of[part.topic]
        # The first thread of the topic at or after the next index, or else its first one.
        index = found[bisect.bisect_left(found, next_index) % len(found)]
        owners[part] = order[index]
        next_index = index + 1
    return owners


THREAD_ASSIGNORS: Final[Mapping[str, Callable[[Threads, Partitions], Owners]]] = {
    RANGE: assign_range,
    ROUND_ROBIN: assign_round_robin,
}
"""By their names in ``partition.assignment.strategy``."""


def _java_hash(text: str) -> int:
    """``String.hashCode`` of ASCII text."""
    found = 0
    for unit in text.encode("ascii"):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found
