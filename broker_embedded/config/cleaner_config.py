"""The ``log.cleaner.*`` settings as the log cleaner takes them."""

from dataclasses import dataclass
from typing import Final

SLOT_BYTES: Final = 24
"""Memory of one key in the offset map of a compaction (`log.cleaner.offset_map`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The settings of the log cleaner. Its threads share ``dedupe_buffer_size`` and ``io_buffer_size``, in bytes."""

    threads: int = 1
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 512 * 1024
    io_max_bytes_per_second: float = float("inf")


def keys_fit(size_in_bytes: int, load_factor: float) -> int:
    """The number of keys that an offset map of this size holds at this load factor."""
    return int(size_in_bytes // SLOT_BYTES * load_factor)
