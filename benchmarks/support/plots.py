"""The plots of the results, drawn from their JSON alone: ``python -m benchmarks.results`` draws them all."""

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import pyplot as plt

from benchmarks.support.report import digest
from notebooks import plot_style
from notebooks.plot_style import BLUE, COLOURS, SKY, DotPlot, low_median_high

Stored = Mapping[str, Any]
"""The JSON of a benchmark's results."""

SYSTEMS: Final = {
    "pykafka": ("pykafka", COLOURS["pykafka"]),
    "JVM": ("JVM connector", COLOURS["JVM connector"]),
    "JVM tuned": ("JVM connector, tuned", COLOURS["JVM connector, tuned"]),
    "JVM tuned, other API": ("JVM connector, tuned, other API", COLOURS["JVM connector, tuned"]),
    "stub": ("stub without Kafka", COLOURS["stub"]),
}
"""Name and colour of a connector in a plot, by its name in the results."""
MODES: Final = {"batch": "batch", "stream": "stream, start to end", "stream-steady": "stream, steady state"}
USUAL: Final = re.compile(r"([\d,]+ B), keyed, none, 4 partitions, ([\d,]+) rows")
ROUNDS: Final = "Dot: median of the rounds. Line: slowest to fastest round. Two cores, which client and broker share."


def speeds(stored: Stored) -> None:
    """Rows per second of the connectors, a panel for each size of values, the modes below each other."""
    measured = stored["measured"]
    usual: dict[str, tuple[str, int]] = {}  # the first ones; the others are there for a fit
    for shape in next(iter(measured.values())):
        if found := USUAL.fullmatch(shape):
            usual.setdefault(found[1], (shape, _number(found[2])))
    title = f"{stored['title']}: thousand rows per second, by the size of values"
    _, panels = plot_style.figure(title, len(usual), height=5.0, note=ROUNDS, sharey=True)
    for axes, (size, (shape, count)) in zip(panels, usual.items(), strict=True):
        plot = DotPlot(axes)
        for mode, by_shape in measured.items():
            plot.heading(MODES[mode])
            for name, seconds in by_shape[shape].items():
                rates = low_median_high([count / each / 1e3 for each in seconds])
                plot.row(SYSTEMS[name][0], rates, SYSTEMS[name][1], f"{rates[1]:,.0f}")
        plot.name_rows()
        axes.set(title=size, xlim=(0, axes.get_xlim()[1] * 1.25))
        plot_style.plain_numbers(axes.xaxis)


def latency(stored: Stored) -> None:
    """Percentiles of a record's latency, with Spark's usual progress tracking and with the asynchronous one."""
    note = "Dot: median. Line: from the 10th to the 99th percentile. Medians of the rounds."
    _, axes = plot_style.figure(stored["title"], height=3.4, note=note)
    plot = DotPlot(axes)
    measured = [(*name.partition(", "), rounds) for name, rounds in stored["measured"]["milliseconds"].items()]
    for heading, is_asynchronous in (("usual progress tracking", False), ("asynchronous progress tracking", True)):
        plot.heading(heading)
        for connector, _, asynchronous, rounds in measured:
            if bool(asynchronous) is is_asynchronous:
                low, middle, high = (
                    statistics.median(each[min(len(each) - 1, len(each) * percent // 100)] for each in rounds)
                    for percent in (10, 50, 99)
                )
                name, colour = SYSTEMS[connector]
                plot.row(name, (low, middle, high), colour, f"{middle:.0f} ms, p99 {high:.0f} ms")
    plot.name_rows()
    axes.set(xlim=(0, axes.get_xlim()[1] * 1.25), xlabel="milliseconds from the producer to the sink topic")


def fetch(stored: Stored) -> None:
    """How many times as fast as confluent-kafka the clients are, a panel for each size of values."""
    title = "From a broker to Arrow: speed as a multiple of confluent-kafka's, by the size of values"
    kinds = {"keyless": "records without keys", "varying": "values of varying sizes"}
    # By size, topic and client: median, slowest, fastest. Slow clients read fewer rows, so only speeds are comparable.
    sizes: dict[str, dict[str, dict[str, list[float]]]] = {}
    for size, kind, codec, partitions, output, client, speed, *_ in stored["tables"][0]["rows"]:
        if output == "Arrow":
            topic = kinds.get(kind, codec) if kind in kinds or codec != "none" else "1 partition" * (partitions == 1)
            found = [float(each) for each in re.findall(r"[\d.]+", speed)]
            sizes.setdefault(size, {}).setdefault(topic, {})[client] = found
    _, panels = plot_style.figure(title, len(sizes), height=4.4, note=ROUNDS, sharey=True)
    headings = ("4 partitions, no codec", "pykafka on other topics")
    for axes, (size, topics) in zip(panels, sizes.items(), strict=True):
        usual = [(client, client, topics[""]) for client in topics[""]]
        others = [(topic, "pykafka", by_client) for topic, by_client in topics.items() if topic]
        plot = DotPlot(axes)
        for heading, entries in zip(headings, (usual, others), strict=True):
            plot.heading(heading)
            for name, client, by_client in entries:
                ratios = low_median_high([each / by_client["confluent-kafka"][0] for each in by_client[client]])
                plot.row(name, ratios, COLOURS[client], f"{ratios[1]:.2g}x")
        plot.name_rows()
        plot_style.multiples(axes, 0.2, 1, 5, 20)
        axes.set(title=size, xlim=(0.1, 80))


def records(stored: Stored) -> None:
    """Decoding without compression as a multiple of a memory copy, by the kind of records."""
    makers = {  # in the results: the name here, its colour, and where the name stands
        "compiled": ("pykafka", BLUE, 0),
        "aiokafka": ("aiokafka", COLOURS["aiokafka"], -1),
        "numpy": ("pykafka without its kernel", SKY, 1),
        "plain Python": ("pykafka without its kernel", SKY, 1),
        "kafka-python": ("kafka-python", COLOURS["kafka-python"], 0),
    }
    note = (
        "Records of one Fetch response, not compressed: to Arrow by pykafka, to Python objects by the others. "
        "Dot: median of the rounds. Line: all rounds."
    )
    _, axes = plot_style.figure("CPU time to decode records, as a multiple of a copy of the same bytes", note=note)
    shapes = {
        shape.removesuffix(", none"): seconds
        for shape, seconds in stored["measured"]["cpu seconds of a call"].items()
        if shape.endswith(", none")
    }
    for row, seconds in enumerate(shapes.values()):
        copy = statistics.median(seconds["memory copy"])
        for maker, (name, colour, side) in makers.items():
            if f"decode, {maker}" in seconds:
                multiples = low_median_high([each / copy for each in seconds[f"decode, {maker}"]])
                plot_style.dot(axes, row, multiples, colour, f"{multiples[1]:.2g}x" if colour == BLUE else "")
                if row == 0:
                    plot_style.label(axes, multiples[1], row, name, colour, dx=side, dy=13)
    plot_style.multiples(axes, 1, 10, 100, 1000)
    plot_style.label(axes, 1, 0, "copy", dx=0, dy=13)
    plot_style.rows(axes, {row: f"values of {shape}" for row, shape in enumerate(shapes)})


def planning(stored: Stored) -> None:
    """Seconds over partitions, a panel for each thing that is planned."""
    panels = {
        "batch, until its tasks exist": "batch, until its tasks are there",
        "stream, latestOffset of a trigger": "trigger, latestOffset",
        "stream, a whole trigger": "trigger, whole",
    }
    note = "Dot: median of the rounds. Line: all rounds. 100,000 partitions are on simulated brokers."
    _, all_axes = plot_style.figure("Planning a query: seconds, by the number of partitions", 3, note=note, sharey=True)
    for axes, (title, what) in zip(all_axes, panels.items(), strict=True):
        for connector, system, dx, dy in (("kafka", "JVM connector", 0, 14), ("pykafka", "pykafka", 8, -8)):
            name = f"Spark, {connector}: {what}"
            found = {int(count): each[name] for count, each in stored["measured"].items() if name in each}
            if not found:
                continue
            _line(axes, found, COLOURS[system])
            last = max(found)
            plot_style.label(axes, last, statistics.median(found[last]), system, COLOURS[system], dx=dx, dy=dy)
        axes.set(title=title, xscale="log", yscale="log", xlabel="partitions", xlim=(60, 1_000_000), ylim=(0.001, 60))
        axes.set_xticks([100, 1000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
        axes.minorticks_off()
    plot_style.plain_numbers(all_axes[0].yaxis)


def growth(stored: Stored) -> None:
    """Time of each operation over what grows, as a multiple of the time at the smallest size."""
    measured = stored["measured"]["microseconds"]
    note = "Dot: median of the rounds. Line: middle half of the rounds. Each round measures both sizes in turn."
    columns = max(len(next(iter(sizes.values()))["costs"]) for sizes in measured.values())
    title = "Time of an operation as a topic grows, as a multiple of its time at the smallest size"
    _, grid = plot_style.figure(title, columns, lines=len(measured), height=6.0, note=note, sharey=True, sharex="row")
    for line, (what, sizes) in zip(grid, measured.items(), strict=True):
        operations = next(iter(sizes.values()))["costs"]
        for axes, operation in zip(line, operations, strict=False):
            found = {}
            for size, each in sizes.items():
                pairs = zip(each["costs"][operation], each["smallest"][operation], strict=True)
                found[int(size)] = statistics.quantiles(took / smallest for took, smallest in pairs)
            _line(axes, found, BLUE)
            last = max(found)
            plot_style.label(axes, last, found[last][1], f"{found[last][1]:.2g}x")
            axes.set(title=operation, xscale="log", yscale="log", xlabel=what, xlim=(min(found) / 2, last * 4))
            axes.minorticks_off()
        for axes in line[len(operations) :]:
            axes.set_visible(False)
    grid[0][0].set_yticks([0.1, 1, 10], ["0.1x", "1x", "10x"])


def _line(axes: Any, found: Mapping[int, Sequence[float]], colour: str) -> None:
    """A line through medians with whiskers."""
    low, middle, high = ([pick(each) for each in found.values()] for pick in (min, statistics.median, max))
    axes.vlines(list(found), low, high, color=colour, linewidth=1.2)
    axes.plot(list(found), middle, "o-", color=colour)


def broker(stored: Stored) -> None:
    """How many times as good as Apache Kafka the bundled broker is, in everything that was measured."""
    ours, theirs = (stored["measured"].get(name, {}) for name in ("bundled broker", "Apache Kafka"))
    note = (
        "How many times the throughput, or how many times less time or memory. "
        "Dot: ratio of the medians. Line: ratios of the rounds."
    )
    _, axes = plot_style.figure("The bundled broker compared with Apache Kafka", height=5.4, note=note)
    groups = {"Process": ("s", "MiB"), "Under Kafka's tools": ("Kafka's tool",), "Under librdkafka": ("librdkafka",)}
    plot = DotPlot(axes)
    for group, ends in groups.items():
        plot.heading(group)
        for what, _, _, times in stored["tables"][0]["rows"]:
            if times is None or what.rpartition(", ")[2] not in ends:
                continue
            pairs = list(zip(ours[what], theirs[what], strict=True))[-stored["parameters"]["rounds"] :]
            if what.startswith(("start", "memory", "latency")):
                pairs = [(other, mine) for mine, other in pairs]
            ratios = [good / bad for good, bad in pairs if bad]
            name = re.sub(", (MB/s|ms|s|MiB|1/s)(?=,|$)|, Kafka's tool|, librdkafka", "", what)
            name = re.sub("^out,", "consume,", re.sub("^in,", "produce,", name))
            plot.row(name, (min(ratios), times, max(ratios)), COLOURS["bundled broker"], f"{times:.2g}x")
    plot.name_rows()
    plot_style.multiples(axes, 0.5, 1, 2, 5, 10, 20)
    plot_style.label(axes, 1, 0, "the bundled broker is better", dx=8)
    plot_style.label(axes, 1, 0, "Apache Kafka is better", dx=-8)
    axes.set_xlim(0.35, 40)


PLOTS: Final = {
    "source": speeds,
    "sink": speeds,
    "latency": latency,
    "fetch": fetch,
    "records": records,
    "planning": planning,
    "growth": growth,
    "broker": broker,
}


def draw_all(directory: Path) -> None:
    """Draw the plots of the results in a directory, each beside its JSON."""
    for name, draw in PLOTS.items():
        file = directory / f"{name}.json"
        if file.exists():
            draw(json.loads(file.read_text(encoding="utf-8")))
            plt.savefig(file.with_suffix(".png"), metadata={"Description": digest(file)})
            plt.close()


def _number(text: str) -> int:
    return int(text.replace(",", ""))
