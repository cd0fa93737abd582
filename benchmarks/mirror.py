"""Copying a topic to another cluster: our mirror, the same one without forwarding, and MirrorMaker 2 of Apache Kafka.

    python -m benchmarks.mirror [--rounds 3] [--codecs lz4,zstd] [--batch-bytes 16384,262144] [--megabytes 400]

- ours: `pykafka mirror`, which forwards batches compressed as they are (KAFKA-1001), and merges small ones.
- always encoded: the same process, which decodes all batches and compresses their records again.
- MirrorMaker 2: a dedicated process with what its users set for throughput: tasks for all processors, larger fetches
  and batches, a linger time, and the codec of the topic.

Each runs in a process of its own, beside both clusters on this machine. The rate is from the first look that finds
records in the copy, until the last record is there, in MB of keys and values: the start of the process does not count,
and is shown beside it. The CPU time is that of the process from its start.
"""

import functools
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from benchmarks.support import filling
from benchmarks.support.brokers import BATCH_BYTES, Running, apache_kafka_or_bundled, topic
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.programs import maven
from tests.support.servers.apache_kafka import KAFKA_VERSION, apache_kafka_unavailable, die_with_parent, java_command

_RECORD_BYTES: Final = (900, 1100)
_LOOK_S: Final = 0.02
_LONGEST_S: Final = 300.0
_STOP_S: Final = 60.0
_HEAP: Final = "1g"
OURS, ENCODED, MIRROR_MAKER_2 = "ours", "always encoded", "MirrorMaker 2"
Command = Callable[[Path, str, str], list[str]]
"""From a directory, the topic and its codec."""


@dataclass
class Found:
    """What the runs of one mirror took."""

    start_seconds: list[float] = field(default_factory=list)
    """From the start of the process to the first records in the copy."""
    cpu_seconds: list[float] = field(default_factory=list)


@dataclass
class Copies:
    """Two clusters, and the topic of the source."""

    source: Running
    target: Running
    records: int
    partitions: int
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, command: Command, name: str, codec: str, found: Found) -> float:
        """Copy the topic, and delete the copy; the seconds of all records at the measured rate."""
        with (
            tempfile.TemporaryDirectory() as directory,
            self.target.cluster() as cluster,
            topic(cluster, name, self.partitions),
            _running(command(Path(directory), name, codec), Path(directory)) as process,
        ):
            began = time.perf_counter()
            first_at, first = _when(cluster, name, self.partitions, 1, began + _LONGEST_S, process)
            last_at, _ = _when(cluster, name, self.partitions, self.records, began + _LONGEST_S, process)
            times = process.cpu_times()
            found.start_seconds.append(first_at - began)
            found.cpu_seconds.append(times.user + times.system)
        if first > self.records / 2:
            raise ValueError(f"the first look found {first} of {self.records} records; --megabytes is too little")
        return (last_at - first_at) * self.records / (self.records - first)

    def ours(self, module: Sequence[str]) -> Command:
        """Our mirror, with a stream for each processor."""

        def command(directory: Path, name: str, _: str) -> list[str]:
            consumer, producer = directory / "consumer.properties", directory / "producer.properties"
            group = f"mirror-{next(self.numbers)}"
            consumer.write_text(f"bootstrap.servers={self.source.bootstrap_servers}\ngroup.id={group}\n")
            producer.write_text(f"bootstrap.servers={self.target.bootstrap_servers}\n")
            files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
            streams = ["--num.streams", str(os.cpu_count())]
            return [sys.executable, "-m", *module, *files, "--include", name, *streams]

        return command

    def mirror_maker_2(self) -> Command:
        """The rival. Raises MavenError."""
        coordinates = [f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"]
        jars = maven.resolve(f"connect-mirror-{KAFKA_VERSION}", coordinates)

        def command(directory: Path, name: str, codec: str) -> list[str]:
            alias = f"source{next(self.numbers)}"  # its offsets at the target have this name
            properties: Mapping[str, object] = {
                "clusters": f"{alias}, target",
                f"{alias}.bootstrap.servers": self.source.bootstrap_servers,
                "target.bootstrap.servers": self.target.bootstrap_servers,
                f"{alias}->target.enabled": "true",
                f"{alias}->target.topics": name,
                f"target->{alias}.enabled": "false",
                "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
                "replication.factor": 1,
                "checkpoints.topic.replication.factor": 1,
                "heartbeats.topic.replication.factor": 1,
                "offset-syncs.topic.replication.factor": 1,
                "offset.storage.replication.factor": 1,
                "status.storage.replication.factor": 1,
                "config.storage.replication.factor": 1,
                "emit.checkpoints.enabled": "false",
                "emit.heartbeats.enabled": "false",
                "tasks.max": os.cpu_count(),
                f"{alias}.consumer.auto.offset.reset": "earliest",
                f"{alias}.consumer.max.poll.records": 5000,
                f"{alias}.consumer.fetch.min.bytes": 100_000,
                f"{alias}.consumer.max.partition.fetch.bytes": 4 << 20,
                "target.producer.compression.type": codec,
                "target.producer.batch.size": 256 << 10,
                "target.producer.linger.ms": 20,
                "target.producer.buffer.memory": 128 << 20,
            }
            path = directory / "mm2.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            java = java_command(_HEAP, ("-XX:+UseG1GC",), more=jars)
            return [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(path)]

        return command


@contextmanager
def _running(command: Sequence[str], directory: Path) -> Iterator[psutil.Popen]:
    """A process that is stopped at the end."""
    log_path = directory / "output.log"
    with log_path.open("wb") as log:
        process = psutil.Popen([*die_with_parent(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    except BaseException:
        print(log_path.read_text(errors="replace")[-3000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(_STOP_S)


def _when(
    cluster: Cluster, name: str, partitions: int, wanted: int, until: float, process: psutil.Popen
) -> tuple[float, int]:
    """The time of the first look that finds at least so many records in the copy, and their number."""
    ends = dict.fromkeys((TopicPartition(name, number) for number in range(partitions)), LATEST)
    while True:
        count = sum(each.offset for each in list_offsets(cluster, ends).values())
        now = time.perf_counter()
        if count >= wanted:
            return now, count
        if now >= until or process.poll() is not None:
            raise TimeoutError(f"{count} of {wanted} records were copied")
        time.sleep(_LOOK_S)


def sizes(text: str) -> list[int]:
    """Integers with commas between them."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Copy a topic of each codec with each mirror in turns, and report."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--codecs", type=lambda names: names.split(","), default=["lz4", "zstd"])
    parser.add_argument("--megabytes", type=int, default=400, help="of keys and values in the topic (%(default)s)")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument(
        "--batch-bytes", type=sizes, default=[BATCH_BYTES, 1 << 18], help="batch.size of topics (16384,262144)"
    )
    parser.add_argument("--ours", action="store_true", help="without MirrorMaker 2")
    parser.add_argument("--bundled", action="store_true", help="both clusters are the bundled broker")
    options = parse(parser, codecs=["lz4"], batch_bytes=[BATCH_BYTES], megabytes=40, partitions=4)
    report = Report("mirror", "Copies of a topic in another cluster", options)
    rows: list[list[Cell]] = []
    with ExitStack() as stack:
        directories = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        source, target = (
            stack.enter_context(apache_kafka_or_bundled(directory, bundled_wanted=options.bundled))
            for directory in directories
        )
        pool = filling.events(filling.POOL_BYTES, *_RECORD_BYTES, 0).select(["key", "value"])
        per_record = (pool["key"].nbytes + pool["value"].nbytes) / pool.num_rows
        records = round(options.megabytes * 1e6 / per_record)
        copies = Copies(source, target, records, options.partitions)
        commands = {
            OURS: copies.ours(["spark_kafka_native", "mirror"]),
            ENCODED: copies.ours(["benchmarks.support.decoding_mirror"]),
        }
        if options.ours:
            report.notes.append("MirrorMaker 2 was left out")
        elif (reason := apache_kafka_unavailable()) is None:
            commands[MIRROR_MAKER_2] = copies.mirror_maker_2()
        else:
            report.notes.append(f"without MirrorMaker 2: {reason}")
        for codec, batch_bytes in itertools.product(options.codecs, options.batch_bytes):
            name = f"events-{codec}-{batch_bytes}"
            with source.cluster() as cluster, topic(cluster, name, options.partitions):
                producer = {"compression.type": codec, "batch.size": batch_bytes}
                filling.fill(source.bootstrap_servers, name, records, pool, options=producer)
                found = {mirror: Found() for mirror in commands}

                cases: dict[str, Case] = {
                    mirror: functools.partial(copies.run, command, name, codec, found[mirror])
                    for mirror, command in commands.items()
                }
                seconds = measure(cases, options.rounds, title=name)
            report.keep({f"{name}, seconds": seconds})
            rates = {mirror: options.megabytes / statistics.median(each) for mirror, each in seconds.items()}
            for mirror, rate in rates.items():
                cpu = statistics.median(found[mirror].cpu_seconds) / options.megabytes * 1000
                start = statistics.median(found[mirror].start_seconds)
                rows.append(
                    [codec, batch_bytes, mirror, round(rate, 1), rate / rates[OURS], round(cpu, 2), round(start, 2)]
                )
    title = f"{source.name} to {target.name}, {options.partitions} partitions, medians of {options.rounds} rounds"
    report.table(("codec", "batch", "", "MB/s", "of ours", "CPU s/GB", "start s"), rows, title)
    report.save()


if __name__ == "__main__":
    main()
