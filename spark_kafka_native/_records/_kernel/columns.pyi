"""Columns of byte strings in Arrow's layout."""

from spark_kafka_native._records._kernel.memory import Buffer

class Strings:
    """Int32 offsets, bytes, and a bitmap, which is None without nulls."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    nulls: int
