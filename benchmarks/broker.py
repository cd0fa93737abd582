"""The bundled broker under load tools that are not ours, beside Apache Kafka, alternating, in one run.

    python -m benchmarks.broker [--bundled] [--megabytes 200] [--requests 20000] [--rate 1000] [--seconds 10]

Kafka's own tools (kafka-producer-perf-test, kafka-consumer-perf-test, with the defaults of Kafka's clients: batches of
16 KiB) and librdkafka (confluent-kafka: batches of up to 1 MB) drive both. One topic of one partition, acks=all, no
compression; a new topic for each line of a round. The brokers have the settings that they have by themselves.

- in, out: MB of values a second, of 1,000 and of 100 bytes. Out is read from a topic that was just written.
- requests: Produce requests a second of one record each, five in flight.
- latency: from handing a record over to its acknowledgement, at a steady rate of single records without linger. The
  Java tool tells whole milliseconds but for the mean.
- start: from the start of the process until it answers. Memory: resident, after the start and after all of the load.

Client and broker share the machine's cores. Without Maven only librdkafka and the bundled broker are there.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.idle_connections import resident_bytes
from benchmarks.support import perf_tools
from benchmarks.support.brokers import Running, apache_kafka, bundled, topic
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from tests.support.servers.apache_kafka import apache_kafka_unavailable

OURS: Final = "bundled broker"
THEIRS: Final = "Apache Kafka"
VALUES: Final = (1000, 100)
PERCENTILES: Final = (50.0, 99.0, 99.9)
WARMUP_SHARE: Final = 4
"""A producer's tool warms up with so many times fewer records than it measures."""
TIMEOUT_S: Final = 120.0
POLL_RECORDS: Final = 10_000
PRODUCER: Final = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}
CONSUMER: Final = {
    "group.id": "benchmark",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 5,
}
START, IDLE_MEMORY = "start, s", "memory after the start, MiB"
IN_JAVA: Final = "in, {} B, MB/s, Kafka's tool"
OUT_JAVA: Final = "out, {} B, MB/s, Kafka's tool"
LESS_IS_BETTER: Final = ("latency", "memory", "start")
IN_README: Final = {
    IN_JAVA.format(1000): ("records of 1,000 B in", "MB/s"),
    OUT_JAVA.format(1000): ("records of 1,000 B out", "MB/s"),
    START: ("start", "s"),
    IDLE_MEMORY: ("memory, idle", "MiB"),
}
"""What the README shows, in its words, and the unit."""
Starter = Callable[[], AbstractContextManager[Running]]


class Found:
    """What was measured of a broker: every name has a value for each round."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def note(self, what: str, value: float) -> None:
        """Add a value."""
        self.values.setdefault(what, []).append(value)

    def medians(self, rounds: int) -> dict[str, float]:
        """The middle of the last rounds, by name."""
        return {what: statistics.median(values[-rounds:]) for what, values in self.values.items()}


class Load:
    """One round of everything, on a broker that runs."""

    def __init__(self, running: Running, found: Found, options: argparse.Namespace, *, java: bool) -> None:
        self.running, self.options, self._found, self._java = running, options, found, java
        self._servers = running.bootstrap_servers
        self._topics = 0

    def round(self) -> None:
        """Do everything once."""
        if self._java:
            for size in VALUES:
                self._with_topic(self._kafkas_tools, size)
            self._with_topic(self._requests)
            self._with_topic(self._kafkas_latencies)
        for size in VALUES:
            self._with_topic(self._librdkafka, size)
        self._with_topic(self._latencies)
        self._found.note("memory after the load, MiB", resident_bytes(self.running.pid) / 2**20)

    def _with_topic(self, action: Callable[..., None], *given: int) -> None:
        self._topics += 1
        with self.running.cluster() as cluster, topic(cluster, f"load-{self._topics}", 1) as name:
            action(name, *given)

    # --- Kafka's tools

    def _kafkas_tools(self, name: str, size: int) -> None:
        records = self.options.megabytes * 1_000_000 // size
        produced = perf_tools.produce(self._servers, name, records, size, warmup=records // WARMUP_SHARE, acks="all")
        self._found.note(IN_JAVA.format(size), produced.records_per_second * size / 1e6)
        _, rate = perf_tools.consume(self._servers, name, records)
        self._found.note(OUT_JAVA.format(size), rate)

    def _requests(self, name: str) -> None:
        records = self.options.requests
        produced = perf_tools.produce(
            self._servers, name, records, 100, warmup=records // WARMUP_SHARE, acks="all", batch_size=0, linger_ms=0
        )
        self._found.note("requests of one record, 1/s, Kafka's tool", produced.records_per_second)

    def _kafkas_latencies(self, name: str) -> None:
        rate, records = self.options.rate, int(self.options.rate * self.options.seconds)
        warmup = records // WARMUP_SHARE
        measured = perf_tools.produce(
            self._servers, name, records + warmup, 100, rate=rate, warmup=warmup, acks="all", linger_ms=0
        )
        for percentile, ms in (
            ("mean", measured.mean_ms),
            ("p50", measured.p50_ms),
            ("p99", measured.p99_ms),
            ("p99.9", measured.p999_ms),
        ):
            self._found.note(f"latency at {rate}/s, {percentile}, ms, Kafka's tool", ms)

    # --- librdkafka

    def _librdkafka(self, name: str, size: int) -> None:
        records = self.options.megabytes * 1_000_000 // size
        took = self._write(name, b"x" * size, records)
        self._found.note(f"in, {size} B, MB/s, librdkafka", records * size / took / 1e6)
        took = self._read(name, records)
        self._found.note(f"out, {size} B, MB/s, librdkafka", records * size / took / 1e6)

    def _write(self, name: str, value: bytes, records: int) -> float:
        producer = Producer({**PRODUCER, "bootstrap.servers": self._servers})
        failures: list[KafkaError] = []
        producer.produce(name, value)  # connects, and learns who leads
        producer.flush(30)

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        begun = time.perf_counter()
        for number in range(records - 1):
            last = number == records - 2
            while True:
                try:
                    producer.produce(name, value, on_delivery=on_delivery if last else None)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(TIMEOUT_S)
        took = time.perf_counter() - begun
        if left or failures:
            raise RuntimeError(f"{self.running.name}: {left} records were not acknowledged, {failures}")
        return took

    def _read(self, name: str, records: int) -> float:
        consumer = Consumer({**CONSUMER, "bootstrap.servers": self._servers})
        consumer.list_topics(name, timeout=30)  # connects
        deadline = time.perf_counter() + TIMEOUT_S
        begun, seen = time.perf_counter(), 0
        consumer.assign([TopicPartition(name, 0, 0)])
        while seen < records:
            # At most the rest: consume() waits until it has the requested number.
            seen += len(consumer.consume(min(POLL_RECORDS, records - seen), 1.0))
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{self.running.name}: {seen} of {records} records came")
        took = time.perf_counter() - begun
        consumer.close()
        return took

    def _latencies(self, name: str) -> None:
        rate = self.options.rate
        producer = Producer({"acks": "all", "linger.ms": 0, "bootstrap.servers": self._servers})
        latencies: list[float] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise RuntimeError(f"{self.running.name}: {error}")
            latencies.append(message.latency() or 0.0)

        producer.produce(name, b"x")
        producer.flush(30)
        begun = time.perf_counter()
        for number in range(int(rate * self.options.seconds)):
            due = begun + number / rate
            while (ahead := due - time.perf_counter()) > 0:
                producer.poll(ahead)
            producer.produce(name, b"x" * 100, on_delivery=on_delivery)
        producer.flush(30)
        latencies.sort()
        for percent in PERCENTILES:
            value = latencies[min(len(latencies) - 1, int(len(latencies) * percent / 100))]
            self._found.note(f"latency at {rate}/s, p{percent:g}, ms, librdkafka", value * 1000)


def starting(starter: Starter, found: Found) -> Case:
    """A case: a broker of its own starts, and ends."""

    def case() -> float:
        with starter() as running:
            found.note(START, running.start_seconds)
            found.note(IDLE_MEMORY, resident_bytes(running.pid) / 2**20)
            return running.start_seconds

    return case


def compare(medians: dict[str, dict[str, float]]) -> list[list[Cell]]:
    """A line for each thing that was measured: the brokers' values, and how many times as good ours is."""
    mine, theirs = medians[OURS], medians.get(THEIRS, {})
    lines: list[list[Cell]] = []
    for what, value in mine.items():
        other = theirs.get(what)
        times = None
        if other and value:
            times = other / value if what.startswith(LESS_IS_BETTER) else value / other
        lines.append([what, value, other, times])
    return lines


def main() -> None:
    """Measure, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker alone")
    parser.add_argument("--megabytes", type=int, default=200, help="of values, written and read per size and round")
    parser.add_argument("--requests", type=int, default=20_000, help="of one record each")
    parser.add_argument("--rate", type=int, default=1000, help="records per second for the latency")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the latency is measured for, each round")
    options = parse(parser, megabytes=2, requests=200, seconds=1.0)
    report = Report("broker", "Brokers under load", options)
    reason = apache_kafka_unavailable()
    if reason:
        report.note(reason)
    found = {OURS: Found()} if reason or options.bundled else {OURS: Found(), THEIRS: Found()}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        numbers = iter(range(10**6))
        starters: dict[str, Starter] = {
            OURS: lambda: bundled(Path(directory, str(next(numbers)))),
            THEIRS: apache_kafka,
        }
        warmups = 0 if options.quick else 1
        starts = {name: starting(starters[name], found[name]) for name in found}
        measure(starts, options.rounds, warmups, title="start")
        rounds: dict[str, Case] = {}
        for name, values in found.items():
            running = stack.enter_context(starters[name]())
            rounds[name] = Load(running, values, options, java=reason is None).round
        measure(rounds, options.rounds, warmups, title="load")
    medians = {name: each.medians(options.rounds) for name, each in found.items()}
    lines = compare(medians)
    report.table(["", OURS, THEIRS, "times as good"], lines)
    _targets(report, medians)
    report.keep({name: each.values for name, each in found.items()}).save()


def _targets(report: Report, medians: dict[str, dict[str, float]]) -> None:
    mine, theirs = medians[OURS], medians.get(THEIRS, {})
    for what in (IN_JAVA.format(1000), "in, 1000 B, MB/s, librdkafka"):
        if what in theirs:
            report.target(f"{what}, x {THEIRS}", 1.0, mine[what] / theirs[what])
    for what, (shown, unit) in IN_README.items():
        if what in theirs:
            less = what.startswith(LESS_IS_BETTER)
            report.beside(f"bundled broker: {shown}", unit, mine[what], THEIRS, theirs[what], less_is_better=less)
    report.target(START, 0.5, mine[START], at_most=True)
    report.target(IDLE_MEMORY, 60e6 / 2**20, mine[IDLE_MEMORY], at_most=True)


if __name__ == "__main__":
    main()
