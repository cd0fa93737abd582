"""How a mirror writes batches to the target cluster: at least once, or exactly once. For the thread of one stream."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.errors import ProducerFenced, TransactionError, TransactionFailed
from spark_kafka_native._client.transactions.requests import GroupMembership
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch

_log = logging.getLogger(__name__)


class Unsettled(Exception):
    """What was sent since the last ``settle`` does not count, and is to be sent again."""


class Delivery(Protocol):
    """Writes batches of one stream."""

    idle_s: float
    """How long to wait for more batches, in seconds, before what was sent is settled."""
    is_transactional: bool
    """Whether what was sent since the last settlement can be given up."""

    def send(self, partition: TopicPartition, batches: Sequence[EncodedBatch]) -> None:
        """Write batches to a partition of the target. Raises Unsettled; KafkaError: another attempt cannot help."""

    def settle(self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity) -> None:
        """Return once everything that was sent is written, and counts.

        ``offsets``: the next ones of the source, under the names of the target. Raises as ``send``.
        """

    def discard(self) -> None:
        """Give up what was sent since the last ``settle``, as far as possible."""

    def close(self) -> None:
        """Give the connections back. What was not settled is given up."""


class AtLeastOnce:
    """Acknowledged batches count, and offsets are committed later: after an error, some are written again."""

    idle_s = 0.005
    is_transactional = False

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._producer = Producer(target)

    def send(self, partition: TopicPartition, batches: Sequence[EncodedBatch]) -> None:
        """As ``Delivery.send``."""
        self._producer.send_batches(partition, batches)

    def settle(
        self,
        offsets: Mapping[TopicPartition, int],  # noqa: ARG002 -- the group commits them
        identity: MemberIdentity,  # noqa: ARG002 -- as above
    ) -> None:
        """As ``Delivery.settle``."""
        self._producer.flush()

    def discard(self) -> None:
        """As ``Delivery.discard``: what is in flight may still be written."""
        self._producer.abort()
        self._producer = Producer(self._target)

    def close(self) -> None:
        """As ``Delivery.close``."""
        self._producer.abort()


class ExactlyOnce:
    """Batches and the offsets after them are committed in transactions of the target (KIP-98, KIP-447).

    The group's coordinator fences a member that has lost its partitions, because it is in the target cluster, too.
    """

    idle_s = 0.02
    is_transactional = True

    def __init__(self, target: Cluster, group_id: str, transactional_id: str, *, is_unique: bool) -> None:
        """``is_unique``: no other producer can have the id, so one that is fenced was too late for its transaction."""
        self._is_unique = is_unique
        self._target = target
        self._group_id = group_id
        self._transactional_id = transactional_id
        self._producer = TransactionalProducer(target, transactional_id)
        self._is_open = False
        self._leaves_open = False
        """Whether a transaction of an earlier epoch may be open, which makes the offsets of the group unstable."""

    def send(self, partition: TopicPartition, batches: Sequence[EncodedBatch]) -> None:
        """As ``Delivery.send``."""

        def send() -> None:
            if not self._is_open:
                self._begin()
            self._producer.send_batches(partition, batches)

        self._try(send)

    def settle(self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity) -> None:
        """As ``Delivery.settle``."""
        member = GroupMembership(
            member_id=identity.member_id, generation_id=identity.generation, instance_id=identity.instance_id
        )

        def commit() -> None:
            self._producer.flush()
            self._producer.send_offsets(self._group_id, offsets, member)
            self._producer.commit()
            self._is_open = False

        self._try(commit)

    def discard(self) -> None:
        """As ``Delivery.discard``."""
        if self._is_open:
            self._try_to_abort()
        if self._leaves_open:
            self._begin()

    def close(self) -> None:
        """As ``Delivery.close``."""
        self._producer.close()

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except TransactionError as error:
            if isinstance(error, ProducerFenced) and not self._is_unique:
                raise  # another mirror has the same transactional id
            _log.warning("%s; its records are sent again", error)
            if isinstance(error, TransactionFailed):
                self._try_to_abort()
            else:
                self._begin_again()
            raise Unsettled from error

    def _try_to_abort(self) -> None:
        try:
            self._producer.abort()
            self._is_open = False
        except KafkaError as error:
            _log.warning("%s; another producer continues", error)
            self._begin_again()

    def _begin(self) -> None:
        self._producer.begin()
        self._is_open, self._leaves_open = True, False

    def _begin_again(self) -> None:
        """Continue with another epoch, whose initialisation ends the last transaction."""
        self._producer.close()
        self._producer = TransactionalProducer(self._target, self._transactional_id)
        self._is_open, self._leaves_open = False, True
