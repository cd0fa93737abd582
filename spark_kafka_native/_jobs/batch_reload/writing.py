"""The tasks of a load: one range of offsets into one file with a unique name for each attempt.

The file of an attempt that fails, is killed, or is slower than another one is unknown to the driver, so no manifest
names it. The file is durable before the task returns.
"""

import contextlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, changed
from spark_kafka_native._jobs.batch_reload.formats import CountingStream, FileFormat, open_writer
from spark_kafka_native._jobs.batch_reload.merge import Written
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.versions import LOADS
from spark_kafka_native._spark.errors import DataLossError, DataLossKind
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.ranges import OffsetRange
from spark_kafka_native._spark.source.layout import Layout
from spark_kafka_native._spark.source.reader import read_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """The parameters of all tasks of a load; picklable."""

    location: StorageLocation
    load_id: str
    source: SourceOptions
    layout: Layout
    format: FileFormat

    def run(self, piece: OffsetRange) -> Written:
        """Load one range. Raises TaskError, OSError, ReloadError: records or the topic were deleted since the plan."""
        batches = read_ranges(self.source, self.layout, [piece])
        try:
            return write_piece(self.location.open(), self.format, self.load_id, piece, batches)
        except DataLossError as error:
            if error.code == f"KAFKA_DATA_LOSS.{DataLossKind.TOPIC_RECREATED}":
                raise changed(f"topic {piece.topic} was deleted and created again") from error
            if error.code == f"KAFKA_DATA_LOSS.{DataLossKind.OFFSET_CHANGED}":
                raise changed(f"the log of {piece.topic_partition} was truncated") from error
            raise ReloadError(
                f"records of {piece} were deleted while the load ran, so no part of it is visible; run it again with "
                "--accept-data-loss to continue after them"
            ) from error


def write_piece(
    storage: Storage, form: FileFormat, load_id: str, piece: OffsetRange, batches: Iterable[pa.RecordBatch]
) -> Written:
    """Write the records of a range into a new file; no file if there are no records."""
    iterator = iter(batches)
    first = next((batch for batch in iterator if batch.num_rows), None)
    path, rows, counting = "", 0, None
    if first is not None:
        path = _path(load_id, piece, form)
        try:
            with storage.open_output(path) as stream:
                counting = CountingStream(stream)
                with open_writer(form, first.schema, counting) as writer:
                    for batch in chain([first], iterator):
                        writer.write(batch)
                        rows += batch.num_rows
        except Exception:  # delete the incomplete file and raise the error again
            with contextlib.suppress(Exception):  # a clean deletes it otherwise
                storage.remove(path)
            raise
    return Written(
        topic=piece.topic,
        partition=piece.partition,
        from_offset=piece.from_offset,
        until_offset=piece.until_offset,
        path=path,
        rows=rows,
        bytes=counting.bytes if counting else 0,
        crc32c=counting.crc32c if counting else 0,
    )


def _path(load_id: str, piece: OffsetRange, form: FileFormat) -> str:
    name = f"{piece.partition:05d}-{piece.from_offset:020d}-{secrets.token_hex(8)}{form.suffix}"
    return f"{LOADS}/{load_id}/{piece.topic}/{name}"
