"""The records of a coordinator's log to replay: the last one of each key, without those of aborted transactions.

A log is read from its start, batch by batch. Records of a transaction (KIP-98) take effect at its COMMIT marker, with
the offsets at which they were written: a later record or tombstone of the same key takes precedence even if it is
before the marker. Compaction keeps the same records, so that it does not change the result.
"""

from typing import Final, NamedTuple

from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.wire import Buffer
from spark_kafka_native._records.batch import BatchHeader
from spark_kafka_native._records.control import ControlType, decode_control
from spark_kafka_native._records.conversion import read_records
from spark_kafka_native._records.record import LogRecord

_MARKERS: Final = (ControlType.COMMIT, ControlType.ABORT)


class LoggedRecord(NamedTuple):
    """A record and its offset. ``producer_id`` is set if its transaction is open."""

    record: CoordinatorRecord
    offset: int
    producer_id: int | None = None


class LastRecords:
    """The last records of one partition, up to the present batch."""

    def __init__(self) -> None:
        self._last: dict[bytes, LogRecord] = {}
        self._open: dict[int, dict[bytes, LogRecord]] = {}
        """The records of each producer's open transaction."""

    def read(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        """Read a complete batch of any format. Raises CorruptBatch."""
        if header.is_control:
            marker = decode_control(buffer, position, header)
            if marker is not None and marker.type in _MARKERS:
                self._end(header.producer_id, commit=marker.type is ControlType.COMMIT)
            return
        messages = read_records(memoryview(buffer), position, header)
        if header.is_transactional:
            self._open.setdefault(header.producer_id, {}).update((message.key or b"", message) for message in messages)
            return
        for message in messages:
            key = message.key or b""
            self._last[key] = message
            if message.value is None:
                for pending in self._open.values():
                    pending.pop(key, None)

    def in_order(self) -> list[LoggedRecord]:
        """The last record of each key, tombstones included, and those of open transactions, by offset."""
        found = [_logged(message, None) for message in self._last.values()]
        for producer_id, pending in self._open.items():
            found += [_logged(message, producer_id) for message in pending.values()]
        return sorted(found, key=lambda logged: logged.offset)

    def _end(self, producer_id: int, *, commit: bool) -> None:
        for key, message in self._open.pop(producer_id, {}).items():
            last = self._last.get(key)
            if commit and (last is None or last.offset < message.offset):
                self._last[key] = message


def _logged(message: LogRecord, producer_id: int | None) -> LoggedRecord:
    return LoggedRecord(CoordinatorRecord(key=message.key or b"", value=message.value), message.offset, producer_id)
