"""The names of partitioners, and where look-up tables are; without numpy and pyarrow, which the driver does not need.

=====================  ===================  ======================  ========================================
Name                   Rows with a key      Rows without            The same as
=====================  ===================  ======================  ========================================
``default``            murmur2 of the key   sticky                  Java's default, and librdkafka's
                                                                    murmur2_random for rows with a key
``murmur2``            murmur2 of the key   one partition           librdkafka's murmur2
``murmur2_random``     murmur2 of the key   at random               librdkafka's murmur2_random
``consistent``         CRC-32 of the key    one partition           librdkafka's consistent
``consistent_random``  CRC-32 of the key    at random, and so are   librdkafka's default; kcat, confluent-kafka,
                                            rows with an empty key  node-rdkafka and rdkafka therefore
``fnv1a``              FNV-1a of the key    one partition           librdkafka's fnv1a
``fnv1a_random``       FNV-1a of the key    at random               librdkafka's fnv1a_random, Go's Sarama
``random``             at random            at random               librdkafka's random
``round_robin``        in turn              in turn                 Java's RoundRobinPartitioner
``sticky``             sticky               sticky                  Java's UniformStickyPartitioner
``string_hash``        String.hashCode      at random               DefaultPartitioner of producers of Kafka 0.7 and
                                                                    0.8.2 (kafka.producer), with keys that are strings
``bytes_hash``         Arrays.hashCode      at random               ByteArrayPartitioner of producers of Kafka 0.8.2
=====================  ===================  ======================  ========================================

``string_hash`` and ``bytes_hash`` take the absolute value of the hash code. Producers of Kafka 0.8.0 and 0.8.1 take its
lower 31 bits instead (KAFKA-1469), so they send keys with a negative hash code to other partitions.

``lookup`` sends rows with a key to partitions by a table of the topic (``bucket_table``), and spreads the others as
``default`` does. ``make_partitioner`` refuses this name, because it needs tables: it takes a ``BucketTables`` instead.

``module:function`` names a function that takes the keys, a ``pyarrow.BinaryArray`` with nulls, and the number of
partitions, and returns as many integers.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from spark_kafka_native._client.config_def import find_function
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, topic_name_problem

DEFAULT: Final = "default"
NAMES: Final = (
    DEFAULT,
    "murmur2",
    "murmur2_random",
    "consistent",
    "consistent_random",
    "fnv1a",
    "fnv1a_random",
    "random",
    "round_robin",
    "sticky",
    "string_hash",
    "bytes_hash",
)

LOOKUP: Final = "lookup"
"""The name of the partitioner whose tables are in an option of their own."""

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class PartitionerError(ValueError):
    """A partitioner cannot be found, or a user's function did not return a partition for each row."""


class LookupTableError(PartitionerError):
    """A look-up table is missing, malformed, or does not fit its topic; or another process changes it."""


def check_partitioner(spec: str) -> str:
    """A partitioner's name in lower case, also ``lookup``, or ``module:function`` as it is.

    Raises PartitionerError: neither, or there is no such function here.
    """
    name = spec.strip()
    if name.lower() in {*NAMES, LOOKUP}:
        return name.lower()
    if not _FUNCTION.fullmatch(name):
        raise PartitionerError(f"{spec!r} is neither module:function nor one of {', '.join((*NAMES, LOOKUP))}")
    partition_function(name)
    return name


def partition_function(spec: str) -> Callable[..., Any]:
    """The function of ``module:function``. Raises PartitionerError: there is none."""
    try:
        return find_function(spec)
    except LookupError as error:
        raise PartitionerError(f"partitioner {spec} cannot be found: {error}") from error
    except TypeError as error:
        raise PartitionerError(f"partitioner {error}") from error


class Kind(StrEnum):
    """What has the tables."""

    TOPIC = "topic"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A compacted topic with a record for each table, or a file with all tables. ``str()`` is the user's form."""

    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError: the text is neither ``topic:NAME`` nor ``file:/PATH``."""
        kind, _, name = text.strip().partition(":")
        if kind == Kind.TOPIC:
            problem = topic_name_problem(name)
            if problem is None and name in INTERNAL_TOPICS:
                problem = f"{name} is an internal topic of Kafka"
            if problem is not None:
                raise ValueError(f"{text!r}: {problem}")
            return cls(Kind.TOPIC, name)
        if kind == Kind.FILE:
            if name.startswith("///"):
                name = name[2:]  # file:///PATH
            if not name.startswith("/") or name.startswith("//"):
                raise ValueError(f"{text!r} must have an absolute path, as file:/var/lib/tables.json")
            return cls(Kind.FILE, name)
        raise ValueError(f"{text!r} must be topic:NAME or file:/PATH")

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"
