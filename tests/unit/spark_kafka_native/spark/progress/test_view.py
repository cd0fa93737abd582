import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from spark_kafka_native._spark.progress.report import BYTES_OBSERVATION
from spark_kafka_native._spark.progress.view import progress_table, query_states, watch


class Query:
    """A query that makes one batch each time that it is looked at, until it ends or fails."""

    def __init__(self, name: str | None = None, *, batches: int = 1, failure: str | None = None) -> None:
        self.name = name
        self.id = "0123456789abcdef"
        self._left = batches
        self._failure = failure
        self._batch = -1

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        self._left -= 1
        return self._left >= 0

    def exception(self) -> Exception | None:
        return Exception(self._failure) if self._failure else None

    @property
    def lastProgress(self) -> Any:  # noqa: N802  # Spark's name
        self._batch += 1
        progress = {
            "id": self.id,
            "runId": "r",
            "batchId": self._batch,
            "timestamp": "",
            "durationMs": {"triggerExecution": 2000},
            "observedMetrics": {BYTES_OBSERVATION: {"bytes": 3_000_000}},
            "sources": [
                {
                    "numInputRows": 1234,
                    "processedRowsPerSecond": 617.0,
                    "endOffset": {"t": {"0": 10, "1": 0}},
                    "latestOffset": {"t": {"0": 2010, "1": 50}},
                }
            ],
        }
        return SimpleNamespace(json=json.dumps(progress))


class New(Query):
    lastProgress = None  # noqa: N815  # Spark's name


def drawn(*queries: Any, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(progress_table(query_states(queries)))
    return out.getvalue()


@pytest.mark.feature("more.progressView")
def test_progress_row_has_rate_and_lag() -> None:
    text = drawn(Query("copy"))
    for cell in ("copy", "running", "1,234", "617", "1.5 MB", "2,050", "2,000", "2,000 ms"):
        assert cell in text


def test_progress_row_of_a_query_without_a_name() -> None:
    text = drawn(New())
    assert "01234567" in text
    assert "running" in text


def test_progress_row_of_a_failed_query() -> None:
    text = drawn(Query("copy", batches=0, failure="[KAFKA_DATA_LOSS] gone\nand a long plan"))
    assert "failed: [KAFKA_DATA_LOSS] gone" in text
    assert "plan" not in text


class Counting(Query):
    @property
    def lastProgress(self) -> Any:  # noqa: N802  # Spark's name
        progress = json.loads(super().lastProgress.json) | {"observedMetrics": {}}
        return SimpleNamespace(json=json.dumps(progress))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_a_terminal_of_80_columns_shows_whole_words_and_numbers() -> None:
    """As README's example, which counts no bytes."""
    assert lines(drawn(Counting("visits"), width=80)) == [
        "                                                 max",
        " query   state    batch   rows  rows/s    lag    lag   trigger",
        " ─────────────────────────────────────────────────────────────",
        " visits  running      0  1,234     617  2,050  2,000  2,000 ms",
    ]


@pytest.mark.parametrize("kind", [Query, Counting])
def test_a_long_name_is_cut_in_a_narrow_terminal_and_nothing_else(kind: type[Query]) -> None:
    _, head, _, visits, copy = lines(
        drawn(kind("visits"), kind("copy-of-all-visits-into-the-archive-of-2026"), width=80)
    )
    assert [len(line) <= 80 for line in (head, visits, copy)] == [True] * 3
    assert visits.split()[:3] == ["visits", "running", "0"]
    name, *others = copy.split()
    assert name.startswith("copy-of-")
    assert name.endswith("…")
    assert others == visits.split()[1:]


def test_bytes_are_shown_if_a_query_counts_them() -> None:
    assert "bytes/s" not in drawn(Counting("a"), New())
    assert "bytes/s" in drawn(Counting("a"), Query("b"))


def test_a_failure_is_wrapped_between_words_in_a_narrow_terminal() -> None:
    text = drawn(Query("copy", batches=0, failure="topic visits was deleted and created again"), width=80)
    words = "failed: topic visits was deleted and created again 1,234 2,050 2,000 ms"
    assert set(words.split()) <= set(text.split())


@pytest.fixture
def session() -> Any:
    return SimpleNamespace(streams=SimpleNamespace(active=[Query("a", batches=3), Query("b", batches=1)]))


def test_watching_ends_with_the_last_query(session: Any) -> None:
    console = Console(file=io.StringIO(), width=120)
    states = watch(session, every_s=0.0, console=console)
    assert [state.status for state in states] == ["ended", "ended"]
    assert "ended" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO


def test_watching_ends_after_its_time(session: Any) -> None:
    endless = Query("endless", batches=10**9)
    states = watch(session, [endless], every_s=60.0, for_s=0.0, console=Console(file=io.StringIO()))  # type: ignore[list-item]  # a double
    assert [state.status for state in states] == ["running"]


def test_watching_ends_with_ctrl_c(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    states = watch(session, console=Console(file=io.StringIO()))
    assert [state.status for state in states] == ["running", "running"]


def test_a_notebook_has_one_output_that_is_replaced(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    handle = SimpleNamespace(update=lambda table: shown.append(("update", table.row_count)))

    def display(table: Any, *, display_id: bool) -> Any:
        assert display_id
        shown.append(("display", table.row_count))
        return handle

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    watch(session, every_s=0.0, console=Console(file=io.StringIO(), force_jupyter=True))
    assert shown[0] == ("display", 2)
    assert shown[1:] == [("update", 2)] * (len(shown) - 1)
    assert len(shown) > 2
