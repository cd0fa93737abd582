"""A member of a group of the consumer protocol (KIP-848): the coordinator assigns, heartbeats carry all changes.

    heartbeat of epoch 0 --> epoch and assignment --> partitions given up and added --> heartbeat with the owned ones

A partition is assigned to a member only after its earlier owner has sent a heartbeat without it.
"""

import logging
import time
import uuid
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from spark_kafka_native._client.groups.member_loop import MemberLoop
from spark_kafka_native._client.groups.membership import MemberIdentity, Topics
from spark_kafka_native._client.groups.subscribed_topics import longest_metadata_ms
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RestatedError
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

_log = logging.getLogger(__name__)

_JOINS: Final = 0
_LEAVES: Final = -1
_LEAVES_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves: its partitions wait for it."""
_LEAVE_MS: Final = 2_000
_SHORTEST_INTERVAL_MS: Final = 100
"""Between two heartbeats, also if the coordinator sends a shorter interval, which may be 0 or negative."""


class ConsumerProtocolMembership:
    """One member of a group of the consumer protocol. All methods but ``identity`` belong to the thread of ``run``."""

    def __init__(self, loop: MemberLoop, topics: Topics) -> None:
        self._loop = loop
        self._config = loop.config
        self._topics = topics
        self._member_id = str(uuid.uuid4())
        self.identity = self._identity_of(_JOINS)
        self._sends_all = True
        """Whether the next heartbeat sends all fields, because the response to an earlier one was lost."""
        self._heartbeat_at = 0.0
        self._interval_s = 0.0
        self._target: frozenset[tuple[UUID, int]] | None = None
        """The assignment of the last response that had one; None: it has been carried out."""
        self._sent_topics: frozenset[str] = frozenset()
        self._sent_owned: frozenset[TopicPartition] = frozenset()

    def run(self) -> None:
        """As ``Membership.run``."""
        self._loop.run(self)

    # --- GroupProtocol

    def step(self) -> None:
        """As ``GroupProtocol.step``."""
        if self._target is not None:
            self._reconcile(self._target)
        self._loop.hold(self, lambda: self._target is not None)

    def heartbeat_if_due(self, now: float) -> float:
        """As ``GroupProtocol.heartbeat_if_due``."""
        if now >= self._heartbeat_at:
            self._heartbeat()
        return self._heartbeat_at

    def rejoin(self) -> None:
        """As ``GroupProtocol.rejoin``. The member keeps its id, which it has made itself."""
        self.identity = self._identity_of(_JOINS)
        self._sends_all, self._heartbeat_at, self._target = True, 0.0, None

    def forget(self) -> None:
        """As ``GroupProtocol.forget``, with the same id."""
        self.rejoin()

    def leave(self) -> None:
        """As ``GroupProtocol.leave``. The partitions of a static member wait for it."""
        epoch = _LEAVES if self._config.instance_id is None else _LEAVES_FOR_A_WHILE
        if self.identity.generation > _JOINS:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._config.group_id,
                member_id=self._member_id,
                member_epoch=epoch,
                instance_id=self._config.instance_id,
            )
            self._check(self._loop.link.ask(request, timeout_ms=_LEAVE_MS))

    # --- heartbeats

    def _heartbeat(self) -> None:
        sends_all, config = self._sends_all, self._config
        topics = self._topics.subscribed() if sends_all or self._topics.is_outdated() else self._sent_topics
        owned = frozenset(self._loop.reader.owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            member_epoch=self.identity.generation,
            instance_id=config.instance_id,
            rack_id=config.rack if sends_all else None,
            rebalance_timeout_ms=config.rebalance_timeout_ms if sends_all else -1,
            subscribed_topic_names=tuple(sorted(topics)) if sends_all or topics != self._sent_topics else None,
            server_assignor=config.remote_assignor if sends_all else None,
            topic_partitions=self._numbered(owned) if sends_all or owned != self._sent_owned else None,
        )
        self._sends_all = True
        try:
            response = self._loop.link.ask(request, timeout_ms=config.request_timeout_ms, finishes=True)
            self._check(response)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                detail = f"group {config.group_id}: the broker does not support group.protocol=consumer; Kafka 4.0 does"
                raise RestatedError(error.code, detail) from error
            raise
        self._sent_topics, self._sent_owned, self._sends_all = topics, owned, False
        self._interval_s = max(response.heartbeat_interval_ms, _SHORTEST_INTERVAL_MS) / 1000
        self._heartbeat_at = time.monotonic() + self._interval_s
        self.identity = self._identity_of(response.member_epoch)
        if response.assignment is not None:
            self._target = _assigned(response.assignment)

    def _reconcile(self, target: frozenset[tuple[UUID, int]]) -> None:
        """Give up and add partitions, and send a heartbeat at once. Raises KafkaError; Interrupted."""
        self.heartbeat_if_due(time.monotonic())
        if self._target is not target:
            return  # the next step has the later one, perhaps without a topic that was deleted
        names = self._names({topic_id for topic_id, _ in target})
        unknown = {topic_id for topic_id, _ in target if topic_id not in names}
        if unknown:
            detail = f"group {self._config.group_id}: topic ids {', '.join(map(str, unknown))} were assigned"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, detail)
        wanted = {TopicPartition(names[topic_id], number) for topic_id, number in target}
        owned = set(self._loop.reader.owned)
        if revoked := owned - wanted:
            self._loop.revoke(self, revoked)
        if self._target is target:  # else a heartbeat meanwhile had a later one
            self._loop.reader.assign(wanted - owned)
            self._target = None
            text = "group %s: member %s of epoch %d has %d partitions"
            _log.info(text, self._config.group_id, self._member_id, self.identity.generation, len(wanted))
        self._heartbeat_at = 0.0

    def _names(self, topic_ids: set[UUID]) -> dict[UUID, str]:
        cluster = self._loop.link.cluster
        known = {topic_id: name for name, topic_id in cluster.topic_ids_in_memory(self._sent_topics).items()}
        if not topic_ids <= known.keys():
            timeout_ms = longest_metadata_ms(cluster)
            found = cluster.metadata(sorted(self._sent_topics), missing_ok=True, timeout_ms=timeout_ms).topics.values()
            known = {topic.topic_id: topic.name for topic in found if topic.error is ErrorCode.NONE}
        return known

    def _numbered(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
        """The partitions by the ids of their topics."""
        names = by_topic(sorted(partitions))
        topic_ids = self._loop.link.cluster.topic_ids_in_memory(names)
        return tuple(
            TopicPartitions(topic_id=topic_ids[name], partitions=tuple(part.partition for part in parts))
            for name, parts in names.items()
            if name in topic_ids
        )

    def _identity_of(self, epoch: int) -> MemberIdentity:
        return MemberIdentity(member_id=self._member_id, generation=epoch, instance_id=self._config.instance_id)

    def _check(self, response: ConsumerGroupHeartbeatResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            detail = self._config.about(code)
            if response.error_message:
                detail += f": {response.error_message}"
            raise KafkaError(code, detail, operation="READ")


def _assigned(assignment: Assignment) -> frozenset[tuple[UUID, int]]:
    return frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)
