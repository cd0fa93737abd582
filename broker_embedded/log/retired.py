"""Files that have left a log and leave the disk a little later."""

import logging
from collections.abc import Sequence

from broker_embedded.platform import Platform, remove_if_exists

logger = logging.getLogger(__name__)


class RetiredFiles:
    """Paths with the time from which they may be removed. After a crash the next start removes them."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._waiting: list[tuple[int, Sequence[str]]] = []

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Remove these files once it is ``due_ms``."""
        self._waiting.append((due_ms, paths))

    def take_due(self, now_ms: int) -> list[str]:
        """The files whose time has come; they are the caller's to ``remove``."""
        due = [path for due_ms, paths in self._waiting if due_ms <= now_ms for path in paths]
        self._waiting = [(due_ms, paths) for due_ms, paths in self._waiting if due_ms > now_ms]
        return due

    def remove(self, paths: Sequence[str]) -> int:
        """Remove files; how many there were. One that cannot be removed stays for the next start."""
        removed = 0
        for path in paths:
            self._platform.open_files.forget(path)
            try:
                removed += remove_if_exists(self._platform.file_system, path)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", path, error)
        return removed
