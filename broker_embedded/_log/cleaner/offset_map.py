"""The last offset of each key, in a bounded amount of memory.

Only a hash of 128 bits of each key is stored, so that a key takes 24 bytes. With 5 million keys a collision happens
once in 10**25 compactions. Apache Kafka's map has the same size per key and uses MD5. Here Python's keyed hash
(SipHash, unpredictable outside of the process) of the key and of the key with an added byte is used, in an eighth of
the time.
"""

from array import array
from collections.abc import Iterable
from typing import Final

_HIGHEST: Final = 1 << 63
_MASK: Final = (1 << 64) - 1
_SECOND: Final = b"\x01"


class OffsetMap:
    """Offsets by key. A hash table with open addressing in three arrays, linear probing.

    ``capacity`` is the number of keys, ``load_factor`` the share of used slots, below 1 for short probes.
    """

    def __init__(self, capacity: int, load_factor: float = 0.9) -> None:
        self.capacity = max(1, capacity)
        self._slots = max(self.capacity + 1, int(self.capacity / max(load_factor, 0.01)))
        empty = bytes(8 * self._slots)
        self._first = array("Q", empty)  # the highest bit is set in used slots
        self._second = array("Q", empty)
        self._offsets = array("q", empty)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put_all(self, records: Iterable[tuple[bytes, int]]) -> int | None:
        """Set the last offsets of these keys, in order, until the map is full.

        None if all were added; else the offset of the last record that was added, -1 for none.
        """
        first, second, offsets, slots = self._first, self._second, self._offsets, self._slots
        last = -1
        for key, offset in records:
            if self._size >= self.capacity:
                return last
            high = hash(key) & _MASK | _HIGHEST
            low = hash(key + _SECOND) & _MASK
            slot = high % slots
            while (found := first[slot]) and (found != high or second[slot] != low):
                slot += 1
                if slot == slots:
                    slot = 0
            if not found:
                first[slot], second[slot] = high, low
                self._size += 1
            offsets[slot] = last = offset
        return None

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 for an unknown key."""
        first, slots = self._first, self._slots
        high = hash(key) & _MASK | _HIGHEST
        low = hash(key + _SECOND) & _MASK
        slot = high % slots
        while (found := first[slot]) and (found != high or self._second[slot] != low):
            slot += 1
            if slot == slots:
                slot = 0
        return self._offsets[slot] if found else -1
