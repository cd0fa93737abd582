"""FindCoordinator, and requests to the coordinators of groups and transactional ids.

Coordinators move, load their state and complete one transaction before the next. These errors are retriable, so
requests are retried until their deadline, at the new coordinator if there is one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.retry import Backoff, retry
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

T = TypeVar("T")
ManyAction = Callable[[Connection, Sequence[str], float], Mapping[str, T | KafkaError]]

_LAST_SINGLE: Final = 3
_FIRST_OF_MANY: Final = 4
_FIRST_PAUSE_MS: Final = 20
"""Markers are written within milliseconds: who begins the next transaction should not wait for ``retry.backoff.ms``."""

_TRANSPORT: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
_MOVED: Final = _TRANSPORT | {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""Errors after which another broker may be the coordinator."""

_SUBJECTS: Final = {CoordinatorType.GROUP: "group", CoordinatorType.TRANSACTION: "transactional id"}


def quick_backoff(cluster: Cluster) -> Backoff:
    """Pauses that begin short and double up to ``retry.backoff.max.ms``."""
    return Backoff(min(_FIRST_PAUSE_MS, cluster.config.retry_backoff_ms), cluster.config.retry_backoff_max_ms)


def look_up_coordinator(cluster: Cluster, kind: CoordinatorType, key: str, deadline: Deadline) -> Node:
    """The coordinator of ``key``, looked up once and cached. Raises KafkaError naming the key."""
    request = FindCoordinatorRequest(key=key, key_type=kind)
    return _learn(cluster, kind, key, cluster.send(None, request, deadline=deadline, max_version=_LAST_SINGLE))


def _learn(cluster: Cluster, kind: CoordinatorType, key: str, found: FindCoordinatorResponse | Coordinator) -> Node:
    check_code(found.error_code, f"coordinator of {_SUBJECTS[kind]} {key}", operation="DESCRIBE")
    node = Node(node_id=found.node_id, host=found.host, port=found.port)
    cluster.coordinators.learn(kind, key, node)
    return node


def at_coordinator(
    cluster: Cluster, kind: CoordinatorType, key: str, action: Callable[[Connection, float], T], deadline: Deadline
) -> T:
    """Call ``action(connection, timeout_ms)`` at the coordinator of ``key``.

    It is retried on retriable errors until the deadline, and may have been carried out before if its response was lost.
    Raises KafkaError.
    """

    def attempt() -> T:
        node = cluster.coordinators.get(kind, key) or look_up_coordinator(cluster, kind, key, deadline)
        try:
            with cluster.lent(node, deadline) as connection:
                return action(connection, deadline.remaining_ms)
        except KafkaError as error:
            if error.code in _MOVED:
                cluster.coordinators.forget(kind, key, node)
            raise

    return retry(attempt, deadline, quick_backoff(cluster))


def at_coordinators(
    cluster: Cluster, kind: CoordinatorType, keys: Iterable[str], action: ManyAction[T], deadline: Deadline
) -> dict[str, T | KafkaError]:
    """Call ``action`` for ``keys`` at their coordinators, one connection per broker; the result of each key.

    ``action(connection, keys, timeout_ms)`` returns a result or an error for each key. Retriable errors are retried
    until the deadline. Nothing is raised for a key: its last error is its result. Raises AuthenticationFailed.
    """
    wanted = list(dict.fromkeys(keys))
    results: dict[str, T | KafkaError] = {}
    backoff = quick_backoff(cluster)
    pending = wanted
    while pending:
        for key, result in _round(cluster, kind, pending, action, deadline).items():
            before = results.get(key)
            says_less = isinstance(result, KafkaError) and result.code in _TRANSPORT and deadline.expired
            if before is None or not says_less:
                results[key] = result
        pending = [key for key in pending if isinstance(last := results[key], KafkaError) and last.retriable]
        if pending and not deadline.pause(backoff.next_ms()):
            break
    return {key: results[key] for key in wanted}


def _round(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str], action: ManyAction[T], deadline: Deadline
) -> dict[str, T | KafkaError]:
    results: dict[str, T | KafkaError] = {}
    by_node: dict[Node, list[str]] = {}
    for key, node in _nodes(cluster, kind, keys, deadline).items():
        if isinstance(node, KafkaError):
            results[key] = node
        else:
            by_node.setdefault(node, []).append(key)
    for node, parts in by_node.items():
        responses: Mapping[str, T | KafkaError]
        try:
            with cluster.lent(node, deadline) as connection:
                responses = action(connection, parts, deadline.remaining_ms)
                for result in responses.values():
                    if isinstance(result, KafkaError):
                        cluster.note_error(connection, result)
        except AuthenticationFailed:
            raise
        except KafkaError as error:
            responses = dict.fromkeys(parts, error)
        for key, result in responses.items():
            results[key] = result
            if isinstance(result, KafkaError) and result.code in _MOVED:
                cluster.coordinators.forget(kind, key, node)
    return results


def _nodes(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str], deadline: Deadline
) -> dict[str, Node | KafkaError]:
    """The coordinators of many keys, from memory where they are known, the others in one request (KIP-699)."""
    found: dict[str, Node | KafkaError] = {}
    missing = []
    for key in keys:
        node = cluster.coordinators.get(kind, key)
        if node is None:
            missing.append(key)
        else:
            found[key] = node
    if missing:
        try:
            found |= _ask_for_many(cluster, kind, missing, deadline)
        except AuthenticationFailed:
            raise
        except KafkaError as error:
            found |= dict.fromkeys(missing, error)
    return found


def _ask_for_many(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str], deadline: Deadline
) -> dict[str, Node | KafkaError]:
    """As ``look_up_coordinator``. Brokers before 3.0 get a request for each key."""
    responses: Mapping[str, FindCoordinatorResponse | Coordinator]
    with cluster.lent(cluster.any_node(deadline), deadline) as connection:
        if connection.version_of(FindCoordinatorRequest) >= _FIRST_OF_MANY:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=tuple(keys))
            responses = {
                found.key: found for found in connection.call(request, timeout_ms=deadline.remaining_ms).coordinators
            }
        else:
            responses = {
                key: connection.call(FindCoordinatorRequest(key=key, key_type=kind), timeout_ms=deadline.remaining_ms)
                for key in keys
            }
    found: dict[str, Node | KafkaError] = {}
    for key in keys:
        if key not in responses:
            detail = f"{_SUBJECTS[kind]} {key} is missing from FindCoordinator"
            found[key] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
            continue
        try:
            found[key] = _learn(cluster, kind, key, responses[key])
        except KafkaError as error:
            found[key] = error
    return found
