"""What the rows of a benchmark of source or sink are like, and which of these shapes one run measures."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

BATCH, STREAM, STEADY = "batch", "stream", "stream-steady"
MODES: Final = (BATCH, STREAM, STEADY)
KEYED, KEYLESS, VARYING = "keyed", "keyless", "varying"
ROWS: Final = (KEYED, KEYLESS, VARYING)
"""Keys of 10 bytes; no keys; keys, and values of 0.1 to 1.9 times the size."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS: Final = (4, 1, 64)
BYTES: Final = (100, 1_000, 10_000)
VARIED_BYTES: Final = (100, 1_000)
"""Sizes of which more than the usual shape is measured, unless sizes are given."""
USUAL_TASKS: Final = 4
MANY_TASKS: Final = 64
PARTS: Final = (4, 16)
"""Of the rows, one of so many: the sizes of the fit beside all rows."""
COLUMNS: Final = ("value", "key,value,timestamp")
"""Of rows that are read with a schema of one's own."""
AXES: Final = ("rows", "columns", "codec", "partitions", "size")
QUICK_SCALE: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rows of one kind, the topic they are in, and the number of Spark's tasks."""

    value_bytes: int
    """The mean, where they vary."""
    count: int
    """Number of rows."""
    kind: str = KEYED
    codec: str = "none"
    partitions: int = PARTITIONS[0]
    tasks: int = USUAL_TASKS
    part: int = 1
    """The usual number of rows, divided by this."""
    columns: str = ""
    """The ones that are read, with commas between them; all of them if empty."""

    @property
    def rows(self) -> str:
        """Of what kind they are, and what is read of them."""
        return f"{self.kind}, {self.columns.replace(',', ', ')} only" if self.columns else self.kind

    @property
    def key_bytes(self) -> int:
        """Bytes of each key; 0 for no keys."""
        return 0 if self.kind == KEYLESS else 10

    @property
    def sizes(self) -> tuple[int, int]:
        """The shortest and the longest value."""
        spread = self.value_bytes * 9 // 10 if self.kind == VARYING else 0
        return self.value_bytes - spread, self.value_bytes + spread

    @property
    def is_usual(self) -> bool:
        """Whether nothing but the size of a value is varied."""
        return self == Shape(value_bytes=self.value_bytes, count=self.count)

    @property
    def is_part(self) -> bool:
        """Whether it is one of the sizes that are there for the fit alone."""
        return self.part > 1

    def __str__(self) -> str:
        tasks = "" if self.tasks in {self.partitions, USUAL_TASKS} else f", {self.tasks} tasks"
        topic = f"{self.value_bytes:,} B, {self.rows}, {self.codec}, {self.partitions} partitions"
        return f"{topic}{tasks}, {self.count:,} rows"


def add_axes(parser: argparse.ArgumentParser) -> None:
    """The options that `shapes` reads, and ``--modes``."""
    parser.add_argument("--modes", type=_names(MODES), metavar="M,M", default=list(MODES), help=f"({','.join(MODES)})")
    parser.add_argument("--bytes", type=sizes, metavar="N,N", help="sizes of values")
    parser.add_argument(
        "--vary", type=_names(AXES), metavar="A,A", default=list(AXES), help=f"beside the sizes ({','.join(AXES)})"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows (%(default)s)")


def sizes(given: str) -> list[int]:
    """Of values, as a command line has them."""
    return [int(size) for size in given.split(",")]


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parsed(given: str) -> list[str]:
        names = [name for name in given.split(",") if name]
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(known)}")
        return names

    return parsed


def shapes(
    options: argparse.Namespace, counts: Mapping[int, int], *, reading: bool
) -> Iterator[tuple[Shape, Sequence[str]]]:
    """Each shape with the modes to measure it in: the usual ones first, in all modes.

    ``counts`` has the number of rows for each size of a value. What is varied is measured in the first mode only, but
    the number of rows in all but ``stream-steady``. A source reads each partition in a task, and can choose columns.
    """
    chosen = options.bytes or BYTES
    usual = [_scaled(Shape(value_bytes=size, count=counts[size]), options.scale) for size in chosen]
    yield from ((shape, options.modes) for shape in usual)
    for shape in usual:
        if not options.bytes and shape.value_bytes not in VARIED_BYTES:
            continue
        for axis, changed in _changes(shape, reading):
            if axis in options.vary:
                modes = [mode for mode in options.modes if mode != STEADY] if axis == "size" else options.modes[:1]
                yield _scaled(changed, 1.0), modes


def _changes(shape: Shape, reading: bool) -> Iterator[tuple[str, Shape]]:
    for kind in ROWS[1:]:
        yield "rows", replace(shape, kind=kind)
    for columns in COLUMNS if reading else ():
        yield "columns", replace(shape, columns=columns)
    for codec in CODECS[1:]:
        yield "codec", replace(shape, codec=codec)
    for partitions in PARTITIONS[1:]:
        tasks = partitions if reading else USUAL_TASKS
        yield "partitions", replace(shape, partitions=partitions, tasks=tasks)
    for part in PARTS:
        yield "size", replace(shape, part=part, count=shape.count // part)
    partitions = MANY_TASKS if reading else shape.partitions
    least = replace(shape, part=PARTS[-1], count=shape.count // PARTS[-1])
    yield "size", replace(least, tasks=MANY_TASKS, partitions=partitions)


def _scaled(shape: Shape, scale: float) -> Shape:
    """With as many rows in each partition, and in each task."""
    each = max(shape.partitions, shape.tasks)
    return replace(shape, count=max(round(shape.count * scale) // each, 1) * each)
