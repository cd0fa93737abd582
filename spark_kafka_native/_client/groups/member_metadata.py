"""The metadata of members in JoinGroup, and the assignments in SyncGroup, of classic groups."""

import struct as _struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from spark_kafka_native._client.groups.assignors import COOPERATIVE_STICKY, STICKY, SubscribedMember
from spark_kafka_native._protocol.codec import decoder, encoder
from spark_kafka_native._protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
    read_assignment,
    read_subscription,
)
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.topic import TopicPartition, by_topic
from spark_kafka_native._protocol.wire import Buffer, Int32, Splices

StructT = TypeVar("StructT", bound=Struct)

_UNKNOWN_GENERATION: Final = -1


@struct
class _StickyUserData(Struct):
    """Of Kafka's StickyAssignor; v0 has no generation."""

    previous_assignment: tuple[TopicPartitions, ...] = ()
    generation: Int32 = field("1+", default=_UNKNOWN_GENERATION)


@struct
class _CooperativeUserData(Struct):
    """Of Kafka's CooperativeStickyAssignor, for leaders that do not read subscriptions of v2."""

    generation: Int32 = _UNKNOWN_GENERATION


def encode_member(
    assignor: str,
    topics: Iterable[str],
    *,
    owned: Sequence[TopicPartition] = (),
    previous: Sequence[TopicPartition] = (),
    generation: int = _UNKNOWN_GENERATION,
    rack: str | None = None,
) -> bytes:
    """A member's metadata in JoinGroup, for one of its assignors.

    ``owned``: the partitions that it has not given up. ``previous``: those that it had in ``generation``.
    """
    user_data: bytes | None = None
    if assignor == STICKY:
        user_data = _encode(_StickyUserData(previous_assignment=_grouped(previous), generation=generation), 1)
    elif assignor == COOPERATIVE_STICKY:
        user_data = _encode(_CooperativeUserData(generation=generation), 0)
    subscription = Subscription(
        topics=tuple(sorted(topics)),
        user_data=user_data,
        owned_partitions=_grouped(owned),
        generation_id=generation,
        rack_id=rack,
    )
    return encode_subscription(subscription)


def decode_member(assignor: str, metadata: Buffer, instance_id: str | None) -> SubscribedMember:
    """What a member's metadata says about it. Raises MalformedEmbedded.

    User data that cannot be read is ignored, as Kafka's assignors do: the member has no previous assignment.
    """
    subscription = read_subscription(metadata)
    owned, generation = subscription.owned_partitions, subscription.generation_id
    if assignor == STICKY:
        owned, generation = _sticky_user_data(subscription.user_data)
    elif assignor == COOPERATIVE_STICKY and generation == _UNKNOWN_GENERATION and subscription.user_data:
        found = _read(_CooperativeUserData, subscription.user_data, 0)
        generation = _UNKNOWN_GENERATION if found is None else found.generation
    return SubscribedMember(
        topics=frozenset(subscription.topics),
        owned=_flat(owned),
        generation=generation,
        instance_id=instance_id,
    )


def encode_partitions(partitions: Sequence[TopicPartition]) -> bytes:
    """A member's assignment in SyncGroup."""
    return encode_assignment(Assignment(assigned_partitions=_grouped(partitions)))


def decode_partitions(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none of an empty one. Raises MalformedEmbedded."""
    return _flat(read_assignment(assignment).assigned_partitions) if len(assignment) else ()


def _sticky_user_data(raw: Buffer | None) -> tuple[tuple[TopicPartitions, ...], int]:
    if not raw:
        return (), _UNKNOWN_GENERATION
    found = _read(_StickyUserData, raw, 1) or _read(_StickyUserData, raw, 0) or _StickyUserData()
    return found.previous_assignment, found.generation


def _grouped(partitions: Sequence[TopicPartition]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic=name, partitions=tuple(part.partition for part in parts))
        for name, parts in by_topic(partitions).items()
    )


def _flat(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)


def _encode(value: Struct, version: int) -> bytes:
    out = bytearray()
    encoder(type(value), version, False)(value, out, Splices())
    return bytes(out)


def _read(cls: type[StructT], raw: Buffer, version: int) -> StructT | None:
    """The value; None: the bytes are something else."""
    try:
        value, _ = decoder(cls, version, False)(memoryview(raw), 0)
    except (_struct.error, RemoteProtocolError):
        return None
    assert isinstance(value, cls)
    return value
