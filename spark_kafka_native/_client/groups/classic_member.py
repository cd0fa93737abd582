"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-62, KIP-345, KIP-394, KIP-429).

    join --response--> leader: assign --> sync --assignment--> heartbeats --REBALANCE_IN_PROGRESS--> join
      ^                                                            |
      +---------------- the member's topics have changed ----------+

Eager assignors: all partitions are given up before each JoinGroup. ``cooperative-sticky`` alone: a member keeps its
partitions, gives up those that are not in its new assignment, and joins once more if there were any.
"""

import logging
import math
import time
from collections.abc import Iterable
from typing import Final

from spark_kafka_native._client.groups.assignors import ASSIGNORS, COOPERATIVE_STICKY, SubscribedMember
from spark_kafka_native._client.groups.member_loop import MemberLoop
from spark_kafka_native._client.groups.member_metadata import (
    decode_member,
    decode_partitions,
    encode_member,
    encode_partitions,
)
from spark_kafka_native._client.groups.membership import NO_GENERATION, MemberIdentity, Topics
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL, MalformedEmbedded
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RestatedError, check_code
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest
from spark_kafka_native._protocol.messages.leave_group import MemberIdentity as LeavingMember
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from spark_kafka_native._protocol.topic import TopicPartition, listed

_log = logging.getLogger(__name__)

_JOIN_GRACE_MS: Final = 5_000
"""A rebalance may end at the rebalance timeout of a member that was as slow; its response comes after that."""
_JOIN_TRIES: Final = 3
"""The coordinator answers the first JoinGroup of a member with its id (KIP-394). It requires no more than two."""
_LEAVE_MS: Final = 2_000
_LEAVING_MEMBERS_SINCE: Final = 3


class ClassicMembership:
    """One member of a classic group. All methods but ``identity`` belong to the thread of ``run``."""

    def __init__(self, loop: MemberLoop, topics: Topics) -> None:
        self._loop = loop
        self._config = loop.config
        self._topics = topics
        self.identity = MemberIdentity(instance_id=self._config.instance_id)
        self._is_cooperative = self._config.assignors == (COOPERATIVE_STICKY,)
        self._is_joined = False
        self._joined_topics: frozenset[str] = frozenset()
        self._led: tuple[frozenset[str], dict[str, int]] | None = None
        """The topics of all members, and their partitions that the leader has assigned; None: another is the leader."""
        self._assigned: frozenset[TopicPartition] | None = None
        """The assignment of the last SyncGroup response; None: it has been carried out."""
        self._previous: frozenset[TopicPartition] = frozenset()
        """The assignment of the last SyncGroup response. Eager members have given it up when they join again."""
        self._previous_generation = NO_GENERATION
        self._heartbeat_at = math.inf

    def run(self) -> None:
        """As ``Membership.run``; FENCED_INSTANCE_ID is an error."""
        self._loop.run(self)

    # --- GroupProtocol

    def step(self) -> None:
        """As ``GroupProtocol.step``."""
        if not self._is_joined:
            self._rebalance()
        if self._assigned is not None:
            self._reconcile(self._assigned)
        self._loop.hold(self, lambda: not self._is_joined)

    def heartbeat_if_due(self, now: float) -> float:
        """As ``GroupProtocol.heartbeat_if_due``. Nothing is sent before the first rebalance."""
        if now >= self._heartbeat_at:
            self._heartbeat()
            self._is_joined = self._is_joined and not self._has_changed()
        return self._heartbeat_at

    def rejoin(self) -> None:
        """As ``GroupProtocol.rejoin``."""
        self._is_joined, self._heartbeat_at, self._assigned = False, math.inf, None
        self._set_identity(self.identity.member_id, NO_GENERATION)

    def forget(self) -> None:
        """As ``GroupProtocol.forget``."""
        self.rejoin()
        self._set_identity("", NO_GENERATION)

    def leave(self) -> None:
        """As ``GroupProtocol.leave``. A static member does not leave: its partitions wait for it."""
        identity = self.identity
        if identity.instance_id is not None or not identity.member_id:
            return

        def request(connection: Connection) -> LeaveGroupRequest:
            if connection.version_of(LeaveGroupRequest) < _LEAVING_MEMBERS_SINCE:
                return LeaveGroupRequest(group_id=self._config.group_id, member_id=identity.member_id)
            leaving = LeavingMember(member_id=identity.member_id, reason="the consumer is closed or stalled")
            return LeaveGroupRequest(group_id=self._config.group_id, members=(leaving,))

        self._loop.link.ask(request, timeout_ms=_LEAVE_MS)

    # --- rebalances

    def _rebalance(self) -> None:
        """Join, and get an assignment, unless a record is in process for too long. Raises KafkaError; Interrupted."""
        owned = frozenset(self._loop.reader.owned)
        kept: frozenset[TopicPartition] = frozenset()
        if self._is_cooperative:
            # After an error in `_reconcile` partitions may be stopped that the next assignment would keep.
            kept = owned if self._assigned is None else self._assigned
        self._loop.revoke(self, owned - kept)
        if self._loop.leave_if_stalled(self):
            return
        try:
            assigned = self._sync(self._join())
        except MalformedEmbedded as error:
            detail = f"group {self._config.group_id}: {error}"
            raise RestatedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail) from error
        if foreign := {part.topic for part in assigned} - self._joined_topics:
            # As Kafka's consumers: the subscription may have changed since another member made the assignment.
            named = f"group {self._config.group_id}: member {self.identity.member_id}"
            detail = f"{named} was assigned partitions of topics to which it does not subscribe: {listed(foreign)}"
            _log.warning("%s; it joins again", detail)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
        self._assigned, self._is_joined = assigned, True

    def _reconcile(self, assigned: frozenset[TopicPartition]) -> None:
        """Give up and add partitions. Raises KafkaError: the next step continues; Interrupted."""
        reader = self._loop.reader
        self.heartbeat_if_due(time.monotonic())
        owned = set(reader.owned)
        revoked = owned - assigned
        self._loop.revoke(self, revoked)
        if revoked:
            self._is_joined = False  # also if `assign` fails: other members wait for these partitions
        reader.assign(assigned - owned)
        self._assigned = None
        text = "group %s: member %s of generation %d has %d partitions"
        _log.info(text, self._config.group_id, self.identity.member_id, self.identity.generation, len(assigned))

    def _join(self) -> JoinGroupResponse:
        config = self._config
        self._joined_topics = self._topics.subscribed()
        owned = list(self._loop.reader.owned)
        protocols = tuple(
            JoinGroupRequestProtocol(
                name=name,
                metadata=encode_member(
                    name,
                    self._joined_topics,
                    owned=owned,
                    previous=sorted(self._previous),
                    generation=self._previous_generation,
                    rack=config.rack,
                ),
            )
            for name in config.assignors
        )
        for _ in range(_JOIN_TRIES):
            request = JoinGroupRequest(
                group_id=config.group_id,
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.rebalance_timeout_ms,
                member_id=self.identity.member_id,
                group_instance_id=config.instance_id,
                protocol_type=CONSUMER_PROTOCOL,
                protocols=protocols,
            )
            timeout_ms = max(config.rebalance_timeout_ms + _JOIN_GRACE_MS, config.request_timeout_ms)
            response = self._loop.link.ask(request, timeout_ms=timeout_ms)
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            self._set_identity(response.member_id, NO_GENERATION)
        self._check(response.error_code)
        self._set_identity(response.member_id, response.generation_id)
        return response

    def _sync(self, joined: JoinGroupResponse) -> frozenset[TopicPartition]:
        """The member's assignment; the leader makes those of all members."""
        self._led = None
        is_leader = joined.leader == joined.member_id
        assignments = tuple(self._assign(joined)) if is_leader else ()
        request = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=self.identity.generation,
            member_id=self.identity.member_id,
            group_instance_id=self._config.instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        response = self._loop.link.ask(request, timeout_ms=self._config.rebalance_timeout_ms)
        self._check(response.error_code)
        self._heartbeat_at = time.monotonic() + self._config.heartbeat_interval_ms / 1000
        self._previous = frozenset(decode_partitions(response.assignment))
        self._previous_generation = self.identity.generation
        return self._previous

    def _assign(self, joined: JoinGroupResponse) -> Iterable[SyncGroupRequestAssignment]:
        assignor = joined.protocol_name or ""
        members: dict[str, SubscribedMember] = {
            member.member_id: decode_member(assignor, member.metadata, member.group_instance_id)
            for member in joined.members
        }
        topics = frozenset(topic for member in members.values() for topic in member.topics)
        counts = self._topics.partition_counts(topics)
        self._led = topics, counts
        if joined.skip_assignment:  # a static member has restarted (KIP-814); the assignment of before is kept
            return
        for member_id, partitions in ASSIGNORS[assignor](members, counts).items():
            yield SyncGroupRequestAssignment(member_id=member_id, assignment=encode_partitions(partitions))

    # --- between rebalances

    def _heartbeat(self) -> None:
        self._heartbeat_at = time.monotonic() + self._config.heartbeat_interval_ms / 1000
        request = HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=self.identity.generation,
            member_id=self.identity.member_id,
            group_instance_id=self._config.instance_id,
        )
        response = self._loop.link.ask(request, timeout_ms=self._config.request_timeout_ms)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._is_joined = False
        else:
            self._check(response.error_code)

    def _has_changed(self) -> bool:
        """Whether the member's topics are others than when it joined, or have other partitions than it assigned."""
        if not self._topics.is_outdated():
            return False
        if self._topics.subscribed() != self._joined_topics:
            return True
        if self._led is None:
            return False
        topics, counts = self._led
        return self._topics.partition_counts(topics) != counts

    def _set_identity(self, member_id: str, generation: int) -> None:
        self.identity = MemberIdentity(member_id=member_id, generation=generation, instance_id=self._config.instance_id)

    def _check(self, error_code: int) -> None:
        check_code(error_code, self._config.about(error_code), operation="READ")
