"""File descriptors: how many this process may have, and how they are shared between log files and connections."""

import contextlib
import errno
import resource
from typing import Final

OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a call that found no free descriptor. Such a call has changed nothing and may be repeated."""
_WANTED: Final = 65_536
"""Enough for 4,096 log files and 61,000 connections."""
_MOST_FILES: Final = 4096
_LEAST_FILES: Final = 16
_OTHERS: Final = 64
"""Descriptors for everything else: listeners, the event loop, checkpoints, metrics, the program around the broker."""


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard limit, as the JVM does for Apache Kafka.

    The limit is never lowered, and stays as it is where the system does not allow more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def file_share() -> int:
    """Log files to keep open: half of the limit, 4096 at most."""
    limit = _limit()
    return _MOST_FILES if limit is None else max(_LEAST_FILES, min(_MOST_FILES, limit // 2))


def connection_share() -> int | None:
    """Connections that may be open at once, so that log files keep their share; None: no limit."""
    limit = _limit()
    return None if limit is None else max(1, limit - file_share() - min(_OTHERS, limit // 8))


def _limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
