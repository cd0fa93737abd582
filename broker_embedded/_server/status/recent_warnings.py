"""The last warnings and errors in this process's log, for the status page."""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_LOGGERS: Final = ("broker_embedded", "spark_kafka_native")
_MAX_WARNINGS: Final = 100
_MAX_CHARS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWarning:
    """A warning or error in the log; ``time_ms`` is since the epoch."""

    time_ms: int
    level: str
    logger: str
    text: str


class RecentWarnings(logging.Handler):
    """Stores the last 100 warnings and errors of the two packages, each at most 1000 characters.

    It receives them from ``start`` to ``stop``.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._warnings: deque[LoggedWarning] = deque(maxlen=_MAX_WARNINGS)

    @property
    def warnings(self) -> Sequence[LoggedWarning]:
        """The warnings and errors, the last one first."""
        return tuple(reversed(self._warnings))

    def start(self) -> None:
        """Receive warnings."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def stop(self) -> None:
        """Receive no more warnings."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Store a warning. If there is no other handler, print it, as logging does without this one."""
        try:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                text = f"{text}: {record.exc_info[1]!r}"
            self._warnings.append(
                LoggedWarning(
                    time_ms=int(record.created * 1000),
                    level=record.levelname,
                    logger=record.name,
                    text=text[:_MAX_CHARS],
                )
            )
        except Exception:  # as every handler: an error in a message must not stop the program that logs it
            self.handleError(record)
        handlers = list(_handlers(record.name))
        is_first = bool(handlers) and handlers[0] is self  # two brokers in one process print a message once
        if logging.lastResort is not None and is_first and all(isinstance(each, RecentWarnings) for each in handlers):
            logging.lastResort.handle(record)


def _handlers(name: str) -> Iterator[logging.Handler]:
    """The handlers that receive the messages of a logger.

    Without `logging.getLogger`, whose lock `logging.config` holds while it waits for that of each handler.
    """
    found = logging.root.manager.loggerDict.get(name)
    current: logging.Logger | None = found if isinstance(found, logging.Logger) else logging.root
    while current is not None:
        yield from current.handlers
        current = current.parent if current.propagate else None
