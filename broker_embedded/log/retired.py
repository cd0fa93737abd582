"""Segments that have left a log, and whose files are removed ``file.delete.delay.ms`` later."""

import logging
from collections.abc import Iterable

from broker_embedded.log.segment import LogSegment
from broker_embedded.platform.platform import FileSystem, remove_if_exists

logger = logging.getLogger(__name__)


class RetiredSegments:
    """Segments with the time from which their files may be removed. After a crash the next start removes the files.

    Times are those of ``Clock.elapsed_ms``, so that a clock that is set changes no delay.
    """

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._waiting: list[tuple[int, LogSegment]] = []

    @property
    def segments(self) -> list[LogSegment]:
        """Those whose files are not removed yet."""
        return [segment for _, segment in self._waiting]

    def add(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Remove the files of these segments from ``due_ms`` on."""
        self._waiting += [(due_ms, segment) for segment in segments]

    def take_due(self, elapsed_ms: int) -> list[LogSegment]:
        """The segments whose time has come; the caller passes them to ``remove``."""
        due = [segment for due_ms, segment in self._waiting if due_ms <= elapsed_ms]
        self._waiting = [(due_ms, segment) for due_ms, segment in self._waiting if due_ms > elapsed_ms]
        return due

    def remove(self, segments: Iterable[LogSegment]) -> int:
        """Remove the files of segments; how many there were. A file that cannot be removed stays until the next start.

        Responses that still contain regions of them are cut off, and their connections closed.
        """
        removed = 0
        for segment in segments:
            paths = segment.paths()
            segment.close()
            for path in paths:
                try:
                    removed += remove_if_exists(self._file_system, path)
                except OSError as error:
                    logger.warning("%s cannot be removed: %s", path, error)
        return removed

    def close(self) -> None:
        """Let the files close; none is removed."""
        for _, segment in self._waiting:
            segment.close()
