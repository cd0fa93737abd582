"""What our producer costs on its own, and what transactions add to it, on the bundled broker.

    python -m benchmarks.producer [--rounds 5] [--batches 6] [--batch-bytes 524288] [--transactions 200]

- rows: CPU time of this process for 100-byte values, 50,000 to a batch of rows, over eight partitions; the best round,
  so that other load disturbs little. In one transaction each round where there are any.
- small: from ``begin`` to the end of ``commit`` with one row in it, one transaction after the other; the median.

Rows are measured without transactions, too, in turns; both at levels 1 and 2 of ``transaction.version``.
"""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import measure
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer

_ROWS: Final = 50_000
_PARTITIONS: Final = 8
_LEVELS: Final = (1, 2)
Way = Callable[[Cluster, pa.RecordBatch, int], None]


def rows_of(count: int) -> pa.RecordBatch:
    """Rows with 100-byte values, spread over the partitions."""
    numbers = [number % _PARTITIONS for number in range(count)]
    return pa.RecordBatch.from_pydict(
        {"value": pa.array([b"x" * 100] * count, pa.binary()), "partition": pa.array(numbers, pa.int32())}
    )


def plain(cluster: Cluster, rows: pa.RecordBatch, batches: int) -> None:
    """Everything without a transaction."""
    with Producer(cluster) as producer:
        for _ in range(batches):
            producer.send("t", rows)


def in_one_transaction(cluster: Cluster, rows: pa.RecordBatch, batches: int) -> None:
    """The same in one transaction."""
    with TransactionalProducer(cluster, "benchmark") as producer:
        producer.begin()
        for _ in range(batches):
            producer.send("t", rows)
        producer.commit()


def small_transactions(cluster: Cluster, count: int) -> list[float]:
    """Seconds of each of many transactions with one row."""
    found = []
    row = rows_of(1)
    with TransactionalProducer(cluster, "benchmark-small") as producer:
        for _ in range(count):
            begun = time.perf_counter()
            producer.begin()
            producer.send("t", row)
            producer.commit()
            found.append(time.perf_counter() - begun)
    return found


def main() -> None:
    """Measure everything and report."""
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--batch-bytes", type=int, default=524_288)
    parser.add_argument("--transactions", type=int, default=200)
    options = parse(parser, batches=1, transactions=5)
    report = Report("producer", "Our producer alone", options)
    rows, count = rows_of(_ROWS), _ROWS * options.batches
    cpu: dict[str, list[float]] = {}
    small: dict[str, list[float]] = {}
    for level in _LEVELS:
        settings = {"transaction.version": str(level)}
        with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), settings=settings) as broker:
            broker.create_topic("t", _PARTITIONS)
            given = {"bootstrap.servers": broker.bootstrap_servers, "batch.size": options.batch_bytes}
            with Cluster(ClientConfig.parse(given)) as cluster:

                def cpu_of(way: Way, cluster: Cluster = cluster) -> float:
                    begun = time.process_time()
                    way(cluster, rows, options.batches)
                    return time.process_time() - begun

                ways: dict[str, Way] = {"no transaction": plain, f"level {level}": in_one_transaction}
                cases = {name: functools.partial(cpu_of, way) for name, way in ways.items()}
                for name, seconds in measure(cases, options.rounds, title=f"level {level}").items():
                    cpu.setdefault(name, []).extend(seconds)
                small[f"level {level}"] = small_transactions(cluster, options.transactions)
    lines: list[list[Cell]] = [
        [
            name,
            round(min(seconds) / count * 1e9),
            statistics.median(small[name]) * 1000 if name in small else None,
        ]
        for name, seconds in cpu.items()
    ]
    title = f"{count:,} rows in batches of {options.batch_bytes:,} bytes"
    report.table(("", "rows, ns of CPU each", "small transaction, ms"), lines, title)
    report.keep({"rows, CPU seconds": cpu, "small transactions, seconds": small})
    report.save()


if __name__ == "__main__":
    main()
