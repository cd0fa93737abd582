"""Fetch to Arrow: our client beside confluent-kafka, aiokafka and kafka-python, one process each time, no Spark.

    python -m benchmarks.fetch [--bundled] [--sizes 100,1000,10000] [--codecs none,lz4,zstd] [--partitions 1,4]

One Apache Kafka broker has a topic; a client reads it from its first offset. Time runs from the moment at which the
partitions are assigned to a client that is connected and knows them, to the last row. Clients take turns, and each is
made anew and closed again in its turn, so that none fetches ahead while another is measured.

- pykafka: the Fetcher of the Spark reader, into batches of 40,000 rows of key, value, offset, timestamp and its type;
  one partition after the other, as one task reads.
- confluent-kafka: ``consume``, 10,000 messages at a time; aiokafka: ``getmany``, all there is at a time; kafka-python:
  ``poll``, 10,000 at a time. They give Python objects. "into Arrow": these made into a batch of key, value, offset
  and timestamp, as a user has to who wants one.
- received alone: the requests of pykafka, and of the answers nothing but where their batches end. No client that looks
  at records can be faster on this machine.

Slow clients read the first part of the topic only. All may fetch 8 MiB per partition and 50 MiB at once. CRCs are
checked by all but confluent-kafka, which does not by default. CPU is that of the client's process with all its threads.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.support.brokers import BATCH_BYTES, Running, apache_kafka_or_bundled
from benchmarks.support.fetchers import BASE, OURS, RECEIVED, Client, Place, clients
from benchmarks.support.filling import POOL_BYTES, create, events, fill
from benchmarks.support.plots import times_axis
from benchmarks.support.report import Cell, Report, arguments
from benchmarks.support.rounds import Case, measure
from spark_kafka_native.client.admin import delete_topics

LARGE: Final = 500
MORE_OF_LARGE: Final = 4
"""So many times the megabytes of values from ``LARGE`` bytes on: bytes of these take less time."""
TARGET: Final = 4.0
IN_README: Final = (100, 1_000)


def reading(client: Client, place: Place) -> Callable[[], float]:
    """A case: one read by a client of its own, timed."""

    def case() -> float:
        with client.opened(place) as read:
            started, cpu_started = time.perf_counter(), time.process_time()
            read(int(place.rows * client.part))
            took = time.perf_counter() - started
            client.cpu_seconds.append(time.process_time() - cpu_started)
        return took

    return case


@dataclass(frozen=True, slots=True)
class Setting:
    """What a topic is like."""

    size: int
    codec: str
    partitions: int

    def __str__(self) -> str:
        return f"{self.size:,} B, {self.codec}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


class Bench:
    """All topics of one broker."""

    def __init__(self, running: Running, options: argparse.Namespace) -> None:
        self.running, self.options = running, options
        self.rows: list[list[Cell]] = []
        self.seconds: dict[str, dict[str, list[float]]] = {}
        self.ratios: dict[str, dict[str, float]] = {}
        self.speeds: dict[Setting, dict[str, float]] = {}

    def run(self, setting: Setting) -> None:
        """One topic, read by all."""

        def spread(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            numbers = np.arange(first, first + batch.num_rows) % setting.partitions
            return batch.append_column("partition", pa.array(numbers, pa.int32()))

        pool = events(min(POOL_BYTES, self.options.megabytes * 1_000_000), setting.size, setting.size, 0)
        pool = pool.select(["value"])
        rows = self.options.megabytes * 1_000_000 * (1 if setting.size < LARGE else MORE_OF_LARGE) // setting.size
        servers = self.running.bootstrap_servers
        place = Place(servers, f"{setting.size}-{setting.codec}-{setting.partitions}", setting.partitions, rows)
        with self.running.cluster() as cluster:
            create(cluster, place.topic, setting.partitions)
            written: dict[str, object] = {"compression.type": setting.codec, "batch.size": self.options.batch_bytes}
            fill(servers, place.topic, rows, pool, options=written, more=spread)
            contestants = clients()
            cases: dict[str, Case] = {name: reading(client, place) for name, client in contestants.items()}
            seconds = measure(cases, self.options.rounds, title=str(setting))
            delete_topics(cluster, [place.topic])
        self._keep(setting, place, seconds, contestants)

    def _keep(
        self, setting: Setting, place: Place, seconds: dict[str, list[float]], contestants: dict[str, Client]
    ) -> None:
        speed = {name: int(place.rows * contestants[name].part) / statistics.median(seconds[name]) for name in seconds}
        for name, client in contestants.items():
            cpu = statistics.median(client.cpu_seconds[-self.options.rounds :]) / int(place.rows * client.part)
            against = speed[name] / speed[BASE] if BASE in speed else None
            self.rows.append(
                [
                    f"{setting.size:,} B",
                    setting.codec,
                    setting.partitions,
                    name,
                    round(speed[name]),
                    speed[name] * setting.size / 1e6,
                    cpu * 1e9,
                    against,
                ]
            )
        self.seconds[str(setting)] = seconds
        if BASE in speed:
            self.speeds[setting] = speed
            self.ratios[str(setting)] = {name: speed[name] / speed[BASE] for name in speed}


def draw(ratios: dict[str, dict[str, float]]) -> Callable[[Any], None]:
    """A line of points for each topic: how many times as fast as confluent-kafka's ``consume`` the clients are."""

    def on(figure: Any) -> None:
        axes = figure.subplots()
        for name in next(iter(ratios.values())):
            if name not in {BASE, RECEIVED}:
                axes.plot([found[name] for found in ratios.values()], list(ratios), "o", label=name)
        axes.invert_yaxis()
        axes.grid(axis="y", linewidth=0.4)
        axes.set_title("Fetch to Arrow, beside clients that make Python objects")
        times_axis(axes, "rows per second, as a multiple of confluent-kafka's consume()")
        figure.legend(loc="outside lower center", ncols=3)

    return on


def main() -> None:
    """Measure everything and print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--sizes", default="100,1000,10000", help="bytes of a value (%(default)s)")
    parser.add_argument("--codecs", default="none,lz4,zstd")
    parser.add_argument("--partitions", default="1,4")
    parser.add_argument("--megabytes", type=int, default=100, help="of values; 4 times that of 500 B or more")
    parser.add_argument("--batch-bytes", type=int, default=BATCH_BYTES, help="a producer's batch.size (%(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.codecs, options.partitions = "100,1000", "none,zstd", "1"
        options.megabytes, options.rounds = 5, 2
    settings = [
        Setting(int(size), codec, int(partitions))
        for size in options.sizes.split(",")
        for codec in options.codecs.split(",")
        for partitions in options.partitions.split(",")
    ]
    report = Report("fetch", f"Fetch to Arrow, of batches of {options.batch_bytes:,} bytes", options)
    with (
        tempfile.TemporaryDirectory() as directory,
        apache_kafka_or_bundled(Path(directory), bundled_wanted=options.bundled) as running,
    ):
        report.note(f"The broker is {running.name}.")
        bench = Bench(running, options)
        for setting in settings:
            bench.run(setting)
    columns = ["value", "codec", "partitions", "client", "rows/s", "MB/s", "CPU ns/row", f"x {BASE}"]
    report.table(columns, bench.rows)
    if bench.ratios:
        for size in dict.fromkeys(setting.size for setting in settings):
            found = [bench.ratios[str(setting)][OURS] for setting in settings if setting.size == size]
            report.target(f"{size:,} B, rows/s of pykafka beside {BASE}, the worst topic", TARGET, min(found))
            most = [bench.ratios[str(setting)][RECEIVED] for setting in settings if setting.size == size]
            report.note(f"{size:,} B: to receive alone is {min(most):.2f} times as fast as {BASE} on the worst topic.")
        for setting, speed in bench.speeds.items():
            if setting.size in IN_README and setting.codec == "none" and setting.partitions == 1:
                report.beside(f"fetch to Arrow, {setting.size:,} B", "rows/s", speed[OURS], BASE, speed[BASE])
        report.plot(draw(bench.ratios))
    report.keep({"seconds": bench.seconds}).save()


if __name__ == "__main__":
    main()
