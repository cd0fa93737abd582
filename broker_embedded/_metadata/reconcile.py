"""Reconciling ``topics.json`` and the partition directories at the start, which may differ after a crash."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from broker_embedded._metadata.image import ClusterImage, PartitionImage, TopicImage
from spark_kafka_native._protocol.topic import TopicPartition


class InconsistentTopicError(Exception):
    """A directory and the file have two topics of one name. ``str()`` has both. An administrator must resolve it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """The reconciled topics, and the necessary actions.

    ``leftovers`` are directories of deleted topics, to be removed; ``missing`` partitions without a directory, to be
    created; ``adopted`` the topics of which the file has no partition, or fewer.
    """

    topics: tuple[TopicImage, ...]
    leftovers: tuple[TopicPartition, ...]
    missing: Mapping[str, tuple[TopicPartition, ...]]
    adopted: tuple[str, ...]


def with_epochs(topics: Iterable[TopicImage], latest: Mapping[TopicPartition, int]) -> tuple[TopicImage, ...]:
    """The topics with leader epochs of at least ``latest``, the last epoch in each log.

    A log from an Apache Kafka has leader epochs of that cluster. Epochs in a log never decrease, and clients that know
    the last one ignore a leader with an earlier one.
    """
    return tuple(
        replace(
            topic,
            partitions=tuple(
                replace(image, leader_epoch=max(image.leader_epoch, latest.get(TopicPartition(topic.name, index), 0)))
                for index, image in enumerate(topic.partitions)
            ),
        )
        for topic in topics
    )


def reconcile(
    stored: ClusterImage, found: Mapping[TopicPartition, UUID | None], *, node_id: int, new_id: Callable[[], UUID]
) -> Reconciled:
    """Reconcile the file and the directories, each with its topic id.

    A topic in the file is completed, a topic under ``deleting`` is removed. An unknown directory, for example a copy
    from an Apache Kafka, is adopted as a topic: only topics that were deleted are removed.

    Raises InconsistentTopicError.
    """
    topics = dict(stored.topics)
    leftovers: list[TopicPartition] = []
    adopted: dict[str, None] = {}
    for partition, topic_id in sorted(found.items()):
        topic = topics.get(partition.topic)
        if _is_deleted(partition, topic_id, topic, stored.deleting):
            leftovers.append(partition)
            continue
        if topic is None:
            topic = TopicImage(name=partition.topic, topic_id=topic_id or new_id(), partitions=())
        elif topic_id not in {None, topic.topic_id}:
            raise InconsistentTopicError(
                f"directory {partition} belongs to topic id {topic_id}, but topics.json gives {topic.name} the id "
                f"{topic.topic_id}"
            )
        if partition.partition >= len(topic.partitions):
            topic = _widened(topic, partition.partition + 1, node_id)
            adopted[topic.name] = None
        topics[topic.name] = topic
    kept = found.keys() - set(leftovers)
    return Reconciled(
        topics=tuple(topics.values()),
        leftovers=tuple(leftovers),
        missing={topic.name: missing for topic in topics.values() if (missing := _missing(topic, kept))},
        adopted=tuple(adopted),
    )


def _is_deleted(
    partition: TopicPartition, topic_id: UUID | None, topic: TopicImage | None, deleting: Mapping[UUID, str]
) -> bool:
    if topic_id is None:  # written by Kafka before 2.8: compare the name
        return topic is None and partition.topic in deleting.values()
    return topic_id in deleting and (topic is None or topic.topic_id != topic_id)


def _widened(topic: TopicImage, count: int, node_id: int) -> TopicImage:
    ours = PartitionImage(leader=node_id, replicas=(node_id,), isr=(node_id,))
    return replace(topic, partitions=topic.partitions + (ours,) * (count - len(topic.partitions)))


def _missing(topic: TopicImage, kept: set[TopicPartition]) -> tuple[TopicPartition, ...]:
    wanted = (TopicPartition(topic.name, index) for index in range(len(topic.partitions)))
    return tuple(partition for partition in wanted if partition not in kept)
