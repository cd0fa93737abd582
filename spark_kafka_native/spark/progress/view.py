"""Running queries as a table that keeps itself up to date, in a terminal or a notebook.

    watch(spark)                 until all queries have ended, or Ctrl-C, or the notebook's stop button

``watch`` only looks: it neither stops nor starts a query.
"""

import importlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spark_kafka_native.spark.progress.report import QueryReport, report_of

_NUMBERS: Final = ("batch", "rows", "rows/s", "bytes/s", "behind", "most\nbehind", "trigger")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """One query at a moment."""

    name: str
    status: str
    """``running``, ``ended`` or what it failed with."""
    report: QueryReport | None
    """Of its last micro-batch; None before the first."""


def query_states(queries: Iterable[StreamingQuery]) -> list[QueryState]:
    """Look at queries once. The name of one without a name is the first part of its id."""
    return [_state(query) for query in queries]


def progress_table(states: Sequence[QueryState]) -> Table:
    """The states as a table; in a notebook, the last expression of a cell is enough to show it.

    ``bytes/s`` is left out where no query has it. In a narrow terminal names are cut before numbers are.
    """
    rows = [_cells(state.report) for state in states]
    shown = [column for column, title in enumerate(_NUMBERS) if title != "bytes/s" or any(row[column] for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("query", min_width=len("query"), overflow="ellipsis")
    table.add_column("state", min_width=len("running"), overflow="fold")
    for column in shown:
        table.add_column(_NUMBERS[column], justify="right", no_wrap=True)
    for state, row in zip(states, rows, strict=True):
        table.add_row(Text(state.name), Text(state.status), *(row[column] for column in shown))
    return table


def watch(
    spark: SparkSession,
    queries: Sequence[StreamingQuery] | None = None,
    *,
    every_s: float = 1.0,
    for_s: float | None = None,
    console: Console | None = None,
) -> list[QueryState]:
    """Show queries until all have ended, ``for_s`` seconds are over or Ctrl-C is pressed; their last states.

    ``queries``: those to show; None: all that are active when it is called. Looks every ``every_s`` seconds.
    """
    watched = spark.streams.active if queries is None else list(queries)
    screen = console or Console()
    states = query_states(watched)
    deadline = None if for_s is None else time.monotonic() + for_s
    show = _Notebook() if screen.is_jupyter else _Terminal(screen)
    with show:
        try:
            while True:
                show.update(progress_table(states))
                if not any(state.status == "running" for state in states):
                    break
                if deadline is not None and time.monotonic() >= deadline:
                    break
                time.sleep(every_s if deadline is None else max(min(every_s, deadline - time.monotonic()), 0))
                states = query_states(watched)
        except KeyboardInterrupt:
            pass
    return states


class _Terminal:
    """A table that is drawn over itself; one that cannot be, because the output is a file, is printed once."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, table: Table) -> None:
        """Draw it."""
        self._live.update(table, refresh=True)


class _Notebook:
    """A table in the output of a cell, which is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __enter__(self) -> None:
        """Nothing is shown yet."""

    def __exit__(self, *_: object) -> None:
        """The last table stays."""

    def update(self, table: Table) -> None:
        """Show it."""
        if self._handle is None:
            notebook: Any = importlib.import_module("IPython.display")  # there in notebooks only
            self._handle = notebook.display(table, display_id=True)
        else:
            self._handle.update(table)


def _state(query: StreamingQuery) -> QueryState:
    # Order matters: progress that was made before the end is seen even if the query ends while it is looked at.
    active = query.isActive
    last = query.lastProgress
    failure = None if active else query.exception()
    status = "running" if active else "ended"
    if failure is not None:
        status = "failed: " + (str(failure).splitlines() or [type(failure).__name__])[0]
    return QueryState(
        name=query.name or str(query.id)[:8],
        status=status,
        report=None if last is None else report_of(_json_of(last)),
    )


def _json_of(progress: Any) -> str:
    """Spark 4 hands an object over, whose ``json`` is its text."""
    told: str = progress.json
    return told


def _cells(report: QueryReport | None) -> tuple[str, ...]:
    if report is None:
        return ("",) * len(_NUMBERS)
    lag = report.lag
    return (
        f"{report.batch_id:,}",
        f"{report.rows:,}",
        f"{report.rows_per_s:,.0f}",
        "" if report.bytes_per_s is None else _size(report.bytes_per_s),
        "" if lag is None else f"{lag.total_offsets:,}",
        "" if lag is None else f"{lag.max_offsets:,}",
        f"{report.trigger_ms:,} ms",
    )


def _size(size_bytes: float) -> str:
    for unit in _UNITS:
        if size_bytes < 1000 or unit == _UNITS[-1]:
            break
        size_bytes /= 1000
    return f"{size_bytes:,.0f} {unit}" if unit == _UNITS[0] else f"{size_bytes:,.1f} {unit}"
