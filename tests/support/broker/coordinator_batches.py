"""The records in batches of a coordinator's log."""

from collections.abc import Iterator

from broker_embedded.records.coordinator_record import CoordinatorRecord
from spark_kafka_native.protocol.wire import Buffer
from spark_kafka_native.records.batch import BatchHeader
from spark_kafka_native.records.conversion import read_records


def decode_batch(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[CoordinatorRecord]:
    """The records of one whole batch of any format, none if it is a control batch. Raises CorruptBatch."""
    if header.is_control:
        return
    for message in read_records(memoryview(buffer), position, header):
        yield CoordinatorRecord(key=message.key or b"", value=message.value)
