"""At which offset each leader epoch of a partition began (KIP-101): ``leader-epoch-checkpoint``.

The file is a checkpoint with the rows ``epoch start_offset``, both ascending. It is written when the log is flushed,
not at each change, because recovery reads the epochs again from the batch headers.
"""

from itertools import pairwise

from broker_embedded._log.checkpoints import CorruptCheckpoint, read_rows, write_rows
from broker_embedded._platform.platform import FileSystem


class LeaderEpochFileCache:
    """The epochs of one partition. Not safe to change from two threads."""

    def __init__(self, path: str, file_system: FileSystem) -> None:
        self._path = path
        self._file_system = file_system
        self._starts: list[tuple[int, int]] = []  # (epoch, first offset), both ascending
        self._saved: list[tuple[int, int]] | None = None
        self._highest = 0

    def load(self) -> None:
        """Read the file, if there is one. Raises OSError, CorruptCheckpoint: no epochs are known."""
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
        """Write the file if an epoch has changed; whether it was written and the directory must be synced.

        Raises OSError.
        """
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
        """The highest epoch that was assigned, 0 if none was. Its leader may not have appended."""
        return max(self._highest, self.latest or 0)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that the batch at ``start_offset`` has ``epoch``. Ignored unless the epoch is new."""
        if epoch >= 0 and (not self._starts or epoch > self._starts[-1][0]):
            # An epoch that began at the same offset never had a record.
            self._starts = [*(entry for entry in self._starts if entry[1] < start_offset), (epoch, start_offset)]

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch of the batch at an offset."""
        return next((epoch for epoch, start in reversed(self._starts) if start <= offset), None)

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """The last known epoch up to ``epoch`` and its end offset (KIP-279); None for a future epoch.

        The end offset of an epoch before all known ones is the start offset of the first known one.
        """
        if epoch == self.latest:
            return epoch, log_end_offset
        later = next((start for known, start in self._starts if known > epoch), None)
        if epoch < 0 or later is None:
            return None
        return next((known for known, _ in reversed(self._starts) if known <= epoch), epoch), later

    def clear(self) -> None:
        """Forget every epoch: the log continues in a message format without leader epochs."""
        self._starts = []

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at or after the log's new end."""
        self._starts = [entry for entry in self._starts if entry[1] < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before the log's new start. The epoch of that offset now begins there."""
        current = self.epoch_of(start_offset)
        later = [entry for entry in self._starts if entry[1] > start_offset]
        self._starts = later if current is None else [(current, start_offset), *later]
