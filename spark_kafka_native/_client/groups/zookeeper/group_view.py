"""What a member of a group in ZooKeeper knows: the consumers of the group, and the partitions of their topics."""

import dataclasses
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from spark_kafka_native._client.groups.topic_filters import Blacklist, TopicFilter, Whitelist
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS
from spark_kafka_native._zookeeper.consumer_znodes import (
    BLACK_LIST,
    WHITE_LIST,
    GroupPaths,
    Subscription,
    ThreadId,
    decode_subscription,
)
from spark_kafka_native._zookeeper.json_data import InvalidZnode
from spark_kafka_native._zookeeper.registry import BROKER_TOPICS, TopicZnode

if TYPE_CHECKING:
    from spark_kafka_native._zookeeper.znode_client import ZnodeClient

_log = logging.getLogger(__name__)

_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FILTERS: Final[Mapping[str, type[TopicFilter]]] = {WHITE_LIST: Whitelist, BLACK_LIST: Blacklist}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The threads that read each topic, and the partitions of these topics."""

    threads: Mapping[str, Sequence[ThreadId]]
    partitions: Mapping[str, Sequence[int]]


def read_view(
    session: "ZnodeClient", paths: GroupPaths, own: Mapping[str, Subscription], *, exclude_internal: bool
) -> GroupView:
    """Read the group, and watch it. Raises ZooKeeperError.

    ``own``: the subscription of this consumer, which other clients cannot change.
    """
    subscriptions = {**_subscriptions(session, paths), **own}
    existing = [name for name in session.children(BROKER_TOPICS) if _LEGAL_TOPIC.fullmatch(name)]
    threads = threads_of(subscriptions, existing, exclude_internal=exclude_internal)
    znodes = session.get(f"{BROKER_TOPICS}/{topic}" for topic in threads)
    partitions = {
        path.removeprefix(f"{BROKER_TOPICS}/"): sorted(TopicZnode(created=found.created, data=found.data).assignment)
        for path, found in znodes.items()
    }
    return GroupView(threads=threads, partitions=partitions)


def threads_of(
    subscriptions: Mapping[str, Subscription], topics: Iterable[str], *, exclude_internal: bool
) -> dict[str, list[ThreadId]]:
    """The threads that read each of the existing ``topics``; topics without any are missing."""
    every = list(topics)
    found: defaultdict[str, list[ThreadId]] = defaultdict(list)
    for consumer_id, subscription in subscriptions.items():
        for topic, count in _streams(consumer_id, subscription, every, exclude_internal=exclude_internal).items():
            found[topic] += [ThreadId(consumer_id, number) for number in range(count)]
    return dict(found)


def _streams(
    consumer_id: str, subscription: Subscription, topics: Sequence[str], *, exclude_internal: bool
) -> dict[str, int]:
    """How many streams of a consumer read each topic."""
    kind = _FILTERS.get(subscription.pattern)
    if kind is None:
        return {topic: subscription.streams[topic] for topic in topics if topic in subscription.streams}
    ((expression, count),) = subscription.streams.items()
    try:
        accepts = kind(expression).accepts
    except ValueError as error:
        _log.warning("consumer %s reads no topics: its expression cannot be used: %s", consumer_id, error)
        return {}
    return {topic: count for topic in topics if accepts(topic) and not (exclude_internal and topic in INTERNAL_TOPICS)}


def _subscriptions(session: "ZnodeClient", paths: GroupPaths) -> dict[str, Subscription]:
    """The subscriptions of the registered consumers. One that cannot be read is ignored."""
    found = {}
    for path, znode in session.get(paths.consumer(name) for name in session.children(paths.ids)).items():
        consumer_id = path.removeprefix(f"{paths.ids}/")
        try:
            found[consumer_id] = decode_subscription(znode.data)
        except InvalidZnode as error:
            _log.warning("%s cannot be used: %s; this consumer is ignored", path, error)
    return found
