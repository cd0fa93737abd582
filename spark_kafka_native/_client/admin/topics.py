"""CreateTopics, DeleteTopics and CreatePartitions.

Requests go to the controller, or to any broker if the cluster names none, and are retried. If a request may have been
carried out although its response was lost, a later TOPIC_ALREADY_EXISTS (for a deletion UNKNOWN_TOPIC_OR_PARTITION)
counts as success.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.schema import Request

_LAST_DELETE_TOPICS_BY_NAME: Final = 5
_BROKER_DEFAULT: Final = -1
_WITHOUT_RESPONSE: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})

TopicResult = tuple[str, int, str | None]
"""Topic, error code, the broker's message."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker (brokers from 2.4 on).

    ``assignments``: the brokers of each partition's replicas, leader first, instead of the two numbers.
    """

    name: str
    partitions: int = _BROKER_DEFAULT
    replication_factor: int = _BROKER_DEFAULT
    configs: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)


class TopicsError(KafkaError):
    """The errors of some topics, by name. The request succeeded for its other topics."""

    _retriable = False
    """It was tried again for as long as allowed."""
    _shows_code = False

    def __init__(self, errors: Mapping[str, KafkaError]) -> None:
        self.errors = dict(errors)
        super().__init__(next(iter(self.errors.values())).code, "; ".join(map(str, self.errors.values())))

    @property
    def reasons(self) -> list[str]:
        """Each topic's error message, or the meaning of its error code, without the topic's name before it."""
        return [
            error.response_message or error.detail.removeprefix(f"topic {name}") or error.code.message
            for name, error in self.errors.items()
        ]


def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: float | None = None
) -> None:
    """Create topics, or with ``validate_only`` only check the request. Raises TopicsError."""
    wanted = {topic.name: _creatable(topic) for topic in topics}

    def request(names: list[str], left_ms: int) -> CreateTopicsRequest:
        chosen = tuple(wanted[name] for name in names)
        return CreateTopicsRequest(topics=chosen, timeout_ms=left_ms, validate_only=validate_only)

    def outcomes(response: Any) -> list[TopicResult]:
        return [(topic.name, topic.error_code, topic.error_message) for topic in response.topics]

    _until_settled(
        cluster,
        wanted,
        request,
        outcomes,
        operation="CREATE",
        done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
        timeout_ms=timeout_ms,
    )


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    """Delete topics and their records. Raises TopicsError."""

    def request(names: list[str], left_ms: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=left_ms)

    def outcomes(response: Any) -> list[TopicResult]:
        return [(topic.name, topic.error_code, topic.error_message) for topic in response.responses]

    _until_settled(
        cluster,
        names,
        request,
        outcomes,
        operation="DELETE",
        done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        max_version=_LAST_DELETE_TOPICS_BY_NAME,
    )


def create_partitions(cluster: Cluster, totals: Mapping[str, int], *, timeout_ms: float | None = None) -> None:
    """Add partitions to topics: ``totals`` are the new numbers of partitions. Raises TopicsError."""

    def request(names: list[str], left_ms: int) -> CreatePartitionsRequest:
        topics = tuple(CreatePartitionsTopic(name=name, count=totals[name], assignments=None) for name in names)
        return CreatePartitionsRequest(topics=topics, timeout_ms=left_ms)

    def outcomes(response: Any) -> list[TopicResult]:
        return [(topic.name, topic.error_code, topic.error_message) for topic in response.results]

    # If an earlier request was carried out, the broker answers that the topic has this number of partitions.
    _until_settled(
        cluster,
        totals,
        request,
        outcomes,
        operation="ALTER",
        done_before=ErrorCode.INVALID_PARTITIONS,
        timeout_ms=timeout_ms,
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    assigned = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=_BROKER_DEFAULT if assigned else topic.partitions,
        replication_factor=_BROKER_DEFAULT if assigned else topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in topic.assignments.items()
        ),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )


def _until_settled(
    cluster: Cluster,
    names: Iterable[str],
    request: Callable[[list[str], int], Request[Any]],
    outcomes: Callable[[Any], list[TopicResult]],
    *,
    operation: str,
    done_before: ErrorCode,
    max_version: int | None = None,
    timeout_ms: float | None = None,
) -> None:
    """Send ``request`` for the remaining topics until each has a result or the deadline has passed."""
    deadline = cluster.deadline(timeout_ms)
    backoff = cluster.backoff()
    left = every = list(dict.fromkeys(names))
    errors: dict[str, KafkaError] = {}
    failed: dict[str, KafkaError] = {}
    maybe_done = False
    while left:
        left_ms = round(min(deadline.remaining_ms, cluster.config.request_timeout_ms))
        try:
            response = _ask_controller(cluster, request(left, left_ms), deadline, max_version)
            failed = _errors_of(outcomes(response), left, operation)
        except KafkaError as error:
            if not error.retriable:
                raise
            if not (deadline.expired and failed):  # what happened before says more than that time is up
                failed = dict.fromkeys(left, error)
        if maybe_done:
            failed = {name: error for name, error in failed.items() if error.code is not done_before}
        maybe_done |= any(error.code in _WITHOUT_RESPONSE for error in failed.values())
        left = [name for name, error in failed.items() if error.retriable and error.code is not done_before]
        errors |= {name: error for name, error in failed.items() if name not in left}
        if left and not deadline.pause(backoff.next_ms()):
            errors |= {name: failed[name] for name in left}
            break
    cluster.mark_stale(*every)
    if errors:
        raise TopicsError(errors)


def _ask_controller(cluster: Cluster, request: Request[Any], deadline: Deadline, max_version: int | None) -> object:
    controller_id = cluster.metadata([], timeout_ms=deadline.remaining_ms).controller_id
    if controller_id < 0:
        return cluster.send(None, request, deadline=deadline, max_version=max_version)
    return cluster.send_once(controller_id, request, deadline, max_version)


def _errors_of(outcomes: list[TopicResult], names: list[str], operation: str) -> dict[str, KafkaError]:
    failed = {}
    answered = {name: (ErrorCode.of(code), message) for name, code, message in outcomes}
    for name in names:
        code, message = answered.get(name, (ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not name it"))
        if code is not ErrorCode.NONE:
            failed[name] = KafkaError(code, f"topic {name}", message or "", operation=operation)
    return failed
