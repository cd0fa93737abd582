"""Requests to the leaders of partitions, or to one of their replicas.

One request per broker. All are sent before the first response is read, and responses are read as they come. Moved
leaders, broken connections, throttles and partitions that a response leaves out are handled here.
"""

import enum
import select
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._client.errors import BrokerNotAvailable, NotAReplica
from spark_kafka_native._client.retry import give_up, is_transient
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.connection import InFlightRequest
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, Throttled
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition


class Again(enum.Enum):
    """A result of ``ResultsOf``: request the partition again, without a pause."""

    AGAIN = enum.auto()


AGAIN: Final = Again.AGAIN
T = TypeVar("T")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT", bound=Exception)
ResponseT = TypeVar("ResponseT", bound=Response)
Leaders = Mapping[TopicPartition, PartitionLeader]
RequestOf = Callable[[Sequence[TopicPartition], Leaders, Connection], Request[ResponseT]]
"""The request for partitions that a broker leads. Raises KafkaError: the broker's version cannot have it."""
ResultsOf = Callable[[ResponseT], Iterable[tuple[TopicPartition, T | KafkaError]]]
"""The result or the error of each partition in a response."""

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


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

    As ``ask_each``, until ``timeout_ms`` (``default.api.timeout.ms``) from now. Without ``broker_id`` nothing is sent
    unless all partitions have leaders. Raises the first error of a partition, at once if it is final: KafkaError naming
    the partition; BrokerUnreachable.
    """
    deadline = cluster.deadline(timeout_ms)
    if broker_id is None:
        cluster.leaders(partitions, deadline)
    results: dict[TopicPartition, T | KafkaError] = ask_each(
        cluster,
        partitions,
        request_of,
        results_of,
        deadline,
        broker_id=broker_id,
        max_version=max_version,
        stops_at_error=True,
    )
    found: dict[TopicPartition, T] = {}
    for partition, result in results.items():
        if isinstance(result, KafkaError):
            raise result
        found[partition] = result
    return {partition: found[partition] for partition in partitions}


def ask_each(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    request_of: RequestOf[ResponseT],
    results_of: Callable[[ResponseT], Iterable[tuple[TopicPartition, T | KafkaError | Again]]],
    deadline: Deadline,
    *,
    broker_id: int | None = None,
    max_version: int | None = None,
    wait_ms: float = 0,
    stops_at_error: bool = False,
) -> dict[TopicPartition, T | KafkaError]:
    """The result or the error of each of ``partitions``.

    ``request_of`` makes the request for the partitions of one broker; ``results_of`` yields the result or the error of
    each partition in its response. Transient errors are retried until ``deadline``. ``broker_id``: ask this replica
    instead of the leaders. ``wait_ms``: added to ``request.timeout.ms``. ``stops_at_error``: return as soon as a
    partition has a final error, without results of some others. An error of the cluster is that of each partition
    without a result. Errors have no traceback, whose frames would hold the results of other partitions.
    """
    found: dict[TopicPartition, T | KafkaError] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    unknown_tries: Counter[TopicPartition] = Counter()
    backoff = cluster.backoff()
    while pending := [partition for partition in partitions if partition not in found]:
        try:
            brokers, unled = find_brokers(cluster, pending, broker_id, deadline)
        except KafkaError as error:
            return found | {partition: _last(errors.get(partition), error) for partition in pending}
        unknown_tries.update(part for part, error in unled.items() if error.code is _UNKNOWN)
        final = {
            part: error
            for part, error in unled.items()
            if not error.retriable or unknown_tries[part] >= UNKNOWN_TOPIC_TRIES
        }
        transient = {partition: error for partition, error in unled.items() if partition not in final}
        results: dict[TopicPartition, T | KafkaError | Again] = ask_once(
            cluster, brokers, request_of, results_of, deadline, max_version=max_version, wait_ms=wait_ms
        )
        for partition, result in results.items():
            if isinstance(result, KafkaError):
                (transient if _may_pass(result, deadline) else final)[partition] = result
            elif not isinstance(result, Again):
                found[partition] = result
        found |= final
        if final and stops_at_error:
            return found
        if transient:
            cluster.mark_stale(*(part.topic for part, error in transient.items() if not isinstance(error, Throttled)))
            if not deadline.pause(backoff.next_ms()):
                found |= {partition: _last(errors.get(partition), error) for partition, error in transient.items()}
            errors |= transient
    return found


def _may_pass(error: KafkaError, deadline: Deadline) -> bool:
    is_too_long = isinstance(error, Throttled) and error.throttle_ms > deadline.remaining_ms
    return is_transient(error) and not is_too_long


def _last(earlier: KafkaError | None, error: KafkaError) -> KafkaError:
    """The error that ``give_up`` raises."""
    try:
        give_up(earlier, error)
    except KafkaError as last:
        return without_frames(last)


def without_frames(error: ErrorT) -> ErrorT:
    """The error and its causes without their tracebacks, to be kept in a result."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error


def find_brokers(
    cluster: Cluster, partitions: Sequence[TopicPartition], broker_id: int | None, deadline: Deadline
) -> tuple[dict[TopicPartition, PartitionLeader], dict[TopicPartition, KafkaError]]:
    """The leaders of ``partitions``, or with ``broker_id`` this broker instead, and the errors of the other partitions.

    Errors are those of ``Cluster.find_leaders``, NotAReplica and BrokerNotAvailable. Raises BrokerUnreachable.
    """
    leaders, errors = cluster.find_leaders(partitions, deadline)
    if broker_id is None:
        return leaders, errors
    replicas, errors = _replicas(cluster, partitions, broker_id, errors)
    if any(isinstance(error, NotAReplica) for error in errors.values()):  # the metadata may be old
        cluster.mark_stale(*(partition.topic for partition in errors))
        _, errors = cluster.find_leaders(partitions, deadline)
        replicas, errors = _replicas(cluster, partitions, broker_id, errors)
    try:
        node = cluster.node(broker_id, deadline) if replicas else None
    except BrokerNotAvailable as error:
        return {}, errors | dict.fromkeys(replicas, error)
    found = {} if node is None else {part: PartitionLeader(node, *replica) for part, replica in replicas.items()}
    return found, errors


def _replicas(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    broker_id: int,
    errors: Mapping[TopicPartition, KafkaError],
) -> tuple[dict[TopicPartition, tuple[int, UUID]], dict[TopicPartition, KafkaError]]:
    """Leader epoch and topic id of the partitions of which the broker has a replica, and the errors of the others."""
    replicas: dict[TopicPartition, tuple[int, UUID]] = {}
    missing: dict[TopicPartition, KafkaError] = {}
    for partition in partitions:
        topic = cluster.topic_in_memory(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or known is None:
            missing[partition] = errors.get(partition) or KafkaError(_UNKNOWN, str(partition))
        elif broker_id not in known.replicas:
            missing[partition] = NotAReplica(partition, broker_id, known.replicas)
        else:  # it has records while there is no leader, too
            replicas[partition] = known.leader_epoch, topic.topic_id
    return replicas, missing


def ask_once(
    cluster: Cluster,
    leaders: Leaders,
    request_of: RequestOf[ResponseT],
    results_of: Callable[[ResponseT], Iterable[tuple[TopicPartition, ResultT]]],
    deadline: Deadline,
    *,
    max_version: int | None = None,
    wait_ms: float = 0,
) -> dict[TopicPartition, ResultT | KafkaError]:
    """The result or the error of each partition of ``leaders``: one request to every broker, without retries.

    Parameters as in ``ask_each``. Errors have no traceback. UNKNOWN_SERVER_ERROR: the response leaves a partition out.
    A connection whose records are corrupt is closed, because the network may be the cause.
    """
    by_node: dict[Node, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_node.setdefault(leader.node, []).append(partition)
    found: dict[TopicPartition, ResultT | KafkaError] = {}
    requests: dict[Connection, list[TopicPartition]] = {}
    pending: list[Connection] = []
    try:
        for connection, node in _connections(cluster, by_node, deadline):
            partitions = by_node[node]
            if isinstance(connection, KafkaError):
                found |= dict.fromkeys(partitions, connection)
                continue
            requests[connection] = partitions
            try:
                request = request_of(partitions, leaders, connection)
                connection.send(request, deadline=deadline, max_version=max_version)
                pending.append(connection)
            except KafkaError as error:
                found |= dict.fromkeys(partitions, without_frames(error))
        for connection, received in _receive(pending, deadline.at_most_ms(cluster.config.request_timeout_ms + wait_ms)):
            partitions = requests[connection]
            if isinstance(received, KafkaError):
                found |= dict.fromkeys(partitions, received)
                continue
            sent, response = received
            results = dict(results_of(response))  # type: ignore[arg-type]  # it is the response of ``request_of``
            missing = _missing(connection, sent, response)
            own = {part: results[part] if part in results else missing(part) for part in partitions}
            found |= own
            if cluster.is_from_another_broker(response) or any(map(_is_corrupt, own.values())):
                connection.close()
    finally:
        for connection in requests:
            cluster.give_back(connection)
    return found


def _connections(
    cluster: Cluster, nodes: Iterable[Node], deadline: Deadline
) -> Iterator[tuple[Connection | KafkaError, Node]]:
    """A connection to each node, or its error: idle ones first, and throttled ones last of these.

    So no broker's request waits for the end of another broker's throttle, or for a broker that accepts no connection.
    """
    idle = {node: cluster.borrow_idle(node) for node in nodes}
    connected = [(connection, node) for node, connection in idle.items() if connection is not None]
    ready = [each for each in connected if not each[0].throttle_ms]
    yield from ready
    for node in (node for node, connection in idle.items() if connection is None):
        try:
            # The other half of the time is for the responses, and for the other brokers.
            connection = cluster.borrow(node, Deadline.after_ms(deadline.remaining_ms / 2))
        except BrokerUnreachable as error:
            yield BrokerUnreachable(error.tried, f"for the partitions of broker {node.node_id}", error.after), node
        except KafkaError as error:
            yield without_frames(error), node
        else:
            yield connection, node
    throttled = [each for each in connected if each not in ready]
    yield from sorted(throttled, key=lambda each: each[0].throttle_ms)


def _receive(
    connections: Iterable[Connection], deadline: Deadline
) -> Iterator[tuple[Connection, tuple[InFlightRequest, Response] | KafkaError]]:
    """The response or the error of each connection, in the order in which they come."""
    pending = {connection.fileno(): connection for connection in connections}
    while pending:
        poll = select.poll()
        for descriptor, connection in pending.items():
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if connection.wants_write else 0))
        ready = {descriptor for descriptor, _ in poll.poll(deadline.remaining_ms)}
        is_late = deadline.expired
        for descriptor in list(pending) if is_late else ready:
            connection = pending[descriptor]
            received: tuple[InFlightRequest, Response] | KafkaError | None
            try:
                if is_late:
                    received = connection.receive(deadline)
                else:
                    connection.write_some()
                    connection.read_some()
                    received = connection.next_response()
            except KafkaError as error:
                received = without_frames(error)
            if received is not None:
                del pending[descriptor]
                yield connection, received


def _missing(
    connection: Connection, sent: InFlightRequest, response: Response
) -> Callable[[TopicPartition], KafkaError]:
    """The error of partitions that a response leaves out; a quota leaves out all of a Fetch (KIP-219)."""
    api_name, throttle_ms = sent.request.api_name, getattr(response, "throttle_time_ms", 0)
    if throttle_ms:
        throttled = Throttled(connection.address, api_name, throttle_ms)
        return lambda _: throttled
    return lambda partition: KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition} is missing from {api_name}")


def _is_corrupt(result: object) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.CORRUPT_MESSAGE
