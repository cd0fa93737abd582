import json
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kafka_native._spark.progress.listener import ENDED_RUNS_KEPT, REPORTS_KEPT, LagListener
from spark_kafka_native._spark.progress.report import QueryReport


class Runs:
    """`runs.started("r")`, `runs.batch("r", 3)`, `runs.ended("r")`: what Spark tells a listener."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def started(self, run: str) -> None:
        self._listener.onQueryStarted(SimpleNamespace(runId=run))

    def batch(self, run: str, number: int) -> None:
        progress = {"id": "q", "runId": run, "batchId": number, "timestamp": "", "sources": []}
        self._listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress))))

    def idle(self, run: str) -> None:
        self._listener.onQueryIdle(SimpleNamespace(runId=run))

    def ended(self, run: str) -> None:
        self._listener.onQueryTerminated(SimpleNamespace(runId=run))


def batches(reports: tuple[QueryReport, ...]) -> list[int]:
    return [report.batch_id for report in reports]


@pytest.mark.feature("more.listener")
def test_reports_of_each_run_are_kept_in_order() -> None:
    listener = LagListener()
    runs = Runs(listener)
    for run in ("a", "b"):
        runs.started(run)
    assert listener.latest == {}
    runs.batch("a", 0)
    runs.batch("b", 5)
    runs.batch("a", 1)
    runs.idle("a")
    assert batches(listener.reports("a")) == [0, 1]
    assert {run: report.batch_id for run, report in listener.latest.items()} == {"a": 1, "b": 5}
    assert listener.reports("never heard of") == ()


def test_kept_reports_are_bounded() -> None:
    listener = LagListener()
    runs = Runs(listener)
    for number in range(REPORTS_KEPT + 5):
        runs.batch("a", number)
    assert batches(listener.reports("a")) == list(range(5, REPORTS_KEPT + 5))
    runs.ended("a")
    assert listener.reports("a")
    for number in range(ENDED_RUNS_KEPT):
        runs.started(f"r{number}")
        runs.ended(f"r{number}")
    assert not listener.reports("a")


def test_failing_on_report_does_not_end_the_reports(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def callback(report: QueryReport) -> None:
        seen.append(report.batch_id)
        if report.batch_id == 0:
            raise ZeroDivisionError("a bad alert")

    listener = LagListener(callback)
    runs = Runs(listener)
    runs.batch("a", 0)
    runs.batch("a", 1)
    assert seen == [0, 1]
    assert batches(listener.reports("a")) == [0, 1]
    assert "on_report failed for batch 0 of query q" in caplog.text
    assert "a bad alert" in caplog.text
