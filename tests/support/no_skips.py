"""``--no-skips``: a test that is skipped fails, so that a run shows what it claims to show.

A pytest plugin. A run that lacks the compiled kernel, Java or a client library would be green without it.
"""

from collections.abc import Generator
from typing import Any

import pytest

OPTION = "--no-skips"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="a test or module that is skipped fails")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption(OPTION) and not hasattr(report, "wasxfail"):
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption(OPTION):
        _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped":
        return
    where: Any = report.longrepr
    reason = where[2] if isinstance(where, tuple) else where
    report.outcome = "failed"
    report.longrepr = f"{OPTION}: {reason}"
