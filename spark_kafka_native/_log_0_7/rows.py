"""The messages of a ``.kafka`` file as Arrow batches, read in pieces."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from spark_kafka_native._log_0_7.files import LogFile, open_file
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch, UnreadableBatch
from spark_kafka_native._records.kafka_0_7 import Entry, read_entries

_log = logging.getLogger(__name__)

_FIELDS: Final[Mapping[str, pa.DataType]] = {
    "offset": pa.int64(),
    "next_offset": pa.int64(),
    "index": pa.int32(),
    "value": pa.binary(),
}
SCHEMA: Final = pa.schema(_FIELDS)
"""``offset`` and ``next_offset``: those of the entry; ``index``: from 0 in a compressed entry, else 0.

The messages of an entry are in one batch.
"""
_READ_BYTES: Final = 8 << 20
_BATCH_BYTES: Final = 32 << 20
"""Of a batch and the entries that it is made of, or of one entry that is larger."""
_MAX_ENTRY_BYTES: Final = 512 << 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_rows(file: LogFile) -> Iterator[pa.RecordBatch]:
    """The messages of a file, in batches of SCHEMA.

    A message at the end of the log that was not written completely is skipped with a warning, as Kafka 0.7 does when it
    starts. Raises OSError; UnreadableBatch naming the file and the position.
    """
    with open_file(file.path) as stream:
        yield from _rows(stream, file)


def _rows(stream: _Readable, file: LogFile) -> Iterator[pa.RecordBatch]:
    position, rest, columns = 0, b"", _Columns()
    incomplete: IncompleteBatch | None = None
    while piece := stream.read(max(_READ_BYTES, len(rest))):  # doubles while an entry is not complete
        data, used, incomplete = rest + piece, 0, None
        if len(data) > _MAX_ENTRY_BYTES:
            detail = f"a message of more than {_MAX_ENTRY_BYTES} bytes"
            raise CorruptBatch(detail, position=position, file=file.path, base_offset=file.base_offset + position)
        try:
            for entry in read_entries(data, file.base_offset + position):
                columns.add(entry)
                used += entry.size_bytes
                if columns.size_bytes >= _BATCH_BYTES:
                    yield columns.take()
        except IncompleteBatch as error:
            incomplete = error.placed(start=position, file=file.path)
        except UnreadableBatch as error:
            start = position if error.position is not None else position + used
            raise error.placed(start=start, file=file.path) from error
        if columns.size_bytes:
            yield columns.take()
        position, rest = position + used, data[used:]
    if incomplete is not None:
        if not file.is_last:
            raise incomplete
        _log.warning("%s; the log ends before it", incomplete)


class _Columns:
    """The rows that have been read, and are not in a batch yet."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        self.size_bytes = 0

    def add(self, entry: Entry) -> None:
        """Append the messages of an entry. Raises CorruptBatch; OversizedBatch."""
        entry.check_crc()
        messages = entry.messages()
        self._columns["offset"] += [entry.offset] * len(messages)
        self._columns["next_offset"] += [entry.next_offset] * len(messages)
        self._columns["index"] += range(len(messages))
        self._columns["value"] += messages
        self.size_bytes += entry.size_bytes + sum(map(len, messages))

    def take(self) -> pa.RecordBatch:
        """A batch of all rows, which may have none."""
        batch = pa.RecordBatch.from_pydict(self._columns, schema=SCHEMA)
        self._columns, self.size_bytes = {name: [] for name in SCHEMA.names}, 0
        return batch
