"""Kafka's own load tools: what kafka-producer-perf-test and kafka-consumer-perf-test print, as numbers."""

import csv
import re
from dataclasses import dataclass
from typing import Final

from tests.support.servers.apache_kafka import run_tool

TIMEOUT_S: Final = 600.0
HEAP: Final = "512m"
"""As the tools' scripts give."""
_MIB: Final = 2**20
_SUMMARY: Final = re.compile(
    r"(?P<records>\d+)(?: steady state)? records sent, (?P<rate>[\d.]+) records/sec \([\d.]+ MB/sec\), "
    r"(?P<mean>[\d.]+) ms avg latency, (?P<max>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99.9th."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What the producer's tool found once it was warm. Its latencies are whole milliseconds, but for the mean."""

    records: int
    records_per_second: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float


def produce(
    servers: str, topic: str, records: int, record_bytes: int, *, rate: int = -1, warmup: int = 0, **properties: object
) -> Produced:
    """Write records of random letters as fast as can be, or so many a second.

    ``properties`` are the producer's with ``_`` for ``.``. The first ``warmup`` records do not count. Raises
    ApacheKafkaError, MavenError.
    """
    given = [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--throughput", str(rate)]
    arguments += ["--num-records", str(records), "--record-size", str(record_bytes)]
    arguments += ["--warmup-records", str(warmup)] if warmup else []
    arguments += ["--command-property", *given] if given else []
    printed = run_tool(
        "org.apache.kafka.tools.ProducerPerformance", *arguments, timeout_s=TIMEOUT_S, heap=HEAP, jvm_options=()
    )
    # One line for all records, and with a warm-up another one for those after it.
    found = list(_SUMMARY.finditer(printed))
    if not found:
        raise ValueError(f"the producer's tool did not say what it found:\n{printed}")
    last = found[-1]
    return Produced(
        records=int(last["records"]),
        records_per_second=float(last["rate"]),
        mean_ms=float(last["mean"]),
        p50_ms=float(last["p50"]),
        p95_ms=float(last["p95"]),
        p99_ms=float(last["p99"]),
        p999_ms=float(last["p999"]),
    )


def consume(servers: str, topic: str, records: int) -> tuple[float, float]:
    """Read so many records; records a second and MB of values a second while it fetched, joining its group left out.

    Raises ApacheKafkaError, MavenError.
    """
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--num-records", str(records)]
    printed = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance", *arguments, timeout_s=TIMEOUT_S, heap=HEAP, jvm_options=()
    )
    lines = [line for line in printed.splitlines() if line.count(",") > 5]
    (row,) = csv.DictReader(lines, skipinitialspace=True)
    if int(row["data.consumed.in.nMsg"]) < records:
        raise ValueError(f"the consumer's tool read {row['data.consumed.in.nMsg']} of {records} records")
    return float(row["fetch.nMsg.sec"]), float(row["fetch.MB.sec"]) * _MIB / 1e6
