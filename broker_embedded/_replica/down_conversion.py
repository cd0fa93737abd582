"""Down-conversion for consumers that know only message formats v0 or v1: Fetch v0 and v1, and v2 and v3.

Batches of a newer format are converted one by one, and the result is in memory until it is sent. The last message of a
response may be incomplete, as in these versions, but the first batch is complete if it was complete as stored. A batch
that is larger as stored than the limit is read completely too, so that the consumer gets the messages that fit.

Control batches are dropped, because the old formats have none. If nothing else is left, the following batches are read,
because after a response without messages the consumer would repeat the request forever.
"""

from typing import Final

from broker_embedded._log.log import Log
from broker_embedded._log.view import bytes_of
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.wire import FileRegion
from spark_kafka_native._records.batch import CompressionType, CorruptBatch
from spark_kafka_native._records.conversion import convert_down
from spark_kafka_native._records.formats import iter_any

_MIN_BYTES: Final = 1
"""The limit to read one batch, which is returned completely."""
_MAX_RECORDS: Final = 500_000
"""Upper bound of the converted records of a partition, some seconds of work. The batch that exceeds it is the last."""


def down_convert(
    log: Log,
    offset: int,
    regions: tuple[FileRegion, ...],
    *,
    magic: int,
    until_offset: int,
    cancellation: Cancellation = NEVER_CANCELLED,
) -> bytes | tuple[FileRegion, ...]:
    """Convert ``regions``, read from ``offset`` on, to format ``magic`` or an older one; unchanged if they are in it.

    Nothing from ``until_offset`` on is read. Blocks.

    Raises KafkaError: UNSUPPORTED_VERSION, the topic has ``message.downconversion.enable=false``.
    UNSUPPORTED_COMPRESSION_TYPE: the first batch is in zstd, which the old formats do not have. CORRUPT_MESSAGE. As
    ``LogReader.read``. WorkCancelled.
    """
    if not log.config.message_downconversion_enable and log.config.record_magic > magic:
        detail = f"{log}: records cannot be converted to message format v{magic}: message.downconversion.enable=false"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
    limit = sum(map(len, regions))
    try:
        stored = bytes_of(regions)
        whole_as_read = next(iter_any(stored), None) is not None
        if stored and not whole_as_read:
            stored = bytes_of(log.reader.read(offset, max_bytes=_MIN_BYTES, upper_bound_offset=until_offset).regions)
        if all(header.magic <= magic for _, header in iter_any(stored)):
            return regions
        pieces: list[bytes] = []
        while stored and not pieces:
            pieces, offset = _converted(stored, offset, magic, limit, cancellation)
            if not pieces:
                following = log.reader.read(offset, max_bytes=max(limit, _MIN_BYTES), upper_bound_offset=until_offset)
                stored = bytes_of(following.regions)
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log}: {error}") from error
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log}: {error}") from error
    first = len(pieces[0]) if pieces and whole_as_read else 0
    return b"".join(pieces)[: max(limit, first)]


def _converted(
    stored: bytes, offset: int, magic: int, limit: int, cancellation: Cancellation
) -> tuple[list[bytes], int]:
    """The complete batches of ``stored``, converted, and the offset after the last one that was read.

    Batches after ``limit`` bytes or `_MAX_RECORDS` are not read, nor after one in zstd.
    """
    view = memoryview(stored)
    pieces: list[bytes] = []
    size = records = 0
    next_offset = offset
    for position, header in cancellation.between(iter_any(stored)):
        if header.compression is CompressionType.ZSTD and not header.is_control:
            if not pieces:
                detail = (
                    f"the batch at offset {header.base_offset} is in zstd, which message format v{magic} does not have"
                )
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail)
            break
        piece = convert_down(view, position, header, magic=magic, from_offset=offset, each=cancellation.between)
        if piece:
            pieces.append(piece)
            size += len(piece)
        next_offset = max(next_offset, header.next_offset)
        records += max(header.records_count, 0)  # the count of a wrapper is unknown
        if size >= limit or (pieces and records >= _MAX_RECORDS):
            break
    return pieces, next_offset
