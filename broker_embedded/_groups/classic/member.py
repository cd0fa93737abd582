"""The members of a classic group, and the topics that consumers among them subscribe to."""

import struct as _struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_kafka_native._protocol.codec import decoder
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroupMember
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from spark_kafka_native._protocol.schema import Struct, struct
from spark_kafka_native._protocol.wire import String

_VERSION_BYTES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member as of its last JoinGroup.

    ``join_request_id`` and ``sync_request_id`` are set while its JoinGroup or SyncGroup is pending. ``is_new`` holds
    from the first JoinGroup to the end of the rebalance it joined: the member may not know its id yet, so that it
    cannot send heartbeats.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]
    assignment: bytes = b""
    join_request_id: int | None = None
    sync_request_id: int | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        """Whether it has an id that outlives its process (KIP-345)."""
        return self.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        """Whether its JoinGroup is pending."""
        return self.join_request_id is not None

    @property
    def must_heartbeat(self) -> bool:
        """Whether its session can time out: a pending request counts as a heartbeat, except that of a new member."""
        return self.is_new or (self.join_request_id is None and self.sync_request_id is None)

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for a protocol that it supports."""
        return next(found.metadata for found in self.protocols if found.name == protocol)

    def supports(self, protocol: str) -> bool:
        """Whether it supports a protocol."""
        return any(found.name == protocol for found in self.protocols)

    def vote(self, candidates: Collection[str]) -> str:
        """Its preferred protocol among the candidates, of which it supports at least one."""
        return next(found.name for found in self.protocols if found.name in candidates)

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """Its description, with metadata if the group has a protocol."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )


def static_member(members: Mapping[str, ClassicMember], instance_id: str) -> ClassicMember | None:
    """The static member with this instance id."""
    return next((member for member in members.values() if member.instance_id == instance_id), None)


def require_member(members: Mapping[str, ClassicMember], member_id: str, instance_id: str | None) -> ClassicMember:
    """A member by its ids.

    Raises KafkaError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, another process has replaced it.
    """
    if instance_id is not None:
        static = static_member(members, instance_id)
        if static is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no member {instance_id!r}")
        if static.member_id != member_id:
            detail = f"instance {instance_id!r} is member {static.member_id!r}, not {member_id!r}"
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, detail)
    member = members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no member {member_id!r}")
    return member


def as_join_response(members: Mapping[str, ClassicMember], protocol: str) -> tuple[JoinGroupResponseMember, ...]:
    """All members with their metadata for the chosen protocol, as the leader gets them."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol),
        )
        for member in members.values()
    )


@struct
class _Subscription(Struct):
    """The first field of a consumer's metadata, after int16 version; the same in all versions."""

    topics: tuple[String, ...] = ()


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of the consumers subscribes to; None if the metadata of one is malformed."""
    topics: set[str] = set()
    try:
        for raw in metadata:
            subscription, _ = decoder(_Subscription, 0, False)(memoryview(raw), _VERSION_BYTES)
            assert isinstance(subscription, _Subscription)
            topics.update(subscription.topics)
    except (_struct.error, RemoteProtocolError):
        return None
    return frozenset(topics)
