"""What tasks of our source take as they read more partitions, and as batches of records get smaller: time and memory.

    python -m benchmarks.worker [--bundled] [--rows 1000000]

Tasks run without Spark, in a process of its own that is warm, as a Python worker of Spark's is. Records have keys of 10
bytes and values of 100; each line reads the same number of them.

- partitions: one task (``maxPartitions=1``) reads them all, in batches of up to 16 KiB.
- records in a batch: 64 partitions in 64 tasks, one after the other. With one record in a batch there are as many
  batches as records.

Memory is what the process had at most, beyond what it had at its start, before it imported anything of the source.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.support import filling
from benchmarks.support.brokers import BATCH_BYTES, Running, apache_kafka_or_bundled, topic
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import measure
from benchmarks.support.source_process import TASK, Took, source_process
from spark_kafka_native._client.cluster.cluster import Cluster

VALUE_BYTES: Final = 100
SOME_PARTITIONS: Final = 10
"""From so many on, a response is as large as it may be: one partition alone gives less to a response."""
PARTITIONS: Final = (1, SOME_PARTITIONS, 100, 1_000)
RECORDS_IN_BATCH: Final = (1_000, 100, 10, 1)
TASKS: Final = 64
RECORD_BYTES: Final = 120
"""What a record takes in a batch, about: as many fit into a batch as are wanted, and not one more."""
WANTED_MEMORY: Final = 1.1
"""Most memory of a task with many partitions, times that with some."""
COLUMNS: Final = ("µs/record", "CPU µs/record", "memory, MiB", "time, x first line", "memory, x first line")

Found = Mapping[int, Sequence[Took]]
"""What each round took, by the number of partitions, or of records in a batch."""


class Bench:
    """Topics on one broker that are read by a process each."""

    def __init__(self, running: Running, cluster: Cluster, rows: int, rounds: int) -> None:
        self.running, self.cluster, self.rows, self.rounds = running, cluster, rows, rounds
        self._pool = filling.events(filling.POOL_BYTES, VALUE_BYTES, VALUE_BYTES, 0).select(["key", "value"])

    def partitions(self, counts: Sequence[int]) -> dict[int, list[Took]]:
        """One task that reads so many."""
        return {count: self._read(count, BATCH_BYTES, {"maxPartitions": "1"}) for count in counts}

    def batches(self, counts: Sequence[int]) -> dict[int, list[Took]]:
        """Batches of so many records."""
        return {count: self._read(TASKS, count * RECORD_BYTES, {}) for count in counts}

    def _read(self, partitions: int, batch_bytes: int, more: Mapping[str, str]) -> list[Took]:
        with ExitStack() as stack:
            name = stack.enter_context(topic(self.cluster, f"worker-{partitions}-{batch_bytes}", partitions))
            self._fill(name, partitions, batch_bytes)
            options = {"kafka.bootstrap.servers": self.running.bootstrap_servers, "subscribe": name, **more}
            run = stack.enter_context(source_process(TASK, options))
            return self._measured(run, f"{partitions:,} partitions, batches of {batch_bytes:,} bytes")

    def _measured(self, run: Callable[[], Took], title: str) -> list[Took]:
        found: list[Took] = []

        def case() -> float:
            found.append(took := run())
            if took.count != self.rows:
                raise RuntimeError(f"{title}: {took.count:,} rows instead of {self.rows:,}")
            return took.seconds

        measure({title: case}, self.rounds)
        return found[-self.rounds :]

    def _fill(self, name: str, partitions: int, batch_bytes: int) -> None:
        def spread(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            numbers = np.arange(first, first + batch.num_rows) % partitions
            return batch.append_column("partition", pa.array(numbers, pa.int32()))

        options: dict[str, object] = {"batch.size": batch_bytes}
        filling.fill(self.running.bootstrap_servers, name, self.rows, self._pool, options=options, more=spread)


def lines(found: Found, rows: int) -> list[list[Cell]]:
    """A line for each number: medians of the rounds, and the most memory."""
    costs = {
        number: (
            statistics.median(each.seconds for each in took) / rows * 1e6,
            statistics.median(each.cpu_seconds for each in took) / rows * 1e6,
            max(each.peak_bytes for each in took) / 2**20,
        )
        for number, took in found.items()
    }
    first = next(iter(costs.values()))
    return [[f"{number:,}", *cost, cost[0] / first[0], cost[2] / first[2]] for number, cost in costs.items()]


def main() -> None:
    """Measure both, and report."""
    parser = arguments(__doc__)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each line (%(default)s)")
    options = parse(parser, rows=10_000)
    report = Report("worker", "Tasks of the source, records of 110 B", options)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(apache_kafka_or_bundled(directory, bundled_wanted=options.bundled))
        report.note(f"The broker is {running.name}.")
        bench = Bench(running, stack.enter_context(running.cluster()), options.rows, options.rounds)
        by_partitions, by_batch = bench.partitions(PARTITIONS), bench.batches(RECORDS_IN_BATCH)
    report.table(("partitions", *COLUMNS), lines(by_partitions, options.rows), f"One task, {options.rows:,} records")
    report.table(
        ("records in a batch", *COLUMNS), lines(by_batch, options.rows), f"{TASKS} tasks, {options.rows:,} records"
    )
    some, many = (max(each.peak_bytes for each in by_partitions[count]) for count in (SOME_PARTITIONS, PARTITIONS[-1]))
    what = f"{PARTITIONS[-1]:,} partitions in one task: memory, times that with {SOME_PARTITIONS}"
    report.target(what, WANTED_MEMORY, many / some, at_most=True)
    report.keep({"partitions": _seconds(by_partitions), "records in a batch": _seconds(by_batch)}).save()


def _seconds(found: Found) -> dict[int, list[float]]:
    return {number: [each.seconds for each in took] for number, took in found.items()}


if __name__ == "__main__":
    main()
