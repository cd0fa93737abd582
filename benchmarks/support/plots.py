"""What several plots have in common."""

from typing import Any


def times_axis(axes: Any, what: str) -> None:
    """An x axis of multiples, twice and half at the same distance from once, which has a line."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415  # an extra, which numbers do not need

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel(what)
