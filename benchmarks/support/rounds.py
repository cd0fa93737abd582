"""Rounds of cases that take turns: what is slow for a while is slow for all of them, and ratios stay true.

A case is a function. It returns how many seconds it took, timed by itself, or None and is timed from outside. What is
needed before and after, and is not to count, belongs into a case that times itself, or around `measure`.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Case = Callable[[], float | None]


def measure(
    cases: Mapping[str, Case], rounds: int, warmups: int = 1, *, title: str = "rounds"
) -> dict[str, list[float]]:
    """Seconds of every case, by its name, one for each round.

    Every round runs all cases once, the next one in the opposite order, so that no case always follows the same
    one. The first ``warmups`` rounds do not count.
    """
    names = list(cases)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=(rounds + warmups) * len(names))
        for turn in range(rounds + warmups):
            for name in names if turn % 2 else reversed(names):
                progress.update(bar, description=f"{title}: {name}")
                took = timed(cases[name])
                if turn >= warmups:
                    seconds[name].append(took)
                progress.advance(bar)
    if not console.is_terminal:  # there was no bar
        console.print(f"{title}: {', '.join(names)}: {rounds} rounds", soft_wrap=True)
    return seconds


def timed(case: Case) -> float:
    """Seconds of one run of a case."""
    started = time.perf_counter()
    took = case()
    return time.perf_counter() - started if took is None else took


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """How many times as fast the first case is as the second, by their medians."""
    return statistics.median(to) / statistics.median(of)
