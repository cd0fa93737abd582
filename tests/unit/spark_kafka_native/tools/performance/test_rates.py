"""The lines of tools that read, and their times."""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._tools.performance import rates
from spark_kafka_native._tools.performance.rates import RateTable, Read, date_format

BEGAN = 1_700_000_000.25


def table(monkeypatch: pytest.MonkeyPatch, **given: Any) -> RateTable:
    """A table of a run that begins at `BEGAN`."""
    monkeypatch.setattr(rates, "time", SimpleNamespace(time=lambda: BEGAN))
    defaults = {
        "date_format": "ss:SSS",
        "hide_header": False,
        "as_json": False,
        "show_detailed_stats": False,
        "reporting_interval": 5000,
    }
    return RateTable(SimpleNamespace(**{**defaults, **given}), first={"fetch.size": 7})


def test_the_line_of_a_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = table(monkeypatch)
    shown.note(Read(BEGAN + 7, 1, 1))
    shown.end(Read(BEGAN + 8, 100, 3 << 20))
    assert capsys.readouterr().out.splitlines() == [
        "start.time, end.time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec",
        "20:250, 28:250, 7, 3.0000, 0.3750, 100, 12.5000",
    ]


def test_lines_of_intervals_have_the_sums_and_the_rates_since_the_last_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = table(monkeypatch, show_detailed_stats=True, hide_header=True)
    assert (shown.is_due(BEGAN + 4.9), shown.is_due(BEGAN + 5)) == (False, True)
    shown.note(Read(BEGAN + 4, 10, 1 << 20))
    shown.note(Read(BEGAN + 5, 50, 1 << 20))
    shown.note(Read(BEGAN + 6, 60, 1 << 20))
    shown.end(Read(BEGAN + 7, 70, 2 << 20))
    assert capsys.readouterr().out.splitlines() == [
        "25:250, 7, 1.0000, 0.2000, 50, 10.0000",
        "27:250, 7, 2.0000, 0.5000, 70, 10.0000",
    ]


def test_json_has_the_names_of_the_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    table(monkeypatch, as_json=True).end(Read(BEGAN + 3, 1, 1 << 19))
    assert json.loads(capsys.readouterr().out) == {
        "start.time": "20:250",
        "end.time": "23:250",
        "fetch.size": 7,
        "data.consumed.in.MB": 0.5,
        "MB.sec": 0.1667,
        "data.consumed.in.nMsg": 1,
        "nMsg.sec": 0.3333,
    }


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2023-11-14 22:13:20:250"),
        ("dd.MM.yy 'at' HH'h' 100%", "14.11.23 at 22h 100%"),
        ("SSS''", "250'"),
    ],
)
def test_patterns_of_times(pattern: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert date_format(pattern)(BEGAN) == expected
    monkeypatch.undo()
    time.tzset()


def test_an_unknown_letter_of_a_pattern_is_named() -> None:
    with pytest.raises(InvalidOption, match=r"^--date-format: 'EEE' is not one of yyyy, yy, .*, SSS; letters stand in"):
        date_format("EEE yyyy")
