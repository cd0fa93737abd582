"""The page of benchmark results is what the JSON says, and every benchmark tells what it does and by which command."""

import argparse
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import all as every
from benchmarks import results
from benchmarks.support.linux_perf import REST, samples, stage
from benchmarks.support.report import Report, arguments, format_cell, parse
from benchmarks.support.rounds import measure, ratio
from benchmarks.support.shapes import BATCH, MODES, STREAM, Shape, add_axes, shapes
from benchmarks.support.speeds import beside, fits

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


def test_the_page_and_the_readme_say_what_the_json_says() -> None:
    assert results.stale() == [], "make them: python -m benchmarks.results"


def test_the_readme_shows_what_is_measured() -> None:
    measured = {each["what"] for result in results.load(ROOT) for each in result["comparisons"]}
    sized = {f"{what}, {size}" for what in results.BY_SIZE for size in results.SIZES}
    assert ({*results.IN_README} | sized) - measured == set()


@pytest.mark.parametrize("name", MODULES)
def test_help_names_the_command(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert f"python -m benchmarks.{name}" in capsys.readouterr().out


def test_make_bench_knows_all_of_them() -> None:
    assert sorted(entry.name for entry in every.ENTRIES) == sorted({*MODULES} - {"all", "results"})
    assert {entry.name for entry in every.ENTRIES if not entry.more} == set(results.ORDER)


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without asking git."""
    monkeypatch.setattr("benchmarks.support.report.commit", lambda: "0123456789")


def options(*given: str) -> argparse.Namespace:
    parser = arguments("A description.")
    add_axes(parser)
    parser.add_argument("--rows", type=int, default=1_000)
    before, sys.argv = sys.argv, ["benchmark", *given]
    try:
        return parse(parser, rows=10)
    finally:
        sys.argv = before


# --- a result, from a report to the page


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a README and no results."""
    monkeypatch.setattr(results, "BY_SIZE", ("source",))
    monkeypatch.setattr(results, "SIZES", ("100 B",))
    monkeypatch.setattr(results, "IN_README", ("another, start",))
    (tmp_path / "README.md").write_text(f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    (tmp_path / results.RESULTS).mkdir(parents=True)
    (tmp_path / results.PAGE).parent.mkdir()
    return tmp_path


def report(root: Path, name: str = "source", *, found: float = 2.5) -> None:
    given = options("--results", str(root / results.RESULTS))
    made = Report(name, f"All about {name}", given)
    made.table(("who", "rows/s", "spread"), [["pykafka", 1_234_567, 0.1234], ["a | b", None, 0.5]], title="rates")
    made.beside(f"{name}, 100 B", "rows/s", 3_123_456.0, "Kafka", 312_345.6)
    made.beside(f"{name}, start", "s", 0.5, "the other", 2.0, less_is_better=True)
    made.target(f"{name}: times the other", 2.0, found).note("Mind this.").keep({"pykafka": [1.0, 2.0]})
    made.save()


def test_a_query_without_all_sizes_is_not_in_the_table_of_sizes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "SIZES", ("100 B", "1,000 B"))
    report(root)
    results.write(root)
    assert "[source](" not in (root / "README.md").read_text()


def test_a_report_becomes_a_section_and_a_headline(root: Path) -> None:
    report(root)
    report(root, "another", found=1.5)
    results.write(root)
    page = (root / results.PAGE).read_text()
    assert page.index("## source\n\n**All about source**") < page.index("## another\n")
    assert "1 of 2 were reached" in page
    assert "commit 0123456789, " in page
    assert "| pykafka | 1,234,567 | 0.123 |" in page
    assert "| a / b | - | 0.5 |" in page
    assert "| [source](#source) | source: times the other | at least 2 | 2.5 | yes |" in page
    assert "| [another](#another) | another: times the other | at least 2 | 1.5 | **no** |" in page
    assert "Mind this." in page
    readme = (root / "README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith("after\n")
    assert "old" not in readme
    assert "| rows/s, and the ratio to Kafka | 100 B |" in readme
    assert "| [source](docs/results.md#source) | 3.12 million, 10 x |" in readme
    assert "| [another, start](docs/results.md#another) | 0.5 s | the other: 2 | 4 x |" in readme
    assert "source, start" not in readme
    assert "| [source, start](#source) | 0.5 s | the other: 2 | 4 x |" in page
    assert results.stale(root) == []


def test_a_result_that_is_not_on_the_page_is_an_error(root: Path) -> None:
    results.write(root)
    assert results.stale(root) == []
    report(root)
    assert results.stale(root) == ["docs/results.md", "README.md"]


def test_tiny_sizes_are_no_result(root: Path) -> None:
    report(root)
    file = root / results.RESULTS / "source.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quick": True}))
    with pytest.raises(results.ResultsError, match=re.escape("source.json was made with --quick")):
        results.wanted(root)


def test_a_readme_without_marks_is_refused(root: Path) -> None:
    (root / "README.md").write_text("no marks")
    with pytest.raises(results.ResultsError, match="has no lines"):
        results.wanted(root)


def test_quick_runs_save_nothing_without_an_output_option() -> None:
    assert Report("source", "Title", options("--quick")).save() is None
    assert Report("source", "Title", options("--no-save")).save() is None


def test_the_shown_command_has_no_output_option(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Report("source", "Title", options())
    monkeypatch.setattr(sys, "argv", ["x", "--results", "there", "--rows", "5", "--results=there"])
    assert made.command == "python -m benchmarks.source --rows 5"


def test_quick_is_one_round_and_tiny_but_for_what_was_given() -> None:
    assert (options().rounds, options().rows) == (5, 1_000)
    assert (options("--quick").rounds, options("--quick").rows) == (1, 10)
    assert (options("--quick", "--rounds", "3").rounds, options("--quick", "--rows", "7").rows) == (3, 7)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [(None, "-"), ("text", "text"), (1_234_567, "1,234,567"), (1234.56, "1,235"), (2.345, "2.35"), (0.5, "0.5")],
)
def test_cells_have_three_digits_that_count(cell: str | float | None, shown: str) -> None:
    assert format_cell(cell) == shown


# --- rounds


def test_cases_take_turns_in_changing_order_and_warm_up_first() -> None:
    seen: list[str] = []

    def case(name: str, seconds: float) -> float:
        seen.append(name)
        return seconds

    found = measure({"a": lambda: case("a", 1.0), "b": lambda: case("b", 2.0)}, rounds=2, warmups=1)
    assert "".join(seen) == "baabba"
    assert found == {"a": [1.0, 1.0], "b": [2.0, 2.0]}


def test_a_case_that_returns_nothing_is_timed() -> None:
    (seconds,) = measure({"a": lambda: None}, rounds=1, warmups=0)["a"]
    assert seconds > 0


def test_a_ratio_goes_by_the_medians() -> None:
    assert ratio([1.0, 2.0, 9.0], [4.0, 8.0, 8.0]) == 4.0


# --- samples of perf

SCRIPT = """\
C2 CompilerThre     4711
\t    7f0 PhaseLive::compute (/usr/lib/libjvm.so)

Executor task l     4711
\tffffffff tcp_recvmsg ([kernel.kallsyms])
\t    7f1 read (/usr/lib/libc.so.6)
\t    7f2 void org.apache.arrow.Reader.read(int, long) (/tmp/perf-4711.map)

python     4712
\t    7f3 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

python     4712
"""
STAGES = {
    "compiling": re.compile(r"^C[12] Compiler"),
    "receiving": re.compile("tcp_recvmsg"),
    "Arrow": re.compile("arrow"),
}


def test_a_sample_counts_for_the_first_stage_that_one_of_its_lines_fits() -> None:
    found = [(process, stage(STAGES, lines)) for process, lines in samples(SCRIPT)]
    assert found == [(4711, "compiling"), (4711, "receiving"), (4712, REST), (4712, REST)]


# --- shapes

COUNTS = {100: 8_000, 1_000: 4_000, 10_000: 800}


def chosen(*given: str, reading: bool = True) -> list[tuple[Shape, list[str]]]:
    found = shapes(options(*given), COUNTS, reading=reading)
    return [(shape, list(modes)) for shape, modes in found]


def test_the_usual_rows_come_first_in_all_modes_and_one_thing_is_varied_at_a_time() -> None:
    found = chosen()
    usual = [Shape(value_bytes=size, count=count) for size, count in COUNTS.items()]
    assert found[:3] == [(shape, list(MODES)) for shape in usual]
    assert len(found) == 3 + 2 * (2 + 2 + 4 + 2 + 3)
    assert all(not shape.is_usual for shape, _ in found[3:])
    assert all(modes == ([BATCH, STREAM] if shape.is_part else [BATCH]) for shape, modes in found[3:])


def test_only_the_given_sizes_axes_and_modes_are_measured() -> None:
    assert chosen("--bytes", "10000", "--vary", "", "--modes", "stream") == [
        (Shape(value_bytes=10_000, count=800), [STREAM])
    ]
    assert [shape.kind for shape, _ in chosen("--bytes", "10000", "--vary", "rows")] == ["keyed", "keyless", "varying"]


@pytest.mark.parametrize("reading", [True, False])
def test_every_partition_and_every_task_has_as_many_rows(reading: bool) -> None:
    for scale in ("0.00001", "0.003", "1.0"):
        for shape, _ in chosen("--scale", scale, reading=reading):
            assert shape.count % shape.partitions == shape.count % shape.tasks == 0
            assert not reading or shape.partitions == shape.tasks


def test_the_fit_finds_what_a_query_a_task_and_a_row_take() -> None:
    of_100 = [shape for shape, _ in chosen("--bytes", "100", "--vary", "size")]
    seconds = {shape: {"pykafka": [0.5 + 0.01 * shape.tasks + 2e-6 * shape.count]} for shape in of_100}
    ((what, by, *found, error),) = fits("batch", seconds)
    assert (what, by, error) == ("batch, 100 B", "pykafka", "0%")
    assert found == pytest.approx([0.5, 10.0, 2.0])
    assert list(fits("batch", dict(list(seconds.items())[:1]))) == []


def test_the_readme_compares_with_the_fastest_jvm_connector() -> None:
    made = Report("source", "A title", options())
    shape = Shape(value_bytes=100, count=100)
    beside(made, "read", shape, {"pykafka": [1.0], "JVM": [5.0, 5.0, 1.0], "JVM tuned": [4.0, 4.0, 9.0], "stub": [0.5]})
    comparison = made.comparisons[-1]
    assert (comparison.ours, comparison.whom, comparison.theirs) == (100.0, "Spark's JVM connector, tuned", 25.0)
