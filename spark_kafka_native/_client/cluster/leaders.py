"""Requests to the leaders of partitions, or to one broker: one per broker, to all at once, until all have answered.

Moved leaders, broken connections and partitions that a response leaves out are handled here.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._client.errors import BrokerNotAvailable, NotAReplica
from spark_kafka_native._client.retry import give_up, is_transient
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Response)
Leaders = Mapping[TopicPartition, PartitionLeader]
RequestOf = Callable[[Sequence[TopicPartition], Leaders, Connection], Request[ResponseT]]
"""The request for partitions that a broker leads. Raises KafkaError: the broker's version cannot have it."""
ResultsOf = Callable[[ResponseT], Iterable[tuple[TopicPartition, T | KafkaError]]]
"""The result or the error of each partition in a response."""


def ask_leaders(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    request_of: RequestOf[ResponseT],
    results_of: ResultsOf[ResponseT, T],
    *,
    broker_id: int | None = None,
    max_version: int | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, T]:
    """The result of each of ``partitions``, in their order.

    ``request_of`` makes the request for the partitions of one leader; ``results_of`` yields the result or the error of
    each partition in its response. ``broker_id``: ask this replica instead of the leaders. Transient errors are retried
    until ``timeout_ms`` (``default.api.timeout.ms``) from now. Raises KafkaError naming a partition without a result;
    NotAReplica; BrokerUnreachable.
    """
    deadline = cluster.deadline(timeout_ms)
    found: dict[TopicPartition, T] = {}
    backoff = cluster.backoff()
    last: KafkaError | None = None
    errors: dict[TopicPartition, KafkaError]
    while pending := [partition for partition in partitions if partition not in found]:
        try:
            if broker_id is None:
                leaders, errors = cluster.leaders(pending, deadline), {}
            else:
                leaders, errors = find_replicas(cluster, pending, broker_id, deadline)
        except BrokerUnreachable as error:
            give_up(last, error)
        results = ask_once(cluster, leaders, request_of, results_of, deadline, max_version=max_version)
        for partition, result in results.items():
            if isinstance(result, KafkaError):
                errors[partition] = result
            else:
                found[partition] = result
        for failure in errors.values():
            if not is_transient(failure):
                raise failure
        if errors:
            cluster.mark_stale(*(partition.topic for partition in errors))
            failure = next(iter(errors.values()))
            if not deadline.pause(backoff.next_ms()):
                give_up(last, failure)
            last = failure
    return {partition: found[partition] for partition in partitions}


def find_replicas(
    cluster: Cluster, partitions: Sequence[TopicPartition], broker_id: int, deadline: Deadline
) -> tuple[dict[TopicPartition, PartitionLeader], dict[TopicPartition, KafkaError]]:
    """As ``Cluster.find_leaders``, with the broker ``broker_id`` instead of each leader.

    Errors are NotAReplica and BrokerNotAvailable, too. Raises BrokerUnreachable.
    """
    _, errors = cluster.find_leaders(partitions, deadline)
    replicas: dict[TopicPartition, tuple[int, UUID]] = {}
    for partition in partitions:
        topic = cluster.topic_in_memory(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or known is None:
            errors.setdefault(partition, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition)))
        elif broker_id not in known.replicas:
            errors[partition] = NotAReplica(partition, broker_id)
        else:
            errors.pop(partition, None)  # a replica has records while there is no leader, too
            replicas[partition] = known.leader_epoch, topic.topic_id
    try:
        node = cluster.node(broker_id, deadline) if replicas else None
    except BrokerNotAvailable as error:
        return {}, errors | dict.fromkeys(replicas, error)
    found = {} if node is None else {part: PartitionLeader(node, *replica) for part, replica in replicas.items()}
    return found, errors


def ask_once(
    cluster: Cluster,
    leaders: Leaders,
    request_of: RequestOf[ResponseT],
    results_of: ResultsOf[ResponseT, T],
    deadline: Deadline,
    *,
    max_version: int | None = None,
    wait_ms: float = 0,
) -> dict[TopicPartition, T | KafkaError]:
    """The result or the error of each partition of ``leaders``: one request to every leader, without retries.

    ``request_of`` and ``results_of`` as in ``ask_leaders``. ``wait_ms``: time that a broker may take for its response
    besides ``request.timeout.ms``. UNKNOWN_SERVER_ERROR: the response leaves a partition out.
    """
    by_node: dict[Node, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_node.setdefault(leader.node, []).append(partition)
    found: dict[TopicPartition, T | KafkaError] = {}
    requests: list[tuple[Connection, list[TopicPartition]]] = []
    try:
        for node, partitions in by_node.items():
            try:
                request = functools.partial(request_of, partitions, leaders)
                requests.append((_send(cluster, node, request, deadline, max_version), partitions))
            except KafkaError as error:
                found |= dict.fromkeys(partitions, error)
        for connection, partitions in requests:
            response: Any
            try:
                sent, response = connection.receive(deadline.at_most_ms(cluster.config.request_timeout_ms + wait_ms))
            except KafkaError as error:
                found |= dict.fromkeys(partitions, error)
            else:
                if cluster.is_from_another_broker(response):
                    connection.close()
                found |= results_of(response)
                found |= {each: _missing(each, sent.request.api_name) for each in partitions if each not in found}
    finally:
        for connection, _ in requests:
            cluster.give_back(connection)
    return found


def _missing(partition: TopicPartition, api_name: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition} is missing from {api_name}")


def _send(
    cluster: Cluster,
    node: Node,
    request_of: Callable[[Connection], Request[Any]],
    deadline: Deadline,
    max_version: int | None,
) -> Connection:
    connection = cluster.borrow(node, deadline)
    try:
        connection.send(request_of(connection), deadline=deadline, max_version=max_version)
    except BaseException:
        cluster.give_back(connection)
        raise
    return connection
