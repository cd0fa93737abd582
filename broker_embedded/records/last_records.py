"""Which records of a coordinator's log count: of each key the last that is not part of an aborted transaction.

A log is read from its start, batch by batch. What is written in a transaction (KIP-98) counts once its COMMIT marker is
met, and has its place where it was written: a later record of the same key, or a later tombstone, stands although the
marker comes behind it. Compaction keeps the same records, so that a log says the same before and after it.
"""

from typing import Final, NamedTuple

from broker_embedded.records.coordinator_record import CoordinatorRecord
from spark_kafka_native.protocol.wire import Buffer
from spark_kafka_native.records.batch import BatchHeader
from spark_kafka_native.records.control import ControlType, decode_control
from spark_kafka_native.records.conversion import read_records
from spark_kafka_native.records.legacy import Message

_MARKERS: Final = (ControlType.COMMIT, ControlType.ABORT)


class LoggedRecord(NamedTuple):
    """A record at its offset. ``producer_id`` is set while the transaction that it was written in goes on."""

    record: CoordinatorRecord
    offset: int
    producer_id: int | None = None


class LastRecords:
    """What one partition of a log says, as far as it has been read."""

    def __init__(self) -> None:
        self._last: dict[bytes, Message] = {}
        self._open: dict[int, dict[bytes, Message]] = {}
        """By producer, what its transaction has written."""

    def read(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        """Go on with one whole batch of any format. Raises CorruptBatch."""
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
        """The last record of each key, tombstones too, and what is written in transactions that go on; by offset."""
        found = [_logged(message, None) for message in self._last.values()]
        for producer_id, pending in self._open.items():
            found += [_logged(message, producer_id) for message in pending.values()]
        return sorted(found, key=_offset)

    def _end(self, producer_id: int, *, commit: bool) -> None:
        for key, message in self._open.pop(producer_id, {}).items():
            last = self._last.get(key)
            if commit and (last is None or last.offset < message.offset):
                self._last[key] = message


def _logged(message: Message, producer_id: int | None) -> LoggedRecord:
    return LoggedRecord(CoordinatorRecord(key=message.key or b"", value=message.value), message.offset, producer_id)


def _offset(logged: LoggedRecord) -> int:
    return logged.offset
