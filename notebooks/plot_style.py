"""The style of all plots of the repository, of benchmarks as of notebooks: ``import plot_style`` in a notebook.

A system has one colour in all plots. The colours are those of Okabe and Ito, which colour-blind readers can tell apart.
Labels stand beside what they name; there are no legends.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
ORANGE, VERMILLION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
GREY, BLACK = "#888888", "#333333"

COLOURS: Final = {
    "pykafka": BLUE,
    "bundled broker": BLUE,
    "JVM connector": ORANGE,
    "JVM connector, tuned": VERMILLION,
    "Apache Kafka": VERMILLION,
    "stub": GREY,
    "confluent-kafka": BLACK,
    "aiokafka": GREEN,
    "kafka-python": PURPLE,
}
"""By system."""

STYLE: Final[dict[Any, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": BLACK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": BLACK,
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY]),
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.figsize": (9.0, 4.0),
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "font.size": 9.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "savefig.dpi": 120,
    "text.color": BLACK,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "ytick.left": False,
    "ytick.minor.left": False,
}


def figure(
    title: str, columns: int = 1, *, lines: int = 1, height: float = 4.0, note: str = "", **options: Any
) -> tuple[Any, Any]:
    """A figure in this style and its axes: a title above, a note below; ``options`` go to ``plt.subplots``."""
    plt.rcParams.update(STYLE)
    made, axes = plt.subplots(lines, columns, figsize=(9.0, height), **options)
    made.suptitle(title, x=0.01, ha="left")
    made.supxlabel(note, x=0.01, ha="left", fontsize=8.5)
    return made, axes


class DotPlot:
    """Rows of a plot, from top to bottom, some under headings: a dot, a whisker and a text each."""

    def __init__(self, axes: Any) -> None:
        self._axes = axes
        self._labels: list[str] = []
        self._headings: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a group of rows."""
        self._headings.append(text)
        self._labels.append(text)

    def row(self, name: str, values: tuple[float, float, float], colour: str, text: str = "") -> None:
        """Add a row; ``values`` as of `dot`."""
        dot(self._axes, len(self._labels), values, colour, text)
        self._labels.append(name)

    def name_rows(self) -> None:
        """Write the names of rows and headings on the y axis."""
        rows(self._axes, dict(enumerate(self._labels)), self._headings)


def dot(axes: Any, row: float, values: tuple[float, float, float], colour: str, text: str = "") -> None:
    """A dot with a whisker at a y position, and a text; ``values`` are the least, that of the dot, and the greatest."""
    low, middle, high = values
    axes.plot([low, high], [row, row], "|-", color=colour, linewidth=1.4, markersize=7)
    axes.plot(middle, row, "o", color=colour)
    label(axes, high, row, text, dx=8)


def low_median_high(values: Sequence[float]) -> tuple[float, float, float]:
    """The least value, the median, and the greatest."""
    return min(values), statistics.median(values), max(values)


def rows(axes: Any, labels: Mapping[float, str], headings: Collection[str] = ()) -> None:
    """Name rows on the y axis, which grows downwards: ``labels`` by y position; ``headings`` are bold."""
    axes.set_yticks(list(labels), list(labels.values()))
    axes.set_ylim(max(labels) + 0.6, min(labels) - 0.6)
    for tick in axes.yaxis.get_major_ticks():
        if tick.label1.get_text() in headings:
            tick.label1.set_weight("bold")
            tick.gridline.set_visible(False)


def label(axes: Any, x: float, y: float, text: str, colour: str = BLACK, *, dx: float = 6, dy: float = 0) -> None:
    """A text beside a point, some typographic points to its right: the name of the line that ends there."""
    ha = "left" if dx > 0 else "right" if dx < 0 else "center"
    axes.annotate(
        text,
        (x, y),
        (dx, dy),
        textcoords="offset points",
        ha=ha,
        va="center",
        color=colour,
        annotation_clip=False,
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )


def mark(axes: Any, x: float, text: str, colour: str = BLACK) -> None:
    """A vertical line with its name at the top: an event, such as a restart."""
    axes.axvline(x, color=colour, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.annotate(text, (x, 1.0), (4, -4), xycoords=("data", "axes fraction"), textcoords="offset points", va="top")


def plain_numbers(axis: Any) -> None:
    """Ticks as numbers with thousands apart, also on a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def multiples(axes: Any, *ticks: float) -> None:
    """A logarithmic x axis of ratios, with a line at 1x."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1.0, color=BLACK, linewidth=1.0)
