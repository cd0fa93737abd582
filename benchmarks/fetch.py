"""Fetch to Arrow: our client beside confluent-kafka, aiokafka and kafka-python, one process each time, no Spark.

    python -m benchmarks.fetch [--bundled] [--bytes 100,1000,10000] [--no-vary]

One Apache Kafka broker has a topic; a client reads it from its first offset, again and again until ``--seconds`` have
passed. Time runs from the moment at which the partitions are assigned to a client that is connected and has their
metadata, to the last row. Clients are measured one after the other. Each is created before its measurement and
closed after it, so that none fetches while another one is measured. A client is compared with confluent-kafka by the
same output:

- Arrow: batches of key, value, offset and timestamp. pykafka: the Fetcher of the Spark reader, one partition after the
  other, as one task reads. The others: made of their objects.
- objects: a Python object for each record. pykafka: a tuple of these four. The others: their own, whose fields are not
  looked at. confluent-kafka: ``consume``, 10,000 messages at a time; aiokafka: ``getmany``, all there is at a time;
  kafka-python: ``poll``, 10,000 at a time.
- received alone: the requests of pykafka, and of the answers nothing but where their batches end. No client that looks
  at records can be faster on this machine.

Usual rows have keys of 10 bytes, values of one size, no codec and 4 partitions, and are read by all clients. Beside
them, one thing at a time is varied, for pykafka and confluent-kafka. Slow clients read the first part of the topic.
All may fetch 8 MiB per partition and 50 MiB at once. All but confluent-kafka, which does not by default, check CRCs.
CPU is that of the client's process with all its threads. Speeds are medians, slowest and fastest round in brackets.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.support.brokers import Running, apache_kafka_or_bundled, fill, topic
from benchmarks.support.fetchers import BASE, NOTHING, OURS, RECEIVED, TO_ARROW, Client, Place, clients
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure, ratio
from benchmarks.support.shapes import BYTES, ROWS, Shape

CODECS: Final = ("lz4", "zstd")
MEGABYTES: Final = {100: 500, 1_000: 3_500, 10_000: 4_000}
"""Of values, by their size: confluent-kafka takes about 5 seconds for them, so that its start hardly counts."""
WANTED: Final = {100: 4.0, 1_000: 4.0, 10_000: 2.0}
"""Times confluent-kafka, Arrow from both, on the worst topic."""
IN_README: Final = (100, 1_000)
Seconds = Mapping[str, Sequence[float]]
"""Of each round, by client, for its part of the topic."""


def reading(client: Client, place: Place, least_seconds: float) -> Callable[[], float]:
    """A case: reads by a client of its own; seconds of one of them, on average."""

    def case() -> float:
        with client.opened(place) as read:
            reads, started, cpu_started = 0, time.perf_counter(), time.process_time()
            while (took := time.perf_counter() - started) < least_seconds:
                read(int(place.rows * client.part))
                reads += 1
            client.cpu_seconds.append((time.process_time() - cpu_started) / reads)
        return took / reads

    return case


def topics(sizes: Sequence[int], megabytes: float, *, vary: bool) -> Iterator[Shape]:
    """The usual rows of each size, and what is varied."""
    usual = [Shape(value_bytes=size, count=round(MEGABYTES[size] * megabytes * 1e6 / size) // 4 * 4) for size in sizes]
    yield from usual
    for shape in usual if vary else ():
        yield from (replace(shape, kind=kind) for kind in ROWS[1:])
        yield from (replace(shape, codec=codec) for codec in CODECS)
        yield replace(shape, partitions=1)


class Bench:
    """All topics of one broker."""

    def __init__(self, running: Running, options: argparse.Namespace) -> None:
        self.running, self.options = running, options
        self.rows: list[list[Cell]] = []
        self.seconds: dict[Shape, Seconds] = {}

    def run(self, shape: Shape) -> None:
        """One topic, read by all."""
        taking_part = clients(every=shape.is_usual)
        with (
            self.running.cluster() as cluster,
            topic(cluster, f"fetch-{time.monotonic_ns()}", shape.partitions) as name,
        ):
            fill(self.running, name, shape)
            place = Place(self.running.bootstrap_servers, name, shape.partitions, shape.count)
            cases: dict[str, Case] = {
                str(client): reading(client, place, self.options.seconds) for client in taking_part
            }
            seconds = self.seconds[shape] = measure(cases, self.options.rounds, title=str(shape))
        speeds = {
            str(client): [shape.count * client.part / each / 1e6 for each in seconds[str(client)]]
            for client in taking_part
        }
        for client in taking_part:
            cpu = statistics.median(client.cpu_seconds[-self.options.rounds :]) / int(shape.count * client.part)
            base, speed = f"{BASE}, {client.output}", speeds[str(client)]
            self.rows.append(
                [
                    *(f"{shape.value_bytes:,} B", shape.kind, shape.codec, shape.partitions),
                    *(client.output, client.name),
                    f"{statistics.median(speed):.3g} ({min(speed):.3g}-{max(speed):.3g})",
                    statistics.median(speed) * shape.value_bytes,
                    cpu * 1e9,
                    statistics.median(speed) / statistics.median(speeds[base]) if base in speeds else None,
                ]
            )


def times(seconds: Seconds, ours: str = f"{OURS}, {TO_ARROW}", theirs: str = f"{BASE}, {TO_ARROW}") -> float | None:
    """How many times as fast one client that reads whole topics is as another; None if one is not there."""
    return ratio(seconds[ours], seconds[theirs]) if theirs in seconds else None


def main() -> None:
    """Measure everything and print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument(
        "--bytes", type=lambda given: [int(size) for size in given.split(",")], default=list(BYTES), help="of a value"
    )
    parser.add_argument("--no-vary", action="store_true", help="the usual rows only")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a client's turn, at least (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows (%(default)s)")
    options = parse(parser, seconds=0.05, scale=0.01)
    report = Report("fetch", "Fetch to Arrow", options)
    with (
        tempfile.TemporaryDirectory() as directory,
        apache_kafka_or_bundled(Path(directory), bundled_wanted=options.bundled) as running,
    ):
        report.note(f"The broker is {running.name}.")
        bench = Bench(running, options)
        for shape in topics(options.bytes, options.scale, vary=not options.no_vary):
            bench.run(shape)
    titles = ["value", "rows", "codec", "partitions", "output", "client", "M rows/s", "MB/s", "CPU ns/row", f"x {BASE}"]
    report.table(titles, bench.rows)
    _tell(report, bench.seconds)
    report.keep({"seconds": {str(shape): seconds for shape, seconds in bench.seconds.items()}})
    report.save()


def _tell(report: Report, found: Mapping[Shape, Seconds]) -> None:
    for size in dict.fromkeys(shape.value_bytes for shape in found):
        of_size = {shape: seconds for shape, seconds in found.items() if shape.value_bytes == size}
        ratios = [each for seconds in of_size.values() if (each := times(seconds)) is not None]
        if not ratios:
            continue
        report.target(f"{size:,} B: times {BASE}, Arrow from both, the worst topic", WANTED[size], min(ratios))
        most = [times(seconds, f"{RECEIVED}, {NOTHING}") or 0.0 for seconds in of_size.values()]
        report.note(f"{size:,} B: to receive alone is {min(most):.2f} times as fast as {BASE} on the worst topic.")
        for shape, seconds in of_size.items():
            if shape.is_usual and size in IN_README:
                ours, theirs = (
                    shape.count / statistics.median(seconds[f"{name}, {TO_ARROW}"]) for name in (OURS, BASE)
                )
                report.beside(f"fetch to Arrow, {size:,} B", "rows/s", ours, f"{BASE}, made into Arrow", theirs)


if __name__ == "__main__":
    main()
