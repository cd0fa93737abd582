"""A listener that keeps the last reports of every query: ``spark.streams.addListener(LagListener())``."""

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

from spark_kafka_native.spark.progress.report import QueryReport, report_of

_log = logging.getLogger(__name__)

REPORTS_KEPT: Final = 100
"""Reports kept of each run of a query, the newest ones."""
ENDED_RUNS_KEPT: Final = 100
"""Runs whose reports are kept after their end."""


class LagListener(StreamingQueryListener):
    """Reports of the session's queries, newest last, for dashboards, alerts and tests.

    ``on_report`` is called with each report, on Spark's listener thread: be quick, or hand over. What it raises is
    logged and goes no further, so that one bad alert does not end the reports. Reading is safe from any thread.
    """

    def __init__(self, on_report: Callable[[QueryReport], object] | None = None) -> None:
        self._on_report = on_report
        self._lock = threading.Lock()
        self._reports: dict[str, deque[QueryReport]] = {}
        self._ended: deque[str] = deque()

    @property
    def latest(self) -> dict[str, QueryReport]:
        """The newest report of each run that has made one, by run id."""
        with self._lock:
            return {run_id: reports[-1] for run_id, reports in self._reports.items() if reports}

    def reports(self, run_id: str) -> tuple[QueryReport, ...]:
        """The reports of one run, oldest first; none for a run that is not known."""
        with self._lock:
            return tuple(self._reports.get(str(run_id), ()))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Make room for the run's reports."""
        with self._lock:
            self._reports.setdefault(str(event.runId), deque(maxlen=REPORTS_KEPT))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Keep the report of a micro-batch, and pass it on."""
        report = report_of(event.progress.json)
        with self._lock:
            self._reports.setdefault(report.run_id, deque(maxlen=REPORTS_KEPT)).append(report)
        if self._on_report is None:
            return
        try:
            self._on_report(report)
        except Exception:  # a user's function: what it raises must not end the listening
            _log.exception("on_report failed for batch %d of query %s", report.batch_id, report.query_id)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing to do: an idle query's last report stands."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Forget the run that ended longest ago, if there are too many."""
        with self._lock:
            self._ended.append(str(event.runId))
            if len(self._ended) > ENDED_RUNS_KEPT:
                self._reports.pop(self._ended.popleft(), None)
