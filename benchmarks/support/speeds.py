"""Tables and fits of rows per second: connectors of Spark side by side, by the shape of their rows."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.support.report import Cell, Report
from benchmarks.support.rounds import ratio
from benchmarks.support.shapes import Shape

OURS: Final = "pykafka"
JVM, TUNED, TUNED_OTHER = "JVM", "JVM tuned", "JVM tuned, other API"
RIVALS: Final = (JVM, TUNED, TUNED_OTHER)
STUB: Final = "stub"

Found = Mapping[str, Sequence[float]]
"""Seconds of each round, by the name of the connector."""
ByShape = Mapping[Shape, Found]


def rival(seconds: Found) -> str | None:
    """The fastest of the JVM connectors that took part; None if none did."""
    taking_part = [name for name in RIVALS if name in seconds]
    return min(taking_part, key=lambda name: statistics.median(seconds[name]), default=None)


def columns(others: Sequence[str]) -> list[str]:
    """Of a table with `lines`."""
    return [
        *("value", "rows", "codec", "partitions", "count"),
        *(f"{name}, M rows/s" for name in (OURS, *others)),
        "MB/s",
        *(f"x {name}" for name in others),
    ]


def lines(found: ByShape, others: Sequence[str]) -> Iterator[list[Cell]]:
    """A line for each shape: million rows per second of all connectors, and how many times as fast ours is.

    A speed is that of the median round; the slowest and the fastest round are in brackets. MB/s are of our values.
    """
    for shape, seconds in found.items():
        if shape.is_part:
            continue
        yield [
            *(f"{shape.value_bytes:,} B", shape.rows, shape.codec, shape.partitions, shape.count),
            *(_speeds(shape, seconds.get(name)) for name in (OURS, *others)),
            round(shape.count * shape.value_bytes / statistics.median(seconds[OURS]) / 1e6),
            *(ratio(seconds[OURS], seconds[name]) if name in seconds else None for name in others),
        ]


def _speeds(shape: Shape, seconds: Sequence[float] | None) -> Cell:
    if seconds is None:
        return None
    median, slowest, fastest = (
        shape.count / each / 1e6 for each in (statistics.median(seconds), max(seconds), min(seconds))
    )
    return f"{median:.3g} ({slowest:.3g}-{fastest:.3g})"


def beside(report: Report, what: str, shape: Shape, seconds: Found) -> None:
    """Give the README the rows per second of ours and of the fastest JVM connector."""
    theirs = rival(seconds)
    if theirs is None:
        return
    mine, others = (shape.count / statistics.median(seconds[name]) for name in (OURS, theirs))
    whom = f"Spark's JVM connector{'' if theirs == JVM else ', tuned'}"
    report.beside(f"{what}, {shape.value_bytes:,} B", "rows/s", mine, whom, others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The seconds of a query as a sum: of a query, of each task, of each row."""

    query_s: float
    task_ms: float
    row_us: float
    error: float
    """The largest difference from what was measured, as a share of it."""


def fit(points: Mapping[Shape, Sequence[float]]) -> Fit:
    """By least squares of the relative errors, over the medians of shapes with several numbers of rows and tasks."""
    seconds = np.array([statistics.median(each) for each in points.values()])
    terms = np.array([(1.0, shape.tasks, shape.count) for shape in points])
    found, *_ = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(seconds)), rcond=None)
    query, task, row = (float(each) for each in found)
    error = float(np.abs(terms @ found / seconds - 1).max())
    return Fit(query_s=query, task_ms=task * 1e3, row_us=row * 1e6, error=error)


FIT_COLUMNS: Final = ("", "by", "query, s", "each task, ms", "each row, µs", "largest error")


def fits(mode: str, found: ByShape) -> Iterator[list[Cell]]:
    """A line for each connector and size of values of which there are enough numbers of rows and tasks."""
    for size in dict.fromkeys(shape.value_bytes for shape in found):
        shapes = [shape for shape in found if shape.value_bytes == size and (shape.is_usual or shape.is_part)]
        if len({shape.tasks for shape in shapes}) < 2 or len({shape.part for shape in shapes}) < 2:
            continue
        names = [name for name in found[shapes[0]] if all(name in found[shape] for shape in shapes)]
        for name in names:
            each = fit({shape: found[shape][name] for shape in shapes})
            yield [f"{mode}, {size:,} B", name, each.query_s, each.task_ms, each.row_us, f"{each.error:.0%}"]
