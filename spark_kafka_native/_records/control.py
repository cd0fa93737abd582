"""Control batches: the markers that end a transaction in each of its partitions (KIP-98).

A control batch holds one record, whose key has its type::

    key   = version int16, type int16
    value = version int16, coordinator_epoch int32   of an ABORT or COMMIT marker

Later versions only add fields, so bytes after these are ignored.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    Buffer,
    CompressionType,
    CorruptBatch,
    seal,
    write_header,
)
from spark_kafka_native._records.decompression import decompress
from spark_kafka_native._records.record import encode_body, parse_records, varint

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0
_MAX_PAYLOAD_BYTES = 64 * 1024


class ControlType(IntEnum):
    """The type of a control record; one that is not in this list is UNKNOWN, and to be skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """A control record; ``coordinator_epoch`` is set for ABORT and COMMIT alone."""

    type: ControlType
    coordinator_epoch: int | None


def decode_control(buffer: Buffer, position: int, header: BatchHeader) -> ControlRecord | None:
    """The control record in the batch at ``position``; None if compaction has emptied the batch. CRC not checked.

    Raises CorruptBatch: not a control record.
    """
    if header.records_count == 0:
        return None
    payload = memoryview(buffer)[position + RECORD_BATCH_OVERHEAD : position + header.size_in_bytes]
    try:
        plain = decompress(header.compression, payload, max_bytes=_MAX_PAYLOAD_BYTES)
        try:
            record = next(parse_records([plain], header))
            return _control_record(record.key, record.value)
        except CorruptBatch as error:
            raise CorruptBatch(f"control record: {error.detail}", record_index=0) from None
    except CorruptBatch as error:
        raise error.placed(start=position, base_offset=header.base_offset) from error


def encode_end_txn_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """A whole control batch, sealed, that commits or aborts the transaction of a producer in one partition.

    Raises ValueError: neither COMMIT nor ABORT, or no producer id.
    """
    if control_type not in {ControlType.COMMIT, ControlType.ABORT}:
        raise ValueError(f"a transaction ends with COMMIT or ABORT, not {control_type.name}")
    if producer_id < 0:
        raise ValueError(f"a transaction marker needs a producer id, not {producer_id}")
    record = encode_body(0, 0, _KEY.pack(_VERSION, control_type), _MARKER.pack(_VERSION, coordinator_epoch))
    batch = bytearray(RECORD_BATCH_OVERHEAD) + varint(len(record)) + record
    write_header(
        batch,
        size_in_bytes=len(batch),
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        records_count=1,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        compression=CompressionType.NONE,
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    seal(batch)
    return batch


def _control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(f"a key of at least {_KEY.size} bytes is needed, not {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"impossible version {version} of the key")
    control_type = ControlType(number) if number in _KNOWN_TYPES else ControlType.UNKNOWN
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        return ControlRecord(control_type, None)
    if value is None or len(value) < _MARKER.size:
        raise CorruptBatch(f"a value of at least {_MARKER.size} bytes is needed, not {value!r}")
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"impossible version {version} of the value")
    return ControlRecord(control_type, coordinator_epoch)


_KNOWN_TYPES = frozenset(ControlType)
