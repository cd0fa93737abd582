"""The batches of a Fetch response, their headers read once, where the kernel has been built."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.batch import Buffer
from spark_kafka_native._records.errors import UnreadableBatch
from spark_kafka_native._records.formats import iter_any

if TYPE_CHECKING:
    from spark_kafka_native._records._kernel.batch_headers import BatchHeaders


class NextOffset(NamedTuple):
    """The next offset after the last complete batch, its leader epoch, and the error of the bytes after it, if any."""

    offset: int
    epoch: int
    error: UnreadableBatch | None


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a Fetch response from position ``start`` on; all positions count from its beginning.

    ``headers`` are those of its first batches, up to one that is not of format v2, or cut off, or damaged. Those after
    them, or all if it is None, are read one by one in plain Python.
    """

    view: memoryview
    start: int
    headers: "BatchHeaders | None"

    @classmethod
    def of(cls, buffer: Buffer) -> Self:
        """The batches of a buffer."""
        return cls(memoryview(buffer), 0, kernel.read_headers(buffer))

    @property
    def size(self) -> int:
        """Bytes that are left."""
        return len(self.view) - self.start

    def skip(self, size: int) -> Self:
        """The same without the first ``size`` bytes, which are whole batches."""
        return type(self)(self.view, self.start + size, self.headers)

    def before(self, position: int | None) -> Self:
        """The same without the bytes from ``position`` on."""
        rest = self.view[:position]
        return type(self)(rest, self.start, kernel.read_headers(rest))

    def next_offset(self, offset: int, epoch: int) -> NextOffset:
        """The next offset after the whole batches, if it is greater than ``offset``, else ``offset`` and ``epoch``."""
        position = self.start
        if self.headers is not None:
            offset, epoch, position = self.headers.next_offset(position, offset, epoch)
        try:
            for _, header in iter_any(self.view, position):
                if header.next_offset > offset:
                    offset, epoch = header.next_offset, header.partition_leader_epoch
        except UnreadableBatch as error:
            return NextOffset(offset, epoch, error)
        return NextOffset(offset, epoch, None)
