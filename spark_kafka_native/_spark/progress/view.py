"""A table of running queries that is updated, in a terminal or a notebook.

    watch(spark)                 until all queries have ended, or Ctrl-C, or the notebook's stop button

``watch`` neither stops nor starts a query.
"""

import contextlib
import functools
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

from spark_kafka_native._spark.progress.report import QueryReport, report_of

_NUMBERS: Final = ("batch", "rows", "rows/s", "bytes/s", "lag", "max\nlag", "trigger")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of one query."""

    name: str
    """Without a name, the first part of the query's id."""
    status: str
    """``running``, ``ended`` or ``failed`` with the error."""
    report: QueryReport | None
    """Of its last micro-batch; None before the first."""


def query_states(queries: Iterable[StreamingQuery]) -> list[QueryState]:
    """The present states of queries. A query without a name has the first part of its id as name."""
    return [_state(query) for query in queries]


def progress_table(states: Sequence[QueryState]) -> Table:
    """The states as a table, which a notebook shows as the result of a cell.

    ``bytes/s`` is left out if no query counts bytes. In a narrow terminal names are shortened before numbers.
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
    """Show queries until all have ended, ``for_s`` seconds have passed or Ctrl-C is pressed; return their last states.

    ``queries``: the queries to show; None: those that are active at the call. The table in the terminal or notebook is
    updated every ``every_s`` seconds. ``console``: another terminal. No query is stopped or started.

    >>> states = watch(spark, for_s=0.5)
    <BLANKLINE>
    ...
    """
    watched = spark.streams.active if queries is None else list(queries)
    screen = console or Console()
    states = query_states(watched)
    deadline = None if for_s is None else time.monotonic() + for_s
    # Updated in place; if the output is a file, the table is printed once.
    live = None if screen.is_jupyter else Live(console=screen, auto_refresh=False)
    show = _Notebook().update if live is None else functools.partial(live.update, refresh=True)
    with live or contextlib.nullcontext():
        try:
            while True:
                show(progress_table(states))
                if not any(state.status == "running" for state in states):
                    break
                if deadline is not None and time.monotonic() >= deadline:
                    break
                time.sleep(every_s if deadline is None else max(min(every_s, deadline - time.monotonic()), 0))
                states = query_states(watched)
        except KeyboardInterrupt:
            pass
    return states


class _Notebook:
    """A table in a notebook cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def update(self, table: Table) -> None:
        """Show it."""
        if self._handle is None:
            notebook: Any = importlib.import_module("IPython.display")  # there in notebooks only
            self._handle = notebook.display(table, display_id=True)
        else:
            self._handle.update(table)


def _state(query: StreamingQuery) -> QueryState:
    # Read isActive first, so that the progress of a query that ends meanwhile is complete.
    active = query.isActive
    last: Any = query.lastProgress  # its stub says dict
    failure = None if active else query.exception()
    status = "running" if active else "ended"
    if failure is not None:
        status = "failed: " + (str(failure).splitlines() or [type(failure).__name__])[0]
    return QueryState(
        name=query.name or str(query.id)[:8], status=status, report=None if last is None else report_of(last.json)
    )


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
