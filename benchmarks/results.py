"""The page of all results, their plots, and the part of the README that shows the most important: made from JSON alone.

    python -m benchmarks.results [--check]

Reads ``benchmarks/results/*.json``, writes ``docs/results.md`` and the marked part of ``README.md``, and draws
``benchmarks/results/*.png``.
``--check`` writes nothing, and fails if either is not what the JSON says.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from benchmarks.support.report import digest, format_cell
from docs.marked import replace_between

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = Path("benchmarks/results")
PAGE: Final = Path("docs/results.md")
README: Final = Path("README.md")
BEGIN: Final = "<!-- made by python -m benchmarks.results; edits up to the next mark are lost -->"
END: Final = "<!-- end of results -->"
ORDER: Final = (
    "source",
    "sink",
    "start",
    "latency",
    "fetch",
    "records",
    "planning",
    "worker",
    "broker",
    "growth",
    "profile",
    "settings",
)
"""The first ones; the others follow by name."""
MILLION: Final = 1_000_000
BY_SIZE: Final = (
    "read a batch",
    "read a stream",
    "read a stream, steady state",
    "write a batch",
    "write a stream",
    "write a stream, steady state",
)
SIZES: Final = ("100 B", "1,000 B", "10,000 B")
"""The README's first table has a row for each query and a column for each size of a value."""
IN_README: Final = (
    "short query: batch",
    "short query: stream",
    "short query: write",
    "short query: write-stream",
    "topic to topic, p50",
    "bundled broker: records of 1,000 B in",
    "bundled broker: records of 1,000 B out",
    "bundled broker: start",
)
"""The README's second table. The page of results shows all comparisons."""

_HEAD: Final = """\
# Results

`python -m benchmarks.results` makes this page and its plots from `benchmarks/results/*.json`; edits are lost. `make
bench` measures everything again. Single benchmarks run in the environment that it installs, for example
`.venv/bin/python -m benchmarks.source`; `.venv/bin/python -m benchmarks.all --list` lists them.

All rows of a table were measured in turn, in one run on one machine, with brokers and clients on this machine. Compare
the ratios, because rows per second depend on the machine. The docstring of each module describes what it measures.
"""
_NOTHING: Final = "\nThere are none yet.\n"

Result = dict[str, Any]


class ResultsError(Exception):
    """The results cannot be shown as they are."""


def load(root: Path) -> list[Result]:
    """All results, in the page's order. Raises ResultsError: one was made with tiny sizes."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((root / RESULTS).glob("*.json"))]
    for result in found:
        if result["quick"]:
            raise ResultsError(f"{result['name']}.json was made with --quick, which measures nothing")
    return sorted(found, key=lambda result: _place(result["name"]))


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def page(results: Sequence[Result], root: Path) -> str:
    """``docs/results.md``."""
    parts = [_HEAD]
    if not results:
        parts.append(_NOTHING)
    targets = [(result, target) for result in results for target in result["targets"]]
    if targets:
        reached = sum(target["reached"] for _, target in targets)
        parts.append(f"\n## Targets\n\n{reached} of {len(targets)} were reached.\n\n")
        parts.append(_targets(targets, ""))
    compared = [(result, each) for result in results for each in result["comparisons"]]
    if compared:
        parts.append(f"\n## Compared with others\n\n{_comparisons(compared, '')}")
    parts.extend(part for result in results for part in _section(result, root))
    return "".join(parts)


def _section(result: Result, root: Path) -> Iterator[str]:
    machine = "; ".join(f"{name}: {value}" for name, value in result["machine"].items())
    yield f"\n## {result['name']}\n\n**{result['title']}**\n\n"
    yield f"`{result['command']}`, commit {result['commit']}, {result['date']}\n\n"
    yield f"{machine}\n"
    for note in result["notes"]:
        yield f"\n{note}\n"
    if (root / RESULTS / f"{result['name']}.png").exists():
        yield f"\n![{result['title']}](../{RESULTS}/{result['name']}.png)\n"
    for table in result["tables"]:
        yield f"\n### {table['title']}\n\n" if table["title"] else "\n"
        yield _table(table["columns"], table["rows"])
    if result["targets"]:
        yield "\n"
        yield _targets([(result, target) for target in result["targets"]], None)


def _targets(targets: Sequence[tuple[Result, dict[str, Any]]], page: str | None) -> str:
    """A line for each; ``page`` is where the results are that their benchmarks' names lead to, None for no names."""
    rows = []
    for result, target in targets:
        wanted = f"{'at most' if target['at_most'] else 'at least'} {format_cell(target['wanted'])}"
        name = [] if page is None else [f"[{result['name']}]({page}#{result['name']})"]
        reached = "yes" if target["reached"] else "**no**"
        rows.append([*name, target["what"], wanted, format_cell(target["found"]), reached])
    return _table([*([] if page is None else ["benchmark"]), "target", "wanted", "found", "reached"], rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of Markdown; columns without text are set to the right."""
    text = [all(isinstance(row[index], str) for row in rows) for index in range(len(columns))]
    lines = [columns, ["---" if is_text else "---:" for is_text in text], *rows]
    return "".join(f"| {' | '.join(format_cell(cell).replace('|', '/') for cell in line)} |\n" for line in lines)


def headline(results: Sequence[Result]) -> str:
    """What the README shows, between its marks: our numbers beside those of others."""
    found = {each["what"]: (result, each) for result in results for each in result["comparisons"]}
    sized = [[found[name] for size in SIZES if (name := f"{what}, {size}") in found] for what in BY_SIZE]
    by_size = {what: row for what, row in zip(BY_SIZE, sized, strict=True) if len(row) == len(SIZES)}
    others = [found[what] for what in IN_README if what in found]
    shown = [*chain.from_iterable(by_size.values()), *others]
    if not shown:
        return "`make bench` measures; there are no results yet.\n"
    processors = dict.fromkeys(result["machine"]["processor"] for result, _ in shown)
    dates = sorted({result["date"] for result, _ in shown})
    tables = ([_by_size(by_size)] if by_size else []) + ([_comparisons(others, PAGE.as_posix())] if others else [])
    return (
        "\n".join(tables) + "\nMedians of several rounds, each of which measures all setups, by `make bench`, "
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}. {'; '.join(processors)}.\n"
    )


def _by_size(rows: Mapping[str, Sequence[tuple[Result, Result]]]) -> str:
    """A row for each query: our rate, and its ratio to the other's rate, for each size."""
    lines = [
        [
            f"[{what}]({PAGE.as_posix()}#{cells[0][0]['name']})",
            *(f"{_rounded(each['ours'])}, {format_cell(each['times'])} x" for _, each in cells),
        ]
        for what, cells in rows.items()
    ]
    units = dict.fromkeys(
        f"{each['unit']}, and the ratio to {each['whom']}" for cells in rows.values() for _, each in cells
    )
    return _table(["; ".join(units), *SIZES], lines)


def _comparisons(compared: Sequence[tuple[Result, Result]], page: str) -> str:
    """A line for each; ``page`` is where the results are that their names lead to."""
    rows = [
        [
            f"[{each['what']}]({page}#{result['name']})",
            f"{_rounded(each['ours'])} {each['unit']}",
            f"{each['whom']}: {_rounded(each['theirs'])}",
            f"{format_cell(each['times'])} x",
        ]
        for result, each in compared
    ]
    return _table(["", "this package", "compared with", "times as good"], rows)


def _rounded(number: float) -> str:
    """To three digits, as is enough to read."""
    number = float(f"{number:.3g}")
    return format_cell(number) if number < MILLION else f"{format_cell(number / MILLION)} million"


def wanted(root: Path = ROOT) -> dict[Path, str]:
    """What the files are to say. Raises ResultsError."""
    results = load(root)
    try:
        readme = replace_between((root / README).read_text(encoding="utf-8"), BEGIN, END, headline(results))
    except ValueError as error:
        raise ResultsError(f"{README}: {error}") from error
    return {PAGE: page(results, root), README: readme}


def stale(root: Path = ROOT) -> list[str]:
    """The pages and plots that were not made from the present JSON. Raises ResultsError."""
    pages = [
        name.as_posix()
        for name, text in wanted(root).items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]
    plots = sorted((root / RESULTS).glob("*.png"))
    return pages + [plot.relative_to(root).as_posix() for plot in plots if not _is_drawn_from_its_json(plot)]


def _is_drawn_from_its_json(plot: Path) -> bool:
    source = plot.with_suffix(".json")
    return source.exists() and digest(source).encode() in plot.read_bytes()


def write(root: Path = ROOT) -> None:
    """Make the page, and the README's part. Raises ResultsError."""
    for name, text in wanted(root).items():
        (root / name).write_text(text, encoding="utf-8")


def draw(root: Path = ROOT) -> None:
    """Draw the plots."""
    from benchmarks.support.plots import draw_all  # noqa: PLC0415  # matplotlib, which the page does not need

    draw_all(root / RESULTS)


def make() -> None:
    """Draw the plots, then write the pages, which name them. Raises ResultsError."""
    draw()
    write()


def main() -> None:
    """Make all of it, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    options = parser.parse_args()
    try:
        if not options.check:
            make()
        elif names := stale():
            sys.exit(f"not what the JSON says: {', '.join(names)}; python -m benchmarks.results makes them")
    except ResultsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
