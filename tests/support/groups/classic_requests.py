"""Clients that speak the classic protocol to one group, and their requests: the part of drivers that is about them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.join import JoinContext
from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.group import Group, Outcome, Pending
from spark_kafka_native._protocol.consumer_protocol import (
    Subscription,
    TopicPartitions,
    read_assignment,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.groups.subscriptions import encode_subscription

GROUP_ID: Final = "g"


@dataclass
class ClassicClient:
    """A consumer that speaks the classic protocol, with cooperative rebalances."""

    member_id: str = ""
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    generation: int = -1
    owned: dict[str, list[int]] = field(default_factory=dict)

    def take(self, response: SyncGroupResponse) -> None:
        """Have what SyncGroup says, if it says anything."""
        if response.error_code == ErrorCode.NONE:
            assigned = read_assignment(response.assignment).assigned_partitions if response.assignment else ()
            self.owned = {topic.topic: list(topic.partitions) for topic in assigned}


def _of(client: ClassicClient, **more: Any) -> dict[str, Any]:
    return {"group_id": GROUP_ID, "member_id": client.member_id, "group_instance_id": client.instance_id, **more}


class ClassicRequests:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup, decided by whichever kind of group there is."""

    def __init__(self, context: ConsumerContext) -> None:
        self.context = context
        self._numbers = itertools.count(1)

    def apply(self, decide: Callable[[Group | None, int], Outcome[Any]]) -> Any:
        """Decide and carry out. Raises KafkaError: nothing has changed."""
        raise NotImplementedError

    def classic_join(self, client: ClassicClient, *, version: int = 9, **fields: Any) -> JoinGroupResponse | Pending:
        """JoinGroup, and once more with the id that the first response brings; `Pending` waits for others."""
        metadata = encode_subscription(
            Subscription(
                topics=client.topics,
                owned_partitions=tuple(
                    TopicPartitions(topic=topic, partitions=tuple(parts)) for topic, parts in client.owned.items()
                ),
                generation_id=client.generation,
            ),
            3,
        )
        protocols = (JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata),)
        wanted = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer", **fields}
        request = JoinGroupRequest(**_of(client, protocols=protocols) | wanted)
        number = next(self._numbers)
        join_context = JoinContext(
            version=version, client_id="old", client_host="/127.0.0.1", fresh_id=str(number), request_id=number
        )
        response = self.apply(
            lambda group, now_ms: decisions.join(group, request, join_context, self.context.classic, now_ms)
        )
        assert isinstance(response, JoinGroupResponse | Pending)
        if isinstance(response, JoinGroupResponse):
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
                return self.classic_join(client, version=version, **fields)
            if response.error_code == ErrorCode.NONE:
                client.member_id, client.generation = response.member_id, response.generation_id
        return response

    def classic_code(self, client: ClassicClient, **fields: Any) -> ErrorCode:
        """JoinGroup; the error code of the response, which must be there, or of the refusal."""
        try:
            response = self.classic_join(client, **fields)
        except KafkaError as error:
            return error.code
        assert isinstance(response, JoinGroupResponse)
        return ErrorCode.of(response.error_code)

    def classic_sync(self, client: ClassicClient, **fields: Any) -> SyncGroupResponse | Pending:
        """SyncGroup; the client takes what it gets, if the response does not wait for the leader."""
        wanted = {"protocol_type": "consumer", "protocol_name": "cooperative-sticky", **fields}
        request = SyncGroupRequest(**_of(client, generation_id=client.generation) | wanted)
        number = next(self._numbers)
        response = self.apply(lambda group, now_ms: decisions.sync(group, request, number, now_ms))
        assert isinstance(response, SyncGroupResponse | Pending)
        if isinstance(response, SyncGroupResponse):
            client.take(response)
        return response

    def classic_beat(self, client: ClassicClient, **fields: Any) -> ErrorCode:
        """Heartbeat; its error code."""
        request = HeartbeatRequest(**_of(client, generation_id=client.generation) | fields)
        return ErrorCode.of(self.apply(lambda group, now_ms: decisions.heartbeat(group, request, now_ms)).error_code)

    def classic_round(self, client: ClassicClient) -> None:
        """What a classic client does: heartbeat; in a rebalance join and sync, until there is nothing more."""
        while self.classic_beat(client) is ErrorCode.REBALANCE_IN_PROGRESS:
            self.classic_join(client)
            self.classic_sync(client)

    def classic_leave(self, *members: MemberIdentity) -> list[ErrorCode]:
        """LeaveGroup; an error code per member."""
        request = LeaveGroupRequest(group_id=GROUP_ID, members=members)
        response = self.apply(lambda group, now_ms: decisions.leave(group, request, now_ms))
        return [ErrorCode.of(member.error_code) for member in response.members]
