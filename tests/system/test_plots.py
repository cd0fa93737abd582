"""The plots of benchmark results. Matplotlib starts a process that lists fonts when it is used for the first time."""

import shutil
from pathlib import Path

import pytest

from benchmarks import results

ROOT = Path(__file__).parents[2]


def test_the_plots_are_drawn_from_the_json(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    kept = ROOT / results.RESULTS
    shutil.copytree(kept, tmp_path / results.RESULTS, ignore=shutil.ignore_patterns("*.png"))
    results.draw(tmp_path)
    names = sorted(path.name for path in kept.glob("*.png"))
    assert sorted(path.name for path in (tmp_path / results.RESULTS).glob("*.png")) == names
    for name in names:
        expected, drawn = (pyplot.imread(folder / name) for folder in (kept, tmp_path / results.RESULTS))
        assert drawn.shape == expected.shape, name
        assert abs(drawn - expected).mean() < 0.003, (
            f"{name} differs from its JSON: python -m benchmarks.results draws it"
        )


def test_a_plot_of_other_results_is_stale(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    plot, source = (results.RESULTS / f"broker.{kind}" for kind in ("png", "json"))
    for name in (source, results.PAGE, results.README):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    results.draw(tmp_path)
    results.write(tmp_path)
    assert results.stale(tmp_path) == []
    with (tmp_path / source).open("a") as file:
        file.write("\n")
    assert results.stale(tmp_path) == [plot.as_posix()]
    (tmp_path / source).unlink()
    assert plot.as_posix() in results.stale(tmp_path)


def test_the_dot_is_at_the_median_and_the_whisker_from_the_least_to_the_greatest() -> None:
    plot_style = pytest.importorskip("notebooks.plot_style", reason="matplotlib is not installed")
    _, axes = plot_style.figure("a title")
    plot = plot_style.DotPlot(axes)
    plot.heading("rounds")
    plot.row("pykafka", plot_style.low_median_high([3.0, 1.0, 8.0]), plot_style.BLUE)
    plot.name_rows()
    whisker, dot = axes.lines
    assert [list(whisker.get_xdata()), list(dot.get_xdata()), list(dot.get_ydata())] == [[1.0, 8.0], [3.0], [1]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rounds", "pykafka"]
