"""Which batches have records to show, as far as that needs no decision."""

from collections.abc import Callable
from typing import Protocol

from spark_kafka_native._records._kernel.batch_headers import BatchHeaders
from spark_kafka_native._records._kernel.memory import Buffer

class Progress(Protocol):
    """How far a selection has come; what is passed over or taken changes it."""

    log_position: int
    next_offset: int
    rows: int
    payload_bytes: int
    first_position: int

def select(
    buffer: Buffer,
    headers: BatchHeaders,
    position: int,
    progress: Progress,
    from_offset: int,
    until_offset: int,
    target_rows: int,
    target_bytes: int,
    most_bytes: int,
    crc32c: Callable[[Buffer], int] | None,
    unpack: Callable[[int, int, int, int], tuple[int, int]],
    committed_only: bool,
    aborted_from: int,
    is_one_open: bool,
) -> tuple[int, bytes]: ...
