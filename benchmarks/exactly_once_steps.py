"""What the steps of an exactly-once micro-batch take by our client alone, without Spark: planning, a task, the commit.

    python -m benchmarks.exactly_once_steps [--tasks 2,50] [--rows 100] [--partitions 2] [--rounds 30] [--apache]

Tasks go one after the other. Medians in milliseconds, after a micro-batch that warms up.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from benchmarks.support.report import Cell, Report, arguments, parse
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import Steps
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.options.exactly_once import DEFAULT_RECOVERY_MS, DEFAULT_TIMEOUT_MS
from spark_kafka_native._spark.sink.effects import carry_out
from tests.support.servers.apache_kafka import ApacheKafka

T = TypeVar("T")
TOPIC: Final = "steps"
QUERY: Final = Owner(OwnerKind.QUERY, "benchmark")
TIMING: Final = timing_of(DEFAULT_TIMEOUT_MS, DEFAULT_RECOVERY_MS)
STEPS: Final = ("planning", "task", "commit")


class Bench:
    """Micro-batches of so many tasks, one after the other."""

    def __init__(self, cluster: Cluster, tasks: int, rows: pa.RecordBatch) -> None:
        self.cluster, self.tasks, self.rows = cluster, tasks, rows
        self.names = Names(prefix=f"steps-{tasks}")
        self.seconds: dict[str, list[float]] = {step: [] for step in STEPS}

    def run(self, rounds: int) -> list[float]:
        """The median of each step, in milliseconds."""
        for batch_id in range(rounds + 1):
            if batch_id == 1:
                self.seconds = {step: [] for step in STEPS}
            self._run_batch(batch_id)
        return [statistics.median(self.seconds[step]) * 1000 for step in STEPS]

    def _run_batch(self, batch_id: int) -> None:
        planned = self._timed("planning", plan(self.names, TIMING))
        attempts = range(batch_id * self.tasks, (batch_id + 1) * self.tasks)
        messages = [
            self._timed("task", task(planned, QUERY, batch_id, attempt, TIMING, has_rows=True)) for attempt in attempts
        ]
        self._timed("commit", commit(self.names, messages, TIMING))

    def _timed(self, step: str, steps: Steps[T]) -> T:
        started = time.perf_counter()
        result = carry_out(self.cluster, steps, send=self._send)
        self.seconds[step].append(time.perf_counter() - started)
        return result

    def _send(self, producer: Producer) -> None:
        producer.send(TOPIC, self.rows)


def rows_of(count: int, partitions: int) -> pa.RecordBatch:
    """Rows with 100-byte values, spread over the partitions."""
    numbers = pa.array([number % partitions for number in range(count)], pa.int32())
    return pa.RecordBatch.from_pydict({"value": pa.array([b"x" * 100] * count, pa.binary()), "partition": numbers})


def main() -> None:
    """Measure everything and report."""
    parser = arguments(__doc__, rounds=30)
    parser.add_argument("--tasks", default="2,50", help="of a micro-batch; several with commas between them")
    parser.add_argument("--rows", type=int, default=100, help="of a task")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--apache", action="store_true", help="on Apache Kafka, too, from Maven Central")
    options = parse(parser, tasks="2")
    report = Report("exactly_once_steps", "The steps of an exactly-once micro-batch", options)
    rows = rows_of(options.rows, options.partitions)
    found: list[list[Cell]] = []

    def measure(name: str, broker: BrokerProcess | ApacheKafka) -> None:
        broker.create_topic(TOPIC, options.partitions)
        with Cluster(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers})) as cluster:
            numbers = map(int, options.tasks.split(","))
            found.extend([name, tasks, *Bench(cluster, tasks, rows).run(options.rounds)] for tasks in numbers)

    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory)) as bundled:
        measure("bundled broker", bundled)
    if options.apache:
        with ApacheKafka(jvm_options=()) as kafka:
            measure("Apache Kafka", kafka)
    title = f"{options.rows} rows to a task, in {options.partitions} partitions; medians in ms"
    report.table(("broker", "tasks", "planning", "each task", "commit"), found, title)
    report.save()


if __name__ == "__main__":
    main()
