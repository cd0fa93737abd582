"""Subscriptions and assignments of the classic group protocol (Kafka's ``ConsumerProtocol``).

    subscription  =  int16 version | topics | user data | v1: what it owns | v2: generation | v3: rack
    assignment    =  int16 version | partitions | user data

Brokers hand both on without a look, unless they must know who reads what. A version that is not known here is read as
the last one that is: later ones only append.
"""

import struct as _struct
from typing import Final, TypeVar

from spark_kafka_native._protocol.codec import decoder, encoder
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.wire import Buffer, Bytes, Int32, Splices, String

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of classic groups whose members say this to each other."""
_LATEST: Final = 3
_VERSION = _struct.Struct(">h")
StructT = TypeVar("StructT", bound=Struct)


class MalformedEmbedded(RemoteProtocolError):
    """The bytes are no subscription or assignment. The message around them is complete."""


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@struct
class Subscription(Struct):
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: tuple[String, ...] = ()
    user_data: Bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = field("1+", default=(), ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: String | None = field("3+", default=None, ignorable=True)


@struct
class Assignment(Struct):
    """The partitions that are assigned to a member."""

    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: Bytes | None = None


def read_subscription(raw: Buffer) -> Subscription:
    """Raises MalformedEmbedded."""
    return _read(Subscription, raw)


def read_assignment(raw: Buffer) -> Assignment:
    """Raises MalformedEmbedded."""
    return _read(Assignment, raw)


def version_of(raw: Buffer) -> int:
    """The version that a member speaks. Raises MalformedEmbedded."""
    if len(raw) < _VERSION.size or _VERSION.unpack_from(raw)[0] < 0:
        raise MalformedEmbedded("no version of the embedded consumer protocol")
    version: int = _VERSION.unpack_from(raw)[0]
    return min(version, _LATEST)


def encode_subscription(subscription: Subscription, version: int = _LATEST) -> bytes:
    """The bytes of a subscription."""
    return _encode(subscription, version)


def encode_assignment(assignment: Assignment, version: int = _LATEST) -> bytes:
    """The bytes of an assignment, in a version that the member reads."""
    return _encode(assignment, version)


def _encode(value: Struct, version: int) -> bytes:
    out = bytearray(_VERSION.pack(version))
    encoder(type(value), version, False)(value, out, Splices())
    return bytes(out)


def _read(cls: type[StructT], raw: Buffer) -> StructT:
    try:
        value, _ = decoder(cls, version_of(raw), False)(memoryview(raw), _VERSION.size)
    except (_struct.error, RemoteProtocolError) as error:
        raise MalformedEmbedded(f"a member's {cls.__name__.lower()} cannot be read: {error}") from error
    assert isinstance(value, cls)
    return value
