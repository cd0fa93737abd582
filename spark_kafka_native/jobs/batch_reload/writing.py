"""What a task does: one range of offsets into one file of a name that no other attempt has.

An attempt that fails, is killed, or is overtaken by another leaves a file that the driver never hears of, so no
manifest names it. The file is durable before the task returns.
"""

import contextlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_kafka_native.jobs.batch_reload.errors import ReloadError, changed
from spark_kafka_native.jobs.batch_reload.formats import CountingStream, FileFormat, open_writer
from spark_kafka_native.jobs.batch_reload.merge import Written
from spark_kafka_native.jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native.jobs.batch_reload.storage.storage import Storage
from spark_kafka_native.jobs.batch_reload.versions import LOADS
from spark_kafka_native.spark.errors import DataLossError, DataLossKind
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.ranges import OffsetRange
from spark_kafka_native.spark.source.reader import read_ranges
from spark_kafka_native.spark.source.schema import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """What all tasks of a load have in common; picklable."""

    place: StorageLocation
    load_id: str
    source: SourceOptions
    layout: Layout
    format: FileFormat

    def run(self, piece: OffsetRange) -> Written:
        """Load one range. Raises TaskError, OSError, ReloadError: records or their topic are gone since the plan."""
        batches = read_ranges(self.source, self.layout, [piece])
        try:
            return write_piece(self.place.open(), self.format, self.load_id, piece, batches)
        except DataLossError as error:
            if error.code == f"KAFKA_DATA_LOSS.{DataLossKind.TOPIC_RECREATED}":
                raise changed(f"topic {piece.topic} was deleted and created again") from error
            if error.code == f"KAFKA_DATA_LOSS.{DataLossKind.OFFSET_CHANGED}":
                raise changed(f"the log of {piece.topic_partition} was truncated") from error
            raise ReloadError(
                f"records of {piece} were deleted while the load ran, so nothing of it is visible; run it again, with "
                "--accept-data-loss to go on behind them"
            ) from error


def write_piece(
    storage: Storage, form: FileFormat, load_id: str, piece: OffsetRange, batches: Iterable[pa.RecordBatch]
) -> Written:
    """The records of a range into a new file; no file where there are no records."""
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
        except Exception:  # whatever it was: no half a file is left, and the error goes on
            with contextlib.suppress(Exception):  # what cannot be removed is left to a clean
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
