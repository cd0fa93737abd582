import io

import pytest
from rich.console import Console
from rich.table import Table

from spark_kafka_native._jobs.batch_reload.clean import Unneeded
from spark_kafka_native._jobs.batch_reload.report import (
    cleaned_line,
    complaints,
    loaded_line,
    plan_table,
    progress_bar,
    report_table,
)
from spark_kafka_native._jobs.batch_reload.verify import Checked, RangeVerdict, Report
from tests.support.spark.reload_driver import ReloadDriver


def printed(table: Table) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=120).print(table)
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


@pytest.mark.feature("reload.dryRun")
def test_plan_table_has_counts(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 1500)
    driver.load(max_records_per_task=1000)
    driver.produce("t", 0, 500)
    driver.produce("t", 1, 10)
    driver.age_out("t", 0, 1600)
    lines = printed(plan_table(driver.plan(driver.version(), max_records_per_task=300, accept_loss=True)))
    assert lines[0] == "partition from until offsets tasks files"
    assert lines[2:] == ["t-0 1,600 2,000 400 2 offsets [1500, 1600) were deleted", "t-1 0 10 10 1", "all 410 3"]
    driver.age_out("t", 0, 0)
    again = printed(plan_table(driver.plan(driver.version(), "earliest")))
    assert again[2] == "t-0 0 2,000 2,000 1 replaces 2"


def checked(verdict: RangeVerdict, *, rows: int = 1000, counted: int = 1000) -> Checked:
    return Checked(
        topic="t",
        partition=0,
        from_offset=0,
        until_offset=1000,
        path="a.json",
        verdict=verdict.value,
        rows=rows,
        counted=counted,
    )


@pytest.mark.feature("reload.verify")
def test_report_table_has_verdicts_and_errors() -> None:
    report = Report(
        version=3,
        problems=("t-0 offsets [5, 6) are in no file",),
        checked=(checked(RangeVerdict.SAME), checked(RangeVerdict.SAME), checked(RangeVerdict.DIFFERENT, counted=999)),
    )
    assert printed(report_table(report))[2:] == ["t different 1 1,000", "t same 2 2,000"]
    assert complaints(report) == [
        "t-0 offsets [5, 6) are in no file",
        "t-0 offsets [0, 1000) different: 1,000 rows, 999 in the topic (a.json)",
    ]
    many = Report(version=3, problems=(), checked=(checked(RangeVerdict.MISSING),) * 300)
    assert complaints(many)[-1] == "and 100 more"


def test_result_lines_of_load_and_clean(driver: ReloadDriver) -> None:
    driver.produce("t", 0, 1500)
    plan = driver.plan(None, max_records_per_task=1000)
    made = driver.load(max_records_per_task=1000)
    assert made is not None
    said = loaded_line(made, made.load_id, plan, "/data")
    assert said == "loaded 1,500 records in 2 files of 1 partition into /data, version 1"
    appended = loaded_line(made, "another", plan, "jdbc")
    assert appended == "loaded 1,500 offsets of 1 partition into jdbc, version 1"
    removed = Unneeded(dead_loads=("d",), versions=(1, 2), files=("a",), leases=(), bytes=1000)
    assert cleaned_line(removed) == "removed 1 file (1,000 bytes, of 1 dead run among others) and 2 versions"


@pytest.mark.feature("reload.progress")
def test_bar_counts_tasks() -> None:
    out = io.StringIO()
    with progress_bar(Console(file=out, width=100)) as progress:
        bar = progress.add_task("load", total=7)
        progress.update(bar, completed=7)
    assert "7/7" in out.getvalue()
