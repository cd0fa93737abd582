"""Columns to records."""

from typing import TypeAlias

from spark_kafka_native._records._kernel.memory import Allocate, Buffer

Strings: TypeAlias = tuple[Buffer | None, Buffer, int, Buffer]
"""Data, offsets, where in the offsets to begin, lengths."""

class Measured:
    """Records measured, and ready to be written in any order."""

    sizes: bytes

    def __init__(
        self,
        rows: int,
        keys: Strings | None,
        values: Strings | None,
        counts: Buffer | None,
        header_keys: Strings | None,
        header_values: Strings | None,
    ) -> None: ...
    def encode(
        self, rows: Buffer, firsts: Buffer, timestamps: Buffer, header_bytes: int, allocate: Allocate
    ) -> tuple[Buffer, Buffer]: ...
