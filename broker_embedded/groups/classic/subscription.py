"""What consumers say about themselves when they join a classic group: only which topics they read.

    metadata  =  int16 version | array of topic names | more, by the version

Every version begins like the first, so that this much can be read of all of them.
"""

import struct as _struct
from collections.abc import Iterable

from spark_kafka_native.protocol.codec import codec
from spark_kafka_native.protocol.errors import RemoteProtocolError
from spark_kafka_native.protocol.schema import Struct, struct
from spark_kafka_native.protocol.wire import String

_VERSION_BYTES = 2


@struct
class _Subscription(Struct):
    topics: tuple[String, ...] = ()


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that any of the members reads; None: one of them says it in a way that is not understood."""
    topics: set[str] = set()
    try:
        for raw in metadata:
            subscription, _ = codec(_Subscription, 0, False)[1](memoryview(raw), _VERSION_BYTES)
            assert isinstance(subscription, _Subscription)
            topics.update(subscription.topics)
    except (_struct.error, RemoteProtocolError):
        return None
    return frozenset(topics)
