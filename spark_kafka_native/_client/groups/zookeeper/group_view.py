"""What a member of a group in ZooKeeper knows: the consumers of the group, and the partitions of their topics."""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from spark_kafka_native._client.groups.topic_filters import Blacklist, TopicFilter, Whitelist
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, topic_name_problem
from spark_kafka_native._zookeeper.consumer_znodes import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    GroupPaths,
    Subscription,
    ThreadId,
    decode_subscription,
)
from spark_kafka_native._zookeeper.json_data import InvalidZnode
from spark_kafka_native._zookeeper.registry import BROKER_TOPICS, topic_paths, topic_znodes

if TYPE_CHECKING:
    from spark_kafka_native._zookeeper.znode_client import ZnodeClient

MAX_THREADS: Final = 1_000_000
"""Most threads of a group, those of all topics together."""
_MAX_CHARACTERS: Final = 50_000
"""Most characters of the expression of another consumer."""
_FILTERS: Final[Mapping[str, type[TopicFilter]]] = {WHITE_LIST: Whitelist, BLACK_LIST: Blacklist}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The threads that read each topic, and the partitions of these topics.

    ``ignored``: consumers that count as ones without topics, and why.
    """

    threads: Mapping[str, Sequence[ThreadId]]
    partitions: Mapping[str, Sequence[int]]
    ignored: Mapping[str, str]


def read_view(
    session: "ZnodeClient", paths: GroupPaths, own: Mapping[str, Subscription], *, exclude_internal: bool
) -> GroupView:
    """Read the group, and watch it. Raises ZooKeeperError.

    ``own``: the subscription of this consumer, which other clients cannot change.
    """
    ignored: dict[str, str] = {}
    subscriptions = {**_subscriptions(session, paths, ignored), **own}
    existing = [name for name in session.children(BROKER_TOPICS) if topic_name_problem(name) is None]
    expressions = {name for each in own.values() if each.pattern != STATIC for name in each.streams}
    threads, more = threads_of(subscriptions, existing, expressions, exclude_internal=exclude_internal)
    znodes = topic_znodes(session.get(topic_paths(threads)))
    partitions = {topic: sorted(znode.assignment) for topic, znode in znodes.items()}
    return GroupView(threads=threads, partitions=partitions, ignored=ignored | more)


def threads_of(
    subscriptions: Mapping[str, Subscription],
    topics: Iterable[str],
    expressions: Collection[str] = (),
    *,
    exclude_internal: bool,
) -> tuple[dict[str, list[ThreadId]], dict[str, str]]:
    """The threads that read each of the existing ``topics``, and the consumers that are ignored, with the reasons.

    Topics without threads are missing.

    ``expressions``: those of this consumer, which are matched even if the time of a match has no limit. If there are
    more than `MAX_THREADS`, the consumers with the most threads are ignored, so that all members ignore the same.
    """
    every = list(topics)
    counts: dict[str, dict[str, int]] = {}
    ignored: dict[str, str] = {}
    for consumer_id, subscription in subscriptions.items():
        try:
            counts[consumer_id] = _streams(subscription, every, expressions, exclude_internal=exclude_internal)
        except ValueError as error:
            ignored[consumer_id] = f"its expression cannot be used: {error}"
    totals = {consumer_id: sum(streams.values()) for consumer_id, streams in counts.items()}
    found: defaultdict[str, list[ThreadId]] = defaultdict(list)
    left = MAX_THREADS
    for consumer_id in sorted(counts, key=lambda consumer_id: (totals[consumer_id], consumer_id)):
        left -= totals[consumer_id]
        if left < 0:
            reason = f"with its {totals[consumer_id]} threads the group would have more than {MAX_THREADS}"
            ignored[consumer_id] = reason
            continue
        ids = [ThreadId(consumer_id, number) for number in range(max(counts[consumer_id].values(), default=0))]
        for topic, count in counts[consumer_id].items():
            found[topic] += ids[:count]
    return dict(found), ignored


def _streams(
    subscription: Subscription,
    topics: Sequence[str],
    expressions: Collection[str],
    *,
    exclude_internal: bool,
) -> dict[str, int]:
    """How many streams of a consumer read each topic. Raises ValueError: its expression cannot be used."""
    if subscription.pattern == STATIC:
        return {topic: subscription.streams[topic] for topic in topics if topic in subscription.streams}
    ((expression, count),) = subscription.streams.items()
    accepts = _filter_of(subscription.pattern, expression, is_own=expression in expressions).accepts
    return {topic: count for topic in topics if accepts(topic) and not (exclude_internal and topic in INTERNAL_TOPICS)}


def _filter_of(pattern: str, expression: str, *, is_own: bool) -> TopicFilter:
    """Raises ValueError: the expression cannot be used, or its matches may not end while it is not this consumer's."""
    if not is_own and len(expression) > _MAX_CHARACTERS:
        raise ValueError(f"it has more than {_MAX_CHARACTERS} characters")
    found = _FILTERS[pattern](expression)
    if not is_own and not found.is_linear:
        raise ValueError(
            f"RE2 does not support {expression!r:.100}, and a match without RE2 can take too long; "
            "only consumers with the same expression use it"
        )
    return found


def _subscriptions(session: "ZnodeClient", paths: GroupPaths, ignored: dict[str, str]) -> dict[str, Subscription]:
    """The subscriptions of the registered consumers; adds those that cannot be read to ``ignored``."""
    found = {}
    for path, znode in session.get(paths.consumer(name) for name in session.children(paths.ids)).items():
        consumer_id = path.removeprefix(f"{paths.ids}/")
        try:
            found[consumer_id] = decode_subscription(znode.data)
        except InvalidZnode as error:
            ignored[consumer_id] = f"{path} cannot be used: {error}"
    return found
