"""A listener that stores the last reports of every query: ``spark.streams.addListener(LagListener())``."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_kafka_native._spark.progress.report import QueryReport, report_of

_log = logging.getLogger(__name__)

REPORTS_KEPT: Final = 100
"""Most reports of each run of a query."""
ENDED_RUNS_KEPT: Final = 100
"""Most ended runs whose reports are kept."""


class LagListener(StreamingQueryListener):
    """A ``QueryReport`` of each micro-batch of the session's queries, for dashboards, alerts and tests.

    ``on_report`` is called with each report, on Spark's listener thread, which it must not block. Its exceptions are
    logged and do not end the reports. The last 100 reports of each run are kept, and those of the last 100 runs that
    ended. Reading is thread-safe.

    >>> lag = LagListener(lambda report: print(report.name, report.rows, report.lag))
    >>> spark.streams.addListener(lag)
    >>> spark.streams.removeListener(lag)
    """

    def __init__(self, on_report: Callable[[QueryReport], object] | None = None) -> None:
        self._on_report = on_report
        self._lock = threading.Lock()
        self._reports: dict[str, deque[QueryReport]] = {}
        self._ended: deque[str] = deque()

    @property
    def latest(self) -> dict[str, QueryReport]:
        """The newest report of each run, by run id."""
        with self._lock:
            return {run_id: reports[-1] for run_id, reports in self._reports.items() if reports}

    def reports(self, run_id: str) -> tuple[QueryReport, ...]:
        """The reports of one run, oldest first; none for an unknown run."""
        with self._lock:
            return tuple(self._reports.get(str(run_id), ()))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Create the run's list of reports."""
        with self._lock:
            self._reports.setdefault(str(event.runId), deque(maxlen=REPORTS_KEPT))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Store the report of a micro-batch, and call ``on_report``."""
        report = report_of(event.progress.json)
        with self._lock:
            self._reports.setdefault(report.run_id, deque(maxlen=REPORTS_KEPT)).append(report)
        if self._on_report is None:
            return
        try:
            self._on_report(report)
        except Exception:  # a user's function, whose errors must not end the listener
            _log.exception("on_report failed for batch %d of query %s", report.batch_id, report.query_id)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Do nothing: the last report of an idle query remains valid."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Delete the reports of the run that ended first, if there are too many."""
        with self._lock:
            self._ended.append(str(event.runId))
            if len(self._ended) > ENDED_RUNS_KEPT:
                self._reports.pop(self._ended.popleft(), None)
