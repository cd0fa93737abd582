"""Members of classic groups that speak to a `BrokerDriver` in requests, version by version."""

import asyncio
from collections.abc import Mapping

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker.driver import BrokerDriver
from tests.support.groups.classic_driver import subscription

_IDS_SINCE = 4
INITIAL_DELAY_MS = 3_000


def join_request(
    group_id: str = "g",
    member_id: str = "",
    *,
    protocol_type: str = "consumer",
    protocols: Mapping[str, bytes] | None = None,
    **others: object,
) -> JoinGroupRequest:
    """A JoinGroup of a consumer that reads topic t."""
    fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | others
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in ({"range": subscription("t")} if protocols is None else protocols).items()
        ),
        **fields,  # type: ignore[arg-type]  # by name
    )


def begin_join(
    broker: BrokerDriver, request: JoinGroupRequest, version: int, *, client_id: str = "test"
) -> "asyncio.Task[JoinGroupResponse | None]":
    """Send a JoinGroup that will wait for others."""
    broker.run(broker.broker.groups.make_ready())
    task = broker.begin(request, version, client_id=client_id)
    broker.settle()
    return task


def join(broker: BrokerDriver, version: int = 9, *, group_id: str = "g", **others: object) -> JoinGroupResponse:
    """Join a group that waits for no other member, with an id if required; the response."""
    request = join_request(group_id, **others)  # type: ignore[arg-type]  # by name
    if version >= _IDS_SINCE and request.group_instance_id is None:
        given = broker.ask(request, version)
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request = join_request(group_id, given.member_id, **others)  # type: ignore[arg-type]  # by name
    task = begin_join(broker, request, version)
    broker.advance(INITIAL_DELAY_MS)
    response = task.result()
    assert response is not None
    return response


def stable(broker: BrokerDriver, *, group_id: str = "g", assignment: bytes = b"all", **others: object) -> str:
    """Make a group with one member that is assigned something; its id."""
    response = join(broker, group_id=group_id, **others)  # type: ignore[arg-type]  # by name
    assert response.error_code == ErrorCode.NONE
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=response.generation_id,
        member_id=response.member_id,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignments=(SyncGroupRequestAssignment(member_id=response.member_id, assignment=assignment),),
    )
    assert broker.ask(request, 5).assignment == assignment
    return response.member_id


def heartbeat(broker: BrokerDriver, member_id: str, generation: int = 1, *, group_id: str = "g") -> ErrorCode:
    """One heartbeat; its error code."""
    request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return ErrorCode.of(broker.ask(request, 4).error_code)
