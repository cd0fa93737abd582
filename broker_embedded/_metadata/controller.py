"""The rules of creating, extending and deleting topics: an image and a request give a new topic, or an error.

Pure; `_metadata.topics` executes a plan. Rules and error codes are those of Apache Kafka's KRaft controller (4.x).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from broker_embedded._metadata.image import ClusterImage, PartitionImage, TopicImage
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicState
from spark_kafka_native._protocol.topic import topic_name_problem
from spark_kafka_native._protocol.wire import ZERO_UUID

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's controller has the same limit, that of a batch of its metadata log."""
METADATA_TOPIC = "__cluster_metadata"
"""The metadata log of Kafka's controllers, which is not a topic of brokers."""
_BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """The counts of a topic that is created with -1 partitions or replicas."""

    num_partitions: int
    replication_factor: int


def plan_topic(image: ClusterImage, wanted: CreatableTopic, topic_id: UUID, defaults: TopicDefaults) -> TopicImage:
    """The topic of a CreateTopics entry. Its configs are not validated.

    Raises KafkaError: an invalid or existing name, impossible counts or replicas.
    """
    _check_new_name(image, wanted.name)
    replicas = _assigned(image, wanted) if wanted.assignments else _placed(image, wanted, defaults)
    nulls = [config.name for config in wanted.configs if config.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    return TopicImage(
        name=wanted.name,
        topic_id=topic_id,
        partitions=tuple(_partition(brokers) for brokers in replicas),
        configs={config.name: config.value for config in wanted.configs if config.value is not None},
    )


def plan_partitions(image: ClusterImage, wanted: CreatePartitionsTopic) -> TopicImage:
    """The topic of a CreatePartitions entry. Raises KafkaError: unknown topic, no increase, bad replicas."""
    topic = image.topic(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    now, additional = len(topic.partitions), wanted.count - len(topic.partitions)
    if additional == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if additional < 0:
        detail = f"The topic {topic.name} currently has {now} partition(s); {wanted.count} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
    _check_size(additional)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        replicas = _round_robin(image.broker_ids, now, additional, factor)
    elif len(wanted.assignments) != additional:
        detail = (
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    else:
        replicas = [assignment.broker_ids for assignment in wanted.assignments]
        _check_assignments(image, replicas, factor)
    return replace(topic, partitions=(*topic.partitions, *map(_partition, replicas)))


def check_replicas(image: ClusterImage, brokers: tuple[int, ...]) -> None:
    """Raise KafkaError INVALID_REPLICA_ASSIGNMENT unless these brokers are valid replicas."""
    _check_assignments(image, (brokers,), len(brokers))


def find_deletions(
    image: ClusterImage, wanted: Sequence[DeleteTopicState]
) -> list[tuple[DeleteTopicState, TopicImage | KafkaError]]:
    """Each distinct entry of a DeleteTopics request, with its topic or error."""
    named = [_meant(image, state) for state in wanted]
    times: dict[UUID, int] = {}
    for meant in named:
        if isinstance(meant, TopicImage):
            times[meant.topic_id] = times.get(meant.topic_id, 0) + 1
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "The request contains the topic more than once.")
    return [
        (state, twice if isinstance(meant, TopicImage) and times[meant.topic_id] > 1 else meant)
        for state, meant in dict(zip(wanted, named, strict=True)).items()
    ]


def _meant(image: ClusterImage, state: DeleteTopicState) -> TopicImage | KafkaError:
    if state.name is None:
        if state.topic_id == ZERO_UUID:
            return KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        return image.topic_by_id(state.topic_id) or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if state.topic_id != ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    return image.topic(state.name) or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_new_name(image: ClusterImage, name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if image.topic(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    # Kafka's metric names have underscores instead of dots, so that two topics must not differ only in these.
    if "." in name or "_" in name:
        plain = name.replace(".", "_")
        for other in image.topics:
            if other.replace(".", "_") == plain:
                detail = f"Topic '{name}' collides with existing topic: {other}"
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, detail)


def _placed(image: ClusterImage, wanted: CreatableTopic, defaults: TopicDefaults) -> Sequence[tuple[int, ...]]:
    factor, count = wanted.replication_factor, wanted.num_partitions
    if factor < _BROKER_DEFAULT or factor == 0:
        detail = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    if count < _BROKER_DEFAULT or count == 0:
        detail = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
    factor = defaults.replication_factor if factor == _BROKER_DEFAULT else factor
    count = defaults.num_partitions if count == _BROKER_DEFAULT else count
    _check_size(count)
    if factor > len(image.broker_ids):
        detail = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
            f"be reached because only {len(image.broker_ids)} broker(s) are registered."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    return _round_robin(image.broker_ids, 0, count, factor)


def _round_robin(broker_ids: Sequence[int], first: int, count: int, factor: int) -> Sequence[tuple[int, ...]]:
    """Replicas of partitions from ``first`` on: leaders round-robin, followers are the next brokers."""
    total = len(broker_ids)
    return [
        tuple(broker_ids[(index + step) % total] for step in range(factor)) for index in range(first, first + count)
    ]


def _assigned(image: ClusterImage, wanted: CreatableTopic) -> Sequence[tuple[int, ...]]:
    if wanted.replication_factor != _BROKER_DEFAULT:
        detail = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    if wanted.num_partitions != _BROKER_DEFAULT:
        detail = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    _check_size(len(wanted.assignments))
    by_index = _by_index(wanted.assignments)
    replicas = [by_index[index] for index in range(len(by_index))]
    _check_assignments(image, replicas, len(replicas[0]))
    return replicas


def _by_index(assignments: Iterable[CreatableReplicaAssignment]) -> dict[int, tuple[int, ...]]:
    by_index: dict[int, tuple[int, ...]] = {}
    for assignment in assignments:
        if assignment.partition_index in by_index:
            detail = f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
        by_index[assignment.partition_index] = assignment.broker_ids
    if set(by_index) != set(range(len(by_index))):
        detail = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    return by_index


def _check_assignments(image: ClusterImage, replicas: Sequence[tuple[int, ...]], factor: int) -> None:
    problem = next(filter(None, (_assignment_problem(image, brokers, factor) for brokers in replicas)), None)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}")


def _assignment_problem(image: ClusterImage, brokers: tuple[int, ...], factor: int) -> str | None:
    if not brokers:
        return "an empty replica list."
    for broker in brokers:
        if broker not in image.broker_ids:
            return f"broker {broker}, but no such broker is registered."
        if brokers.count(broker) > 1:
            return f"the broker {broker} more than once."
    if len(brokers) != factor:
        return (
            f"a partition with {len(brokers)} replica(s), but this is not consistent with previous partitions, "
            f"which have {factor} replica(s)."
        )
    return None


def _check_size(count: int) -> None:
    if count > MAX_PARTITIONS_PER_REQUEST:
        detail = f"{count} partitions at once are too many; the limit is {MAX_PARTITIONS_PER_REQUEST}."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, detail)


def _partition(replicas: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(leader=replicas[0], replicas=replicas, isr=replicas)
