"""Tables for the partitioner ``lookup``: the hash of a key -> one of a fixed number of buckets -> a partition.

    key --murmur2--> hash --modulo the number of buckets--> bucket --table--> partition

Documentation and options call a ``BucketTable`` a look-up table. The number of buckets of a topic never changes, so a
key has the same bucket always. After k partitions were added, ``reorganize`` assigns k/n of the buckets of each old
partition to the new partitions, where n is the new number of partitions. It changes no other bucket.
It is the distribution of MySQL Cluster (a hash map of 3840 buckets). A hash modulo the number of partitions would move
most keys, also between partitions that existed before. Pure: no socket, no file, no clock.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, Self

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.partitioning.key_hashes import I32, I64, murmur2_column
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._protocol.topic import topic_name_problem

DEFAULT_BUCKETS: Final = 3840
"""As in MySQL Cluster: many numbers of partitions divide it."""
MAX_BUCKETS: Final = 65_536
"""A table and its previous one have to fit into a record of ``max.message.bytes``, by default 1 MiB."""

_FORMAT: Final = 1
_POSITIVE: Final = np.int32(0x7FFFFFFF)
_FIELDS: Final = frozenset({"format", "topic", "version", "partitions", "buckets", "previousBuckets"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketTable:
    """The partitions of a topic's buckets."""

    topic: str
    partitions: tuple[int, ...]
    """The number of partitions in each version of the table; the last one is the present number."""
    buckets: I32
    """The partition of each bucket: int32[buckets]."""
    previous: I32 | None = None
    """As ``buckets`` in the version before; None in the first one."""

    @classmethod
    def create(cls, topic: str, partitions: int, buckets: int = DEFAULT_BUCKETS) -> Self:
        """A first version, in which the buckets are assigned to the partitions in turn. Raises LookupTableError."""
        if not 1 <= buckets <= MAX_BUCKETS:
            raise LookupTableError(f"topic {topic}: a table has 1 to {MAX_BUCKETS} buckets, not {buckets}")
        _check_partitions(topic, partitions, buckets)
        return cls(topic=topic, partitions=(partitions,), buckets=np.arange(buckets, dtype=np.int32) % partitions)

    @property
    def version(self) -> int:
        """1 for a new table; a reorganization adds 1."""
        return len(self.partitions)

    @property
    def partition_count(self) -> int:
        """The number of partitions that have buckets."""
        return self.partitions[-1]

    def reorganize(self, partitions: int) -> "BucketTable":
        """The next version, for more partitions; this one if the number is the same.

        Of each old partition's buckets the share of the new partitions is moved, rounded up or down, and to new
        partitions only. Afterwards the numbers of buckets of two partitions differ by one at most, if they did before.
        The same table gives the same result. Raises LookupTableError: fewer partitions, or more than buckets.
        """
        old = self.partition_count
        if partitions < old:
            raise LookupTableError(
                f"topic {self.topic}: its table has {counted(old, 'partition')}, and cannot be reorganized to "
                f"{partitions}: Kafka does not remove partitions of a topic"
            )
        _check_partitions(self.topic, partitions, len(self.buckets))
        if partitions == old:
            return self
        counts = self.bucket_counts()
        kept = _kept(counts, partitions)
        moving = np.concatenate(
            [np.flatnonzero(self.buckets == each)[kept[each] :] for each in range(old)]
        )  # sorted by old partition, so that the new partitions get equal parts of each
        changed = self.buckets.copy()
        changed[moving] = old + np.arange(len(moving)) % (partitions - old)
        assert (changed[self.buckets != changed] >= old).all(), "buckets move to new partitions only"
        return dataclasses.replace(
            self, partitions=(*self.partitions, partitions), buckets=changed, previous=self.buckets
        )

    def bucket_counts(self) -> I64:
        """The number of buckets of each partition: int64[partition_count]."""
        return np.bincount(self.buckets, minlength=self.partition_count)

    def moves(self) -> dict[int, dict[int, int]]:
        """The buckets that this version has moved: old partition -> new partition -> number of buckets."""
        if self.previous is None:
            return {}
        moved = self.previous != self.buckets
        pairs, counts = np.unique(np.stack([self.previous[moved], self.buckets[moved]]), axis=1, return_counts=True)
        found: dict[int, dict[int, int]] = {}
        for old, new, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            found.setdefault(old, {})[new] = count
        return found

    def partitions_of(self, keys: "pa.Array[Any]") -> I32:
        """The partition of every key of a binary array: int32[n]. What a null row gets means nothing."""
        found: I32 = self.buckets[(murmur2_column(keys) & _POSITIVE) % len(self.buckets)]
        return found

    def may_move(self, old: int, new: int) -> bool:
        """Whether a reorganization can have moved keys between partitions: the new one was added after the old one."""
        added = [sum(count <= partition for count in self.partitions) for partition in (old, new)]
        return added[0] < added[1]

    def same_as(self, other: "BucketTable | None") -> bool:
        """Whether every field is equal."""
        return other is not None and self.to_json() == other.to_json()

    # --- JSON

    def to_json(self) -> dict[str, Any]:
        """The table as an object of JSON."""
        return {
            "format": _FORMAT,
            "topic": self.topic,
            "version": self.version,
            "partitions": list(self.partitions),
            "buckets": self.buckets.tolist(),
            "previousBuckets": None if self.previous is None else self.previous.tolist(),
        }

    @classmethod
    def from_json(cls, value: object, source: str) -> Self:
        """A table from parsed JSON. Raises LookupTableError: it is malformed; ``source`` says where it was read."""
        given = value.get("format") if isinstance(value, dict) else value
        if not isinstance(value, dict) or type(given) is not int or given != _FORMAT:
            _malformed(source, f"is not of format {_FORMAT}: {str(given)[:40]!r}")
        if value.keys() != _FIELDS:
            names = ", ".join(sorted(map(str, _FIELDS ^ value.keys())))
            _malformed(source, f"has missing or unknown fields: {names[:200]}")
        topic, partitions, version = value["topic"], value["partitions"], value["version"]
        if not isinstance(topic, str) or topic_name_problem(topic) is not None:
            _malformed(source, f"has no valid topic name: {str(topic)[:40]!r}")
        counts = _integers(source, "partitions", partitions, 1, MAX_BUCKETS + 1)
        if not len(counts) or (np.diff(counts) <= 0).any():
            _malformed(source, "has numbers of partitions that do not increase")
        if type(version) is not int or version != len(counts):
            _malformed(source, f"has version {str(version)[:20]}, and numbers of partitions of {len(counts)} versions")
        buckets = _integers(source, "buckets", value["buckets"], 0, int(counts[-1]))
        if not 1 <= len(buckets) <= MAX_BUCKETS:
            _malformed(source, f"has {len(buckets)} buckets; a table has 1 to {MAX_BUCKETS}")
        previous = None
        if version > 1:
            previous = _integers(source, "previousBuckets", value["previousBuckets"], 0, int(counts[-2]))
            if len(previous) != len(buckets):
                _malformed(source, f"has {len(buckets)} buckets, and had {len(previous)} in the version before")
        elif value["previousBuckets"] is not None:
            _malformed(source, "has previous buckets in version 1")
        return cls(topic=topic, partitions=tuple(counts.tolist()), buckets=buckets, previous=previous)


def tables_by_topic(values: Mapping[str, object], source: str) -> dict[str, BucketTable]:
    """Tables from parsed JSON, by topic. Raises LookupTableError naming the topic."""
    found = {}
    for topic, value in values.items():
        table = found[topic] = BucketTable.from_json(value, f"{source}, topic {topic}")
        if table.topic != topic:
            _malformed(f"{source}, topic {topic}", f"is a table of topic {table.topic}")
    return found


def parse_json(data: bytes | str, source: str) -> Any:
    """JSON without duplicate names. Raises LookupTableError naming ``source``."""
    try:
        return json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        _malformed(source, f"is not JSON: {error}")


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:40]!r} is there twice")
        found[name] = value
    return found


def _malformed(source: str, problem: str) -> NoReturn:
    raise LookupTableError(
        f"the look-up table in {source} {problem}. Restore it; or remove it there, in a topic by a tombstone, and "
        "create it with pykafka lookup-table"
    )


def _integers(source: str, name: str, value: object, least: int, end: int) -> I32:
    """A list of integers, each at least ``least`` and below ``end``: int32[n]."""
    if not isinstance(value, list) or not all(type(item) is int and least <= item < end for item in value):
        _malformed(source, f"has {name} that are not a list of integers from {least} to {end - 1}")
    return np.array(value, np.int32)


def _check_partitions(topic: str, partitions: int, buckets: int) -> None:
    if not 1 <= partitions <= buckets:
        raise LookupTableError(
            f"topic {topic}: {counted(partitions, 'partition')} for {counted(buckets, 'bucket')}; each partition needs "
            "a bucket"
        )


def _kept(counts: I64, partitions: int) -> I64:
    """How many buckets each old partition keeps, so that all have the same number, or one more.

    Old partitions have one more before new ones, and those that had more before others. So as few buckets as possible
    move, and no old partition's loss differs by one or more from its exact share.
    """
    least, more = divmod(int(counts.sum()), partitions)
    kept = np.full(len(counts), least)
    kept[np.argsort(-counts, kind="stable")[:more]] += 1
    found: I64 = np.minimum(kept, counts)
    return found
