"""Records of several sizes, codecs and numbers of partitions, and the tables of who was how fast with which of them."""

import argparse
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.support.report import Cell, Report
from benchmarks.support.rounds import ratio, spread

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BYTES: Final = (100, 1_000, 10_000)
PARTITIONS: Final = (1, 4, 64)
USUAL_CODEC, USUAL_PARTITIONS = "none", 4
VARIED_BYTES: Final = (100, 1_000)
"""Sizes that codecs and partitions are varied with."""
ROWS: Final = {100: 4_000_000, 1_000: 1_000_000, 10_000: 120_000}
QUICK_SCALE: Final = 0.003

Found = Mapping[str, Sequence[float]]
"""Seconds of each round, by the name of who took part."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a topic has in it."""

    value_bytes: int
    codec: str
    partitions: int

    @property
    def is_usual(self) -> bool:
        """Whether nothing but the size is out of the ordinary."""
        return (self.codec, self.partitions) == (USUAL_CODEC, USUAL_PARTITIONS)

    def rows(self, scale: float) -> int:
        """How many records, as many in each partition; at ``scale`` 1 some hundreds of megabytes or a gigabyte."""
        rows = ROWS.get(self.value_bytes, 1_000_000_000 // (self.value_bytes + 100))
        return max(round(rows * scale) // self.partitions, 1) * self.partitions

    def __str__(self) -> str:
        return f"{self.value_bytes} B, {self.codec}, {self.partitions} partitions"


def add_axes(parser: argparse.ArgumentParser, modes: Sequence[str], *, scale: float = 1.0) -> None:
    """The options that `shapes` looks at, and ``--modes`` and ``--scale``."""
    parser.add_argument(
        "--modes", nargs="+", choices=modes, default=list(modes), metavar="MODE", help=f"({' '.join(modes)})"
    )
    parser.add_argument("--bytes", type=_numbers, metavar="N,N", help="sizes of values (100,1000,10000)")
    parser.add_argument("--codecs", type=_names, metavar="C,C", help=f"({','.join(CODECS)})")
    parser.add_argument("--partitions", type=_numbers, metavar="N,N", help="of a topic (1,4,64)")
    parser.add_argument("--scale", type=float, default=scale, help=f"of the number of records, {ROWS} (%(default)s)")
    parser.add_argument("--full", action="store_true", help="every combination of these, not one change at a time")


def _numbers(given: str) -> list[int]:
    return [int(number) for number in given.split(",")]


def _names(given: str) -> list[str]:
    if unknown := set(given.split(",")) - set(CODECS):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(CODECS)}")
    return given.split(",")


def shapes(options: argparse.Namespace) -> list[Shape]:
    """What is to be measured: the usual codec and number of partitions first, then one of them changed."""
    sizes, codecs, partitions = _axes(options)
    usual = _usual(options)
    varied = sizes if len(sizes) == 1 else VARIED_BYTES

    def changes(shape: Shape) -> int:
        return (shape.codec != usual[0]) + (shape.partitions != usual[1])

    every = [Shape(*combination) for combination in itertools.product(sizes, codecs, partitions)]
    if not options.full:
        every = [shape for shape in every if changes(shape) <= (shape.value_bytes in varied)]
    return sorted(every, key=lambda shape: changes(shape) > 0)


def modes_of(shape: Shape, options: argparse.Namespace) -> list[str]:
    """The modes to measure a shape in: all with the usual codec and number of partitions, the first with others."""
    unchanged = (shape.codec, shape.partitions) == _usual(options)
    return list(options.modes) if options.full or unchanged else list(options.modes)[:1]


def _axes(options: argparse.Namespace) -> tuple[Sequence[int], Sequence[str], Sequence[int]]:
    """Sizes, codecs and numbers of partitions."""
    few = options.quick
    sizes = options.bytes or (BYTES[:1] if few else BYTES)
    codecs = options.codecs or (("none", "zstd") if few else CODECS)
    partitions = options.partitions or ((USUAL_PARTITIONS,) if few else PARTITIONS)
    return sizes, codecs, partitions


def _usual(options: argparse.Namespace) -> tuple[str, int]:
    """The codec and the number of partitions from which one at a time is changed."""
    _, codecs, partitions = _axes(options)
    return (
        USUAL_CODEC if USUAL_CODEC in codecs else codecs[0],
        USUAL_PARTITIONS if USUAL_PARTITIONS in partitions else partitions[0],
    )


def rows_per_second(shape: Shape, seconds: Sequence[float], *, scale: float) -> float:
    """By the median of the rounds."""
    return shape.rows(scale) / statistics.median(seconds)


def fastest(found: Found, names: Sequence[str]) -> Sequence[float] | None:
    """The seconds of the fastest of those that took part; None if none did."""
    return min((found[name] for name in names if name in found), key=statistics.median, default=None)


def rows_beside(
    report: Report, what: str, shape: Shape, ours: Sequence[float], theirs: Sequence[float], *, scale: float
) -> None:
    """Tell the README how many rows a second were ours, and how many the JVM connector's."""
    rows = shape.rows(scale)
    mine, others = rows / statistics.median(ours), rows / statistics.median(theirs)
    report.beside(f"{what}, {shape.value_bytes:,} B", "rows/s", mine, "Spark's JVM connector", others)


def columns(ours: str, others: Sequence[str], compared: Sequence[str]) -> list[str]:
    """Of a table with `lines`."""
    return [
        *("value", "codec", "partitions", f"{ours} rows/s", "MB/s"),
        *(f"{other} rows/s" for other in others),
        *(f"{ours} / {other}" for other in compared),
        f"spread of {ours}",
    ]


def lines(
    found: Mapping[Shape, Found], ours: str, others: Sequence[str], compared: Sequence[str], *, scale: float
) -> Iterator[list[Cell]]:
    """A line for each shape: rows per second of all, and how many times as fast as those ``compared`` ours is."""
    for shape, seconds in found.items():
        rate = rows_per_second(shape, seconds[ours], scale=scale)
        yield [
            *(f"{shape.value_bytes:,} B", shape.codec, shape.partitions, round(rate)),
            round(rate * shape.value_bytes / 1e6),
            *(
                round(rows_per_second(shape, seconds[other], scale=scale)) if other in seconds else None
                for other in others
            ),
            *(ratio(seconds[ours], seconds[other]) if other in seconds else None for other in compared),
            f"{spread(seconds[ours]):.0%}",
        ]


def draw(figure: Any, title: str, found: Mapping[str, Mapping[Shape, Found]], *, scale: float) -> None:
    """Rows per second of all who took part in each mode, a panel for each size with the usual codec and partitions."""
    first = next(iter(found.values()))
    panels = [shape for shape in first if shape.is_usual] or list(first)[:1]
    names = list(dict.fromkeys(name for by_shape in found.values() for name in by_shape[panels[0]]))
    width = 1 / (len(names) + 1)
    for axes, shape in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for index, name in enumerate(names):
            bars = {
                place + index * width: rows_per_second(shape, by_shape[shape][name], scale=scale) / 1e6
                for place, by_shape in enumerate(found.values())
                if name in by_shape[shape]
            }
            axes.bar(list(bars), list(bars.values()), width=width, label=name)
        middle = (len(names) - 1) * width / 2
        axes.set_xticks([place + middle for place in range(len(found))], [mode.replace("-", "\n") for mode in found])
        axes.set_title(f"{shape.value_bytes:,} B")
    figure.axes[0].set_ylabel("million rows/s")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names))
    figure.suptitle(title)
