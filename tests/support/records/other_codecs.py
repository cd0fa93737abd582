"""Record batches as kafka-python and aiokafka write and read them, with one interface."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.record import LogRecord
from tests.support.records.reference import Record

PEERS = ("kafka-python", "aiokafka")
_BATCH_BYTES = 1 << 26


class _Library:
    """Classes of one client library. Skips the test where that is not installed."""

    builder: str
    """Of a module of records."""

    def __init__(self, name: str) -> None:
        package = {"kafka-python": "kafka", "aiokafka": "aiokafka"}[name]
        module, builder = self.builder.split(".")
        pytest.importorskip(package, reason=f"{name} is there for comparison only")
        self._writer: Any = getattr(importlib.import_module(f"{package}.record.{module}"), builder)
        self._reader: Any = importlib.import_module(f"{package}.record.memory_records").MemoryRecords


class Peer(_Library):
    """The record batches of one client library."""

    builder = "default_records.DefaultRecordBatchBuilder"

    def write(self, records: Sequence[Record], codec: int) -> bytes:
        """One batch at offset 0."""
        builder = self._writer(2, codec, 0, -1, -1, -1, _BATCH_BYTES)
        for offset, record in enumerate(records):
            headers = list(record.headers)
            assert builder.append(offset, record.timestamp, record.key, record.value, headers) is not None
        return bytes(builder.build())

    def read(self, batches: bytes) -> list[Record]:
        """All records, each batch's CRC checked."""
        reader = self._reader(batches)
        records = []
        while (batch := reader.next_batch()) is not None:
            assert batch.validate_crc()
            for found in batch:
                headers = tuple((key, None if value is None else bytes(value)) for key, value in found.headers)
                records.append(Record(_bytes(found.key), _bytes(found.value), headers, found.timestamp, found.offset))
        return records


class LegacyPeer(_Library):
    """The message sets of one client library, v0 and v1."""

    builder = "legacy_records.LegacyRecordBatchBuilder"

    def knows(self, magic: int, codec: int) -> bool:
        """Whether the library has a codec in a format: for lz4 in v0 they need packages that are not installed."""
        return not (magic == 0 and codec == CompressionType.LZ4)

    def write(self, records: Sequence[LogRecord], magic: int, codec: int) -> bytes:
        """The records as a producer sends them; their offsets count from 0."""
        builder = self._writer(magic=magic, compression_type=int(codec), batch_size=_BATCH_BYTES)
        for record in records:
            time = record.timestamp if magic else None
            assert builder.append(record.offset, time, record.key, record.value) is not None
        return bytes(builder.build())

    def read(self, raw: bytes) -> list[LogRecord]:
        """All records, each outer CRC checked."""
        reader = self._reader(raw)
        found = []
        while (batch := reader.next_batch()) is not None:
            assert batch.validate_crc()
            found += [
                LogRecord(
                    record.offset,
                    -1 if record.timestamp is None else record.timestamp,
                    _bytes(record.key),
                    _bytes(record.value),
                )
                for record in batch
            ]
        return found


def _bytes(content: bytes | None) -> bytes | None:
    return None if content is None else bytes(content)
