"""The partitioners of ``partitioner_names``, and those of users' functions.

Rows that do not go by their key go to partitions that have a leader. A partitioner is made for each topic of a
producer, because some of them remember the next partition.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.partitioning.key_hashes import (
    I32,
    I64,
    U32,
    bytes_hash_column,
    crc32_column,
    fnv1a_column,
    murmur2_column,
    string_hash_column,
)
from spark_kafka_native._client.partitioning.partitioner_names import (
    DEFAULT,
    LOOKUP,
    PartitionerError,
    partition_function,
)
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._records.arrow.views import byte_spans, nulls

PartitionFunction = Callable[["pa.BinaryArray", int], Any]
"""Keys, number of partitions -> a partition for each key: a ``pa.Array``, a numpy array or a sequence of integers."""

_POSITIVE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """Rows without a partition of their own, and where they may go."""

    keys: "pa.LargeBinaryArray | None"
    """None: no row has a key."""
    sizes: I64
    partitions: int
    available: Sequence[int]
    """The partitions that have a leader."""


class Partitioner(Protocol):
    """Chooses partitions for the rows of one topic."""

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition: int32[n]."""
        ...


class TopicPartitioners(Protocol):
    """Partitioners that differ by topic, such as ``lookup.BucketTables``."""

    def partitioner_of(self, topic: str, batch_bytes: int, first: int) -> Partitioner:
        """The partitioner of a topic, as ``make_partitioner``. Raises PartitionerError: there is none."""
        ...


class Spread(Protocol):
    """Chooses partitions without looking at keys."""

    def assign(self, sizes: I64, available: Sequence[int]) -> I32:
        """A partition out of ``available`` for each of the rows that have these sizes in bytes."""
        ...


class RandomSpread:
    """Any partition for any row."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def assign(self, sizes: I64, available: Sequence[int]) -> I32:
        """A partition for each row, all equally likely."""
        return np.asarray(available, np.int32)[self._random.integers(len(available), size=len(sizes))]


class RoundRobinSpread:
    """Row by row the next partition, from send to send."""

    def __init__(self, first: int) -> None:
        self._turn = first

    def assign(self, sizes: I64, available: Sequence[int]) -> I32:
        """Partitions in turn."""
        turns = self._turn + np.arange(len(sizes), dtype=np.int64)
        self._turn += len(sizes)
        return np.asarray(available, np.int32)[turns % len(available)]


class StickySpread:
    """Spreads records without keys: as many as fit into a batch to one partition, then the same to the next."""

    def __init__(self, batch_bytes: int, first: int) -> None:
        """``batch_bytes``: of the records of a batch. ``first`` is the turn to begin with; producers should differ."""
        self._batch_bytes = batch_bytes
        self._turn = first
        self._filled = 0

    def assign(self, sizes: I64, available: Sequence[int]) -> I32:
        """Partitions for records of these sizes in bytes, in order: int32[n], each out of ``available``.

        A record that is larger than a batch gets a partition of its own.
        """
        rows = len(sizes)
        chosen = np.empty(rows, np.int32)
        ends = np.cumsum(sizes)
        first = before = 0
        while first < rows:
            end = int(ends.searchsorted(before + self._batch_bytes - self._filled, side="right"))
            if end == first and not self._filled:
                end += 1
            chosen[first:end] = available[self._turn % len(available)]
            if end == rows:
                self._filled += int(ends[-1]) - before
                break
            self._turn, self._filled = self._turn + 1, 0
            first, before = end, int(ends[end - 1]) if end else 0
        return chosen


class HashPartitioner:
    """By the key's hash; rows without a key are spread, or, without ``spread``, hashed as if the key were empty."""

    def __init__(self, hash_keys: "Callable[[pa.LargeBinaryArray], U32]", spread: Spread | None, least: int) -> None:
        """``least``: bytes that a key must have to count as one."""
        self._hash_keys = hash_keys
        self._spread = spread
        self._least = least

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition."""
        keys = rows.keys
        if self._spread is None:
            empty: Any = pa.array([b""] * len(rows.sizes), pa.large_binary()) if keys is None else keys.fill_null(b"")
            return self._hashed(empty, rows.partitions)
        if keys is None:
            return self._spread.assign(rows.sizes, rows.available)
        ids = self._hashed(keys, rows.partitions)
        keyless = byte_spans(keys)[2] < self._least
        absent = nulls(keys)
        if absent is not None:
            keyless |= absent
        if keyless.any():
            ids[keyless] = self._spread.assign(rows.sizes[keyless], rows.available)
        return ids

    def _hashed(self, keys: "pa.LargeBinaryArray", partitions: int) -> I32:
        return (self._hash_keys(keys) % np.uint32(partitions)).astype(np.int32)


class SpreadPartitioner:
    """Keys are not looked at."""

    def __init__(self, spread: Spread) -> None:
        self._spread = spread

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition."""
        return self._spread.assign(rows.sizes, rows.available)


class FunctionPartitioner:
    """The choice of a user's function. Raises PartitionerError: it returns no partition of the topic for each row."""

    def __init__(self, name: str, function: PartitionFunction) -> None:
        self._name = name
        self._function = function

    def assign(self, rows: Unassigned) -> I32:
        """Each row's partition."""
        count = len(rows.sizes)
        keys: Any = pa.nulls(count, pa.binary()) if rows.keys is None else rows.keys.cast(pa.binary())
        result = self._function(keys, rows.partitions)
        try:
            column: Any = result if isinstance(result, pa.Array | pa.ChunkedArray) else pa.array(result)
            ids: I64 = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise self._error(f"did not return integers: {error}") from error
        if not pa.types.is_integer(column.type) or column.null_count:
            raise self._error(f"must return an integer for each key, it returned {column.type} with nulls or fractions")
        if len(ids) != count:
            raise self._error(f"returned {counted(len(ids), 'partition')} for {counted(count, 'key')}")
        wrong = np.flatnonzero((ids < 0) | (ids >= rows.partitions))
        if len(wrong):
            raise self._error(f"returned partition {ids[wrong[0]]}; the topic has 0 to {rows.partitions - 1}")
        return ids.astype(np.int32)

    def _error(self, text: str) -> PartitionerError:
        return PartitionerError(f"partitioner {self._name} {text}")


def _murmur2(keys: "pa.LargeBinaryArray") -> U32:
    hashes = murmur2_column(keys)
    hashes &= np.int32(_POSITIVE)
    return hashes.view(np.uint32)


@dataclass(frozen=True, slots=True)
class _Named:
    """``least``: bytes of a key that counts; ``spread`` None hashes rows without a key too."""

    hash_keys: "Callable[[pa.LargeBinaryArray], U32] | None"
    spread: "Callable[[int, int], Spread] | None"
    least: int = 0


def _random(_batch_bytes: int, first: int) -> Spread:
    return RandomSpread(first)


_NAMED: Final[Mapping[str, _Named]] = {
    DEFAULT: _Named(_murmur2, StickySpread),
    "murmur2": _Named(_murmur2, None),
    "murmur2_random": _Named(_murmur2, _random),
    "consistent": _Named(crc32_column, None),
    "consistent_random": _Named(crc32_column, _random, least=1),
    "fnv1a": _Named(fnv1a_column, None),
    "fnv1a_random": _Named(fnv1a_column, _random),
    "random": _Named(None, _random),
    "round_robin": _Named(None, lambda _, first: RoundRobinSpread(first)),
    "sticky": _Named(None, StickySpread),
    "string_hash": _Named(string_hash_column, _random),
    "bytes_hash": _Named(bytes_hash_column, _random),
}


def make_partitioner(
    spec: str | TopicPartitioners, batch_bytes: int, first: int | None = None, *, topic: str = ""
) -> Partitioner:
    """The partitioner of one topic. Raises PartitionerError: there is none of this name, or for this topic.

    ``first`` picks the partition to begin with, where that matters; None: at random, since producers should begin at
    different ones.
    """
    begin = random.randrange(1 << 16) if first is None else first
    if not isinstance(spec, str):
        return spec.partitioner_of(topic, batch_bytes, begin)
    if spec == LOOKUP:
        raise PartitionerError("partitioner lookup needs tables: pass them instead of the name")
    named = _NAMED.get(spec)
    if named is None:
        return FunctionPartitioner(spec, partition_function(spec))
    spread = None if named.spread is None else named.spread(batch_bytes, begin)
    if named.hash_keys is not None:
        return HashPartitioner(named.hash_keys, spread, named.least)
    assert spread is not None
    return SpreadPartitioner(spread)
