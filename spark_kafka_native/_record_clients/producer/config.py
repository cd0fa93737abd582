"""Properties of the producer of single records that are not those of ``ClientConfig``, and their older names.

Names and defaults are those of Kafka's Scala producer (0.7 and 0.8), unless today's producer has the property. The
defaults of ``producer.type`` and ``queue.enqueue.timeout.ms`` follow today's producer, which is asynchronous and waits
``max.block.ms``.
"""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from spark_kafka_native._client.config import PROPERTIES as CLIENT_PROPERTIES
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.config_def import (
    INT64_MAX,
    Property,
    ValueType,
    choice,
    define,
    find_function,
    integer,
    properties_of,
)
from spark_kafka_native._client.discovery_config import DiscoveryConfig
from spark_kafka_native._client.partitioning.partitioner_names import LOOKUP, NAMES, TableLocation
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, EventHandler
from spark_kafka_native._record_clients.properties import ClientProperties
from spark_kafka_native._record_clients.serializers import Serializer, default_encoder, serializer

KeyPartitioner = Callable[[Any, int], int]
"""Key before it is serialized, number of partitions -> index into the topic's sorted list of partitions."""

_PARTITIONER: Final = "partitioner.class"
ASYNC: Final = "async"
SYNC: Final = "sync"
_LINGER_MS: Final = 5
"""As Kafka's producer. The default of ``ClientConfig`` is for rows that Spark passes in large batches."""


def _partitioner() -> ValueType:
    def parse(value: object) -> KeyPartitioner | str:
        if callable(value):
            return value
        name = str(value).strip()
        if ":" in name:
            return find_function(name)
        if name.lower() in {*NAMES, LOOKUP}:
            return name.lower()
        try:
            CLIENT_PROPERTIES[_PARTITIONER].type.parse(name)
        except ValueError:
            classes = CLIENT_PROPERTIES[_PARTITIONER].type.legal
            known = f"one of {', '.join((*NAMES, LOOKUP))} or {classes}"
            raise ValueError(f"{name!r} is neither a function, module:function nor {known}") from None
        return name

    return ValueType(f"a function, module:function, one of {', '.join((*NAMES, LOOKUP))}, or a class of Kafka's", parse)


def _handler(base: type) -> ValueType:
    def parse(value: object) -> object:
        found = find_function(value) if isinstance(value, str) else value
        made = found() if isinstance(found, type) else found
        if not isinstance(made, base):
            raise ValueError(f"{made!r:.100} is no {base.__name__}")
        return made

    return ValueType(f"object or class of {base.__name__}, or module:class", parse)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """The properties of one producer of single records."""

    client: ClientConfig
    discovery: DiscoveryConfig
    producer_type: str = define(
        choice((ASYNC, SYNC)),
        ASYNC,
        "async: send() returns a future, and a thread sends; sync: send() returns when brokers have the record.",
    )
    queue_buffering_max_messages: int = define(integer(at_least=1), 10_000, "Most records that wait to be sent.")
    queue_enqueue_timeout_ms: int = define(
        integer(at_least=-1),
        60_000,
        "Longest wait of send() while the queue is full, before QueueFull; 0: none, so that records are dropped; "
        "-1: no limit.",
    )
    batch_num_messages: int = define(
        integer(at_least=1), 200, "So many waiting records are sent without waiting for linger.ms."
    )
    key_serializer: Serializer = define(serializer(), default_encoder, "Makes the bytes of keys.")
    value_serializer: Serializer = define(serializer(), default_encoder, "Makes the bytes of values.")
    partitioner_class: KeyPartitioner | str | None = define(
        _partitioner(),
        None,
        "Assigns partitions to records without one. A function gets a record's key and the number of partitions, and "
        "returns an index into the topic's sorted partitions; it is not called for records without a key.",
    )
    lookup_table: TableLocation | None = define(
        ValueType("topic:NAME or file:/PATH", lambda value: TableLocation.parse(str(value))),
        None,
        "Where the tables of partitioner.class=lookup are; a table is read again after metadata.max.age.ms.",
    )
    event_handler: EventHandler | None = define(
        _handler(EventHandler), None, "Receives the records that the sending thread takes from the queue."
    )
    callback_handler: CallbackHandler | None = define(
        _handler(CallbackHandler), None, "Is called at each stage of a record."
    )

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> Self:
        """Options by Kafka name (any case) -> a checked configuration.

        Raises ConfigError naming the option; TypeError: ``options`` is no mapping.
        """
        with _NAMES.naming(options):
            values, others = _NAMES.parse(options)
            partitioner = values.get("partitioner_class")
            if partitioner == LOOKUP and "lookup_table" not in values:
                raise ConfigError("lookup.table", f"is required with {_PARTITIONER}={LOOKUP}: topic:NAME or file:/PATH")
            if partitioner != LOOKUP and "lookup_table" in values:
                raise ConfigError("lookup.table", f"requires {_PARTITIONER}={LOOKUP}")
            if isinstance(partitioner, str) and partitioner not in {*NAMES, LOOKUP}:
                others[_PARTITIONER] = values.pop("partitioner_class")  # a class of Kafka's, or an error
            if "transactional.id" in others:
                raise ConfigError("transactional.id", "is not supported: this producer has no transactions")
            others.setdefault("linger.ms", _LINGER_MS)
            discovery, client = DiscoveryConfig.parse(others)
        return cls(client=client, discovery=discovery, **values)


PROPERTIES: Final[Mapping[str, Property]] = MappingProxyType(dict(properties_of(ProducerConfig)))
"""The properties above by name."""

_OLD_VALUES: Final = {
    ("compression.codec", "0"): "none",
    ("compression.codec", "1"): "gzip",
    ("compression.codec", "2"): "snappy",
    ("compression.codec", "3"): "lz4",
    ("topic.metadata.refresh.interval.ms", "-1"): INT64_MAX,  # after errors only
}
"""Values of old properties that today's properties have in another form."""

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "buffer.size": "send.buffer.bytes",
        "compression.codec": "compression.type",
        "connect.timeout.ms": "socket.connection.setup.timeout.ms",
        "key.serializer.class": "key.serializer",
        "max.message.size": "max.request.size",
        "message.send.max.retries": "retries",
        "queue.buffering.max.ms": "linger.ms",
        "queue.enqueuetimeout.ms": "queue.enqueue.timeout.ms",
        "queue.size": "queue.buffering.max.messages",
        "queue.time": "linger.ms",
        "request.required.acks": "acks",
        "serializer.class": "value.serializer",
        "socket.timeout.ms": "request.timeout.ms",
        "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    }
)
"""Names of the Scala producers of Kafka 0.7 and 0.8, with today's; ``DiscoveryConfig`` has those of brokers.

0.7's batch.size, a number of records, is ``batch.num.messages``; ``batch.size`` is a number of bytes, as today.
"""


OLD_NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "compression.codec": ", also as 0 (none), 1 (gzip), 2 (snappy) or 3 (lz4)",
        "serializer.class": ", and `key.serializer` if that is not set",
        "topic.metadata.refresh.interval.ms": "; -1: only after errors",
    }
)
"""What else an old name means, for the documentation."""

_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "callback.handler.props": "pass an object of the class in callback.handler",
        "compressed.topics": "compression.type is for all topics of a producer",
        "event.handler.props": "pass an object of the class in event.handler",
        "reconnect.interval": "connections are replaced only after an error",
        "reconnect.time.interval.ms": "connections are replaced only after an error",
    }
)
"""Properties of the Scala producers that are errors, and why."""


_NAMES: Final = ClientProperties(
    client="producer",
    own=PROPERTIES,
    old_names=OLD_NAMES,
    old_values=_OLD_VALUES,
    refused=_REFUSED,
    copied={"serializer.class": "key.serializer"},  # as in 0.8
)
