"""Batches to columns."""

from collections.abc import Container

from spark_kafka_native._records._kernel.columns import Strings
from spark_kafka_native._records._kernel.memory import Allocate, Buffer

class Rows:
    """The requested columns, the others being None; ``count`` rows of each."""

    count: int
    key: Strings
    value: Strings
    offset: Buffer
    timestamp: Buffer
    timestamp_type: Buffer
    headers: Headers

class Headers:
    """Lists in Arrow's layout, null where there are none, of ``count`` keys and values."""

    validity: Buffer
    offsets: Buffer
    nulls: int
    count: int
    keys: Strings
    values: Strings

def decode(
    buffer: Buffer,
    scratch: Buffer,
    batches: Buffer,
    from_offset: int,
    until_offset: int,
    columns: Container[str],
    allocate: Allocate,
) -> Rows | None: ...
