"""Snapshots of a partition's producer state as of an offset: ``{offset:020d}.snapshot``.

Apache Kafka's format, big-endian::

    snapshot = version int16 (1), crc uint32, count int32, entry*
    entry    = producer_id int64, epoch int16, last_sequence int32, last_offset int64, offset_delta int32,
               timestamp int64, coordinator_epoch int32, transaction_first_offset int64 (-1: no open transaction)

The CRC-32C covers everything after it. ``timestamp`` is the time of the producer's last append.

A producer has one entry for each remembered batch, oldest first, so that after a restart a retry of every request in
flight is recognized. Apache Kafka writes the last batch only. Reading this file, it keeps the last entry of a producer,
which is the same.
"""

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from crc32c import crc32c

from broker_embedded._log.append.producer_state import BATCHES_KEPT, BatchMetadata, ProducerEntry

_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_NONE: Final = -1


class CorruptSnapshot(Exception):
    """The bytes are not a valid snapshot."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """The snapshot of these producers."""
    body = bytearray()
    for entry in entries:
        first_offset = _NONE if entry.transaction_first_offset is None else entry.transaction_first_offset
        for batch in entry.batches or (BatchMetadata(_NONE, _NONE, 0, _NONE),):
            body += _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                entry.seen_ms,
                entry.coordinator_epoch,
                first_offset,
            )
    counted = _COUNT.pack(len(body) // _ENTRY.size) + body
    return _HEAD.pack(_VERSION, crc32c(counted)) + counted


def decode(data: bytes) -> list[ProducerEntry]:
    """The producers in a snapshot. Raises CorruptSnapshot."""
    producers: dict[int, ProducerEntry] = {}
    for entry in decode_entries(data):
        before = producers.get(entry.producer_id)
        if before is not None and before.epoch == entry.epoch:
            batches = (*before.batches, *entry.batches)[-BATCHES_KEPT:]
            producers[entry.producer_id] = replace(entry, batches=batches)
        else:
            producers[entry.producer_id] = entry
    return list(producers.values())


def decode_entries(data: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot. Each has one batch or none; a producer has one per batch. Raises CorruptSnapshot."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version} is not {_VERSION}")
    counted = memoryview(data)[_HEAD.size :]
    actual = crc32c(counted)
    if actual != crc:
        raise CorruptSnapshot(f"the CRC-32C is {actual:#010x}, but the file has {crc:#010x}")
    (count,) = _COUNT.unpack_from(counted)
    if len(counted) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold {count} entries")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(counted[_COUNT.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerEntry:
    batches = (BatchMetadata(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else ()
    return ProducerEntry(
        producer_id=producer_id,
        epoch=epoch,
        batches=batches,
        coordinator_epoch=coordinator_epoch,
        transaction_first_offset=None if first_offset < 0 else first_offset,
        seen_ms=timestamp,
    )
