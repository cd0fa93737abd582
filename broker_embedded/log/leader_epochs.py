"""At which offset each leader epoch of a partition began (KIP-101): ``leader-epoch-checkpoint``.

The file is a checkpoint with the rows ``epoch start_offset``, both ascending. It is written when the log is flushed,
not at each change: a batch carries its epoch in the header, from which recovery learns again what a crash lost.
"""

from itertools import pairwise

from broker_embedded.log.checkpoints import CorruptCheckpoint, read_rows, write_rows
from broker_embedded.platform.platform import FileSystem


class LeaderEpochs:
    """The epochs of one partition. Not safe to change from two threads."""

    def __init__(self, path: str, file_system: FileSystem) -> None:
        self._path = path
        self._file_system = file_system
        self._starts: list[tuple[int, int]] = []  # (epoch, first offset), both ascending
        self._saved: list[tuple[int, int]] | None = None
        self._highest = 0

    def load(self) -> None:
        """Read the file, if there is one. Raises OSError, CorruptCheckpoint; then no epochs are known."""
        rows = read_rows(self._file_system, self._path, 2)
        try:
            starts = [(int(epoch), int(offset)) for epoch, offset in rows]
        except ValueError as error:
            raise CorruptCheckpoint(self._path, str(error)) from None
        if any(not (a[0] < b[0] and a[1] <= b[1]) for a, b in pairwise(starts)):
            raise CorruptCheckpoint(self._path, "epochs do not ascend")
        self._starts = starts
        self._saved = list(starts)
        self._highest = starts[-1][0] if starts else 0

    def save_if_changed(self) -> bool:
        """Bring the file up to date; whether it was written, and so the directory is to be synced. Raises OSError."""
        starts = list(self._starts)
        if starts == self._saved:
            return False
        write_rows(self._file_system, self._path, starts, sync_directory=False)
        self._saved = starts
        return True

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of every epoch known, ascending."""
        return tuple(self._starts)

    @property
    def latest(self) -> int | None:
        """The last epoch."""
        return self._starts[-1][0] if self._starts else None

    @property
    def highest(self) -> int:
        """The last epoch that the log is known to have had, 0 if none is; its leader may never have written."""
        return max(self._highest, self.latest or 0)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Say that the batch at ``start_offset`` is of ``epoch``; of interest only if that is a new one."""
        if epoch >= 0 and (not self._starts or epoch > self._starts[-1][0]):
            # An epoch that began at the same offset never had a record.
            self._starts = [*(entry for entry in self._starts if entry[1] < start_offset), (epoch, start_offset)]

    def epoch_of(self, offset: int) -> int | None:
        """The epoch that an offset was written in."""
        return next((epoch for epoch, start in reversed(self._starts) if start <= offset), None)

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """The last epoch up to ``epoch`` that is known, and where it ended (KIP-279); None for an epoch yet to come.

        Of an epoch before all that are known only the end is: where the first known one began.
        """
        if epoch == self.latest:
            return epoch, log_end_offset
        later = next((start for known, start in self._starts if known > epoch), None)
        if epoch < 0 or later is None:
            return None
        return next((known for known, _ in reversed(self._starts) if known <= epoch), epoch), later

    def clear(self) -> None:
        """Forget every epoch: the log goes on in a message format that has no place for them."""
        self._starts = []

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at or behind the log's new end."""
        self._starts = [entry for entry in self._starts if entry[1] < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before the log's new start; the one that goes on there begins there."""
        current = self.epoch_of(start_offset)
        later = [entry for entry in self._starts if entry[1] > start_offset]
        self._starts = later if current is None else [(current, start_offset), *later]
