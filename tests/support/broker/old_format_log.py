"""A log on a disk in memory that is given message sets and record batches, and what it should hold beside it."""

from typing import Any

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.appender import AppendResult
from spark_kafka_native._records.batch import Buffer, CompressionType
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.log_driver import LogDriver, slice_bytes
from tests.support.records.log_batches import batch
from tests.support.records.message_sets import message_set, messages_in, shapes

ALL_BYTES = 1 << 30


class OldFormatLog(LogDriver):
    """One log; settings as of topics."""

    def __init__(self, **settings: object) -> None:
        super().__init__({key.replace("_", "."): value for key, value in settings.items()})

    def put(self, records: Buffer) -> AppendResult:
        """Append bytes as they come from a producer."""
        return self.log.append(bytearray(records), leader_epoch=3)

    def put_set(self, *values: bytes | None, magic: int, **fields: Any) -> AppendResult:
        """Append a message set of these values."""
        fields.setdefault("timestamps", self.clock.now_ms())
        return self.put(message_set(*values, magic=magic, **fields))

    def put_batch(self, *values: bytes, **fields: Any) -> AppendResult:
        """Append a record batch of these values."""
        fields.setdefault("timestamps", self.clock.now_ms())
        return self.put(batch(*values, **fields))

    def stored(self, offset: int | None = None) -> bytes:
        """The bytes in the log, from the batch that holds an offset on."""
        start = self.log.log_start_offset if offset is None else offset
        return slice_bytes(self.log.reader.read(start, max_bytes=ALL_BYTES))

    def records(self, offset: int | None = None) -> list[LogRecord]:
        """Every record, all CRCs checked."""
        return messages_in(self.stored(offset))

    def shapes(self) -> list[tuple[int, CompressionType, int]]:
        """Magic, codec and last offset of every batch or message."""
        return shapes(self.stored())

    def write_format(self, release: str) -> None:
        """Continue in the message format of another release."""
        self.config = LogConfig.parse({"message.format.version": release}, self.config)
        self.log.reconfigure(self.config)
