"""Requests to the leaders of partitions: one per broker, to all brokers at once, until all have answered.

A ``LeaderQuery`` makes the requests. Moved leaders, broken connections and partitions that a response leaves out are
handled here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native.client.retry import give_up, is_transient
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import BrokerUnreachable
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.schema import Request, Response
from spark_kafka_native.protocol.topic import TopicPartition

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Response)
Leaders = Mapping[TopicPartition, PartitionLeader]
PartitionErrors = dict[TopicPartition, KafkaError]


class LeaderQuery(Protocol[ResponseT, T]):
    """A request about partitions to the brokers that lead them."""

    def request(
        self, partitions: Sequence[TopicPartition], leaders: Leaders, connection: Connection, /
    ) -> Request[ResponseT]:
        """The request for ``partitions``. Raises KafkaError: the broker's version cannot have it."""
        ...

    def take(self, response: ResponseT, found: dict[TopicPartition, T]) -> PartitionErrors:
        """Add the results of a response to ``found``; return the errors of its other partitions."""
        ...


def ask_leaders(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    query: LeaderQuery[ResponseT, T],
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, T]:
    """The result of each of ``partitions``, in their order.

    Transient errors are retried until ``timeout_ms`` (``default.api.timeout.ms``) from now. Raises KafkaError naming a
    partition without a result; BrokerUnreachable.
    """
    deadline = Deadline.after_ms(cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
    found: dict[TopicPartition, T] = {}
    backoff = cluster.backoff()
    last: KafkaError | None = None
    while pending := [partition for partition in partitions if partition not in found]:
        try:
            errors = _ask_once(cluster, pending, query, deadline, found)
        except BrokerUnreachable as error:
            give_up(last, error)
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


def _ask_once(
    cluster: Cluster,
    pending: Sequence[TopicPartition],
    query: LeaderQuery[ResponseT, T],
    deadline: Deadline,
    found: dict[TopicPartition, T],
) -> PartitionErrors:
    """One request to every leader. Fills ``found``; returns the errors of the other partitions.

    Raises KafkaError: a response leaves a partition out.
    """
    leaders = cluster.leaders(pending, deadline)
    by_node: dict[Node, list[TopicPartition]] = {}
    for partition in pending:
        by_node.setdefault(leaders[partition].node, []).append(partition)
    errors: PartitionErrors = {}
    requests: list[tuple[Connection, list[TopicPartition]]] = []
    try:
        for node, partitions in by_node.items():
            try:
                requests.append((_send(cluster, node, partitions, leaders, query, deadline), partitions))
            except KafkaError as error:
                errors |= dict.fromkeys(partitions, error)
        for connection, partitions in requests:
            response: Any
            try:
                sent, response = connection.receive(deadline.at_most_ms(cluster.config.request_timeout_ms))
            except KafkaError as error:
                errors |= dict.fromkeys(partitions, error)
            else:
                errors |= query.take(response, found)
                for partition in partitions:
                    if partition not in found and partition not in errors:
                        detail = f"{partition} is missing from {sent.request.api_name}"
                        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
    finally:
        for connection, _ in requests:
            cluster.give_back(connection)
    return errors


def _send(
    cluster: Cluster,
    node: Node,
    partitions: list[TopicPartition],
    leaders: Leaders,
    query: LeaderQuery[ResponseT, T],
    deadline: Deadline,
) -> Connection:
    connection = cluster.borrow(node, deadline)
    try:
        request = query.request(partitions, leaders, connection)
        connection.send(request, deadline=deadline)
    except BaseException:
        cluster.give_back(connection)
        raise
    return connection
