"""A member's requests to the coordinator of its group, in one thread whose waits another thread can end."""

import select
from collections.abc import Callable
from typing import Final, TypeVar, cast

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import look_up_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.groups.waits import MemberWaits
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import RequestTimeout
from spark_kafka_native._protocol.schema import Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

_LOOK_UP_MS: Final = 2_000
"""Longest look-up of the coordinator, which cannot be interrupted; the caller repeats it."""
_FINISH_MS: Final = 500
"""Longest wait for a response after ``stop``, if the member has to know what the coordinator has decided."""


class CoordinatorLink:
    """The connection to the coordinator of a group, for the thread of its member."""

    def __init__(self, cluster: Cluster, group_id: str, waits: MemberWaits) -> None:
        """Does not connect yet."""
        self.cluster = cluster
        self.group_id = group_id
        self.waits = waits
        self._connection: Connection | None = None

    def disconnect(self) -> None:
        """Give the connection back, without a response that is still due."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.cluster.give_back(connection)

    def forget(self) -> None:
        """Look the coordinator up again, because it has moved or cannot be reached."""
        self.disconnect()
        node = self.cluster.coordinators.get(CoordinatorType.GROUP, self.group_id)
        if node is not None:
            self.cluster.coordinators.forget(CoordinatorType.GROUP, self.group_id, node)

    def ask(
        self,
        request: Request[ResponseT] | Callable[[Connection], Request[ResponseT]],
        *,
        timeout_ms: float,
        finishes: bool = False,
    ) -> ResponseT:
        """The coordinator's response; a function makes the request for the connection's versions.

        ``finishes``: after ``stop``, wait up to 500 ms for the response.
        Raises Interrupted; KafkaError, after which the connection is closed.
        """
        self.waits.check()
        deadline = Deadline.after_ms(timeout_ms)
        connection = self._connected(deadline)
        try:
            made = request if isinstance(request, Request) else request(connection)
            sent = connection.send(made, deadline=deadline)
            while True:
                connection.write_some()
                connection.read_some()
                received = connection.next_response()
                if received is not None:
                    return cast("ResponseT", received[1])
                if finishes and self.waits.is_stopping:
                    deadline = deadline.at_most_ms(_FINISH_MS)
                if not self._wait(connection, deadline):
                    raise RequestTimeout(connection.address, sent.request.api_name, round(timeout_ms))
                if not finishes:
                    self.waits.check()
        except BaseException:
            connection.close()
            self.disconnect()
            raise

    def _connected(self, deadline: Deadline) -> Connection:
        if self._connection is not None and self._connection.is_stale():
            self.disconnect()
        if self._connection is None:
            coordinators = self.cluster.coordinators
            node = coordinators.get(CoordinatorType.GROUP, self.group_id)
            if node is None:
                soon = deadline.at_most_ms(_LOOK_UP_MS)
                node = look_up_coordinator(self.cluster, CoordinatorType.GROUP, self.group_id, soon)
            self._connection = self.cluster.borrow(node, deadline)
        return self._connection

    def _wait(self, connection: Connection, deadline: Deadline) -> bool:
        """Wait for the socket, or until ``wake``. Whether time is left."""
        poll = select.poll()
        poll.register(connection, select.POLLIN | (select.POLLOUT if connection.wants_write else 0))
        poll.register(self.waits.alarm, select.POLLIN)
        poll.poll(deadline.remaining_ms)
        self.waits.alarm.clear()
        return not deadline.expired
