"""How long the bundled broker takes to open its logs: many partitions or many segments, after a clean stop and a crash.

`python -m benchmarks.broker_start [--segments 10000] [--segment-bytes 20000] [--open-files 1024] [--directory DIR]`

Two layouts with the same number of segments: a thousandth part of the segments in each of 1,000 partitions, and all in
one partition. Each is opened in a fresh process of its own: after a clean stop; after a crash with every complete
segment flushed, as it is soon after it was rolled; and after a crash of which nothing tells what was flushed, so that
every byte is read. ``--open-files`` is the limit of the process (ulimit -n). Times are wall-clock, of the opening
alone; the files are in the page cache.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.support.report import Cell, Report, arguments, parse
from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, seal, write_header
from spark_kafka_native._records.record import encode_body, varint

VALUE = b"x" * 1000
MAX_PARTITIONS = 1000
CASES = ("clean stop", "crash, flushed", "crash, nothing known")


def main() -> None:
    """Make both layouts, open each in every way, and report."""
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--segment-bytes", type=int, default=20_000)
    parser.add_argument("--open-files", type=int, default=1024)
    parser.add_argument("--directory", type=Path, help="where the data is made; by default a temporary directory")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parse(parser, segments=50)
    if options.open:
        print(json.dumps(opened(options.open)))
        return
    report = Report("broker_start", "How long the bundled broker takes to open its logs", options)
    rows: list[list[Cell]] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        for partitions in (min(MAX_PARTITIONS, options.segments), 1):
            data, segments = Path(scratch, "data"), options.segments // partitions
            make(data, partitions, segments, options.segment_bytes)
            rows += [[partitions, segments, case, *measure(data, case, options.open_files)] for case in CASES]
            shutil.rmtree(data)
    titles = ("partitions", "segments each", "after", "seconds", "CPU seconds", "MB resident", "open files")
    report.table(titles, rows, f"opening {options.segments:,} segments of {options.segment_bytes:,} bytes")
    report.save()


def batch() -> bytearray:
    """One record of a thousand bytes."""
    record = encode_body(0, 0, b"key", VALUE)
    made = bytearray(RECORD_BATCH_OVERHEAD) + varint(len(record)) + record
    now_ms = time.time_ns() // 1_000_000
    write_header(
        made, size_in_bytes=len(made), last_offset_delta=0, base_timestamp=now_ms, max_timestamp=now_ms, records_count=1
    )
    seal(made)
    return made


def make(data: Path, partitions: int, segments: int, segment_bytes: int) -> None:
    """Logs of so many complete segments each, and one begun, closed in order."""
    manager = LogManager(data, LogConfig(), Platform())
    manager.load_all()
    names = [TopicPartition("t", index) for index in range(partitions)]
    record = batch()
    for log in manager.create_all(names, uuid4()):
        for _ in range(segments):
            for _ in range(max(1, segment_bytes // len(record))):
                log.append(bytearray(record), leader_epoch=0)
            log.local.roll()
        log.append(bytearray(record), leader_epoch=0)
    manager.close()


def measure(data: Path, case: str, open_files: int) -> list[float]:
    """Open a copy of the directory's state in a process of its own."""
    if case != CASES[0]:
        (data / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    if case == CASES[2]:
        (data / RECOVERY_POINTS).unlink(missing_ok=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    response = subprocess.run(
        [sys.executable, "-m", "benchmarks.broker_start", "--open", str(data)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard)),
    )
    found: dict[str, Any] = json.loads(response.stdout)
    return [found["seconds"], found["cpu"], round(found["resident"] / 1e6), found["open"]]


def opened(data: Path) -> dict[str, float]:
    """Open the logs as a starting broker does, and close them again."""
    manager = LogManager(data, LogConfig(), Platform())
    began, began_cpu = time.perf_counter(), time.process_time()
    manager.load_all()
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    found = {
        "seconds": seconds,
        "cpu": cpu,
        "resident": pages * os.sysconf("SC_PAGE_SIZE"),
        "open": len(os.listdir("/proc/self/fd")),
    }
    manager.close()
    return found


if __name__ == "__main__":
    main()
