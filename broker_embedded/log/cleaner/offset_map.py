"""The last offset of each key, in a bounded amount of memory: what a compaction goes by.

Keys are not kept, only 128 bits made from each, so that a key costs 24 bytes however long it is; with 5 million keys
two of them fall together once in 10**25 compactions. Apache Kafka's map has the same size per key and uses MD5. Here it
is Python's keyed hash (SipHash, which nobody outside the process can foresee), of the key and of the key with a byte
behind it: an eighth of the time.
"""

from array import array
from collections.abc import Iterable
from typing import Final

from broker_embedded.config.log_config import SLOT_BYTES

_HIGHEST: Final = 1 << 63
_MASK: Final = (1 << 64) - 1
_SECOND: Final = b"\x01"


class OffsetMap:
    """Offsets by key. An open hash table: three arrays, a slot of each for a key, the next free slot after a clash.

    ``capacity`` is the number of keys; ``load_factor`` how full the table may become, below 1 for it to be fast.
    """

    def __init__(self, capacity: int, load_factor: float = 0.9) -> None:
        self.capacity = max(1, capacity)
        self._slots = max(self.capacity + 1, int(self.capacity / max(load_factor, 0.01)))
        empty = bytes(8 * self._slots)
        self._first = array("Q", empty)  # its highest bit is set where a slot is taken
        self._second = array("Q", empty)
        self._offsets = array("q", empty)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def size_in_bytes(self) -> int:
        """Bytes of memory."""
        return self._slots * SLOT_BYTES

    def put_all(self, records: Iterable[tuple[bytes, int]]) -> int | None:
        """Say that these keys were last seen at these offsets, one after the other, until there is no room.

        The offset of the last record taken if there were more, -1 if none was; None if all were taken.
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
        """The last offset of a key, -1 if it is not here."""
        first, slots = self._first, self._slots
        high = hash(key) & _MASK | _HIGHEST
        low = hash(key + _SECOND) & _MASK
        slot = high % slots
        while (found := first[slot]) and (found != high or self._second[slot] != low):
            slot += 1
            if slot == slots:
                slot = 0
        return self._offsets[slot] if found else -1
