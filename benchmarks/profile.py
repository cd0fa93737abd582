"""Where the CPU time of a row goes, stage by stage: our source and sink, Spark's JVM connector, and a stub in Python.

    python -m benchmarks.profile [--bundled] [--bytes 100,1000,10000]

Batches as in ``benchmarks.source`` and ``benchmarks.sink``, each sampled by Linux's ``perf`` once its processes are
warm. A number is the CPU time of a stage on both cores in microseconds a row, the median of the rounds. ``other`` is
the time of samples that no stage matches. The columns of the stub are what Spark itself takes for any source or
sink that is written in Python: a source that is faster than the stub's stages of Spark's JVM cannot be written.
"""

import re
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from benchmarks import sink, source
from benchmarks.support import linux_perf
from benchmarks.support.brokers import apache_kafka_or_bundled
from benchmarks.support.cpu import BROKER, JVM, WORKERS, CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case
from benchmarks.support.sessions import JAVA_OPTIONS, RECOMMENDED, jars_of_connector, local_session
from benchmarks.support.shapes import BATCH, BYTES, QUICK_SCALE, USUAL_TASKS, Shape, sizes
from benchmarks.support.speeds import OURS, STUB, TUNED

BENCHES: Final = {"read": source, "write": sink}
WARMUPS: Final = 3


def _stages(**patterns: str) -> linux_perf.Stages:
    return {name.replace("_", " "): re.compile(pattern) for name, pattern in patterns.items()}


_SOCKETS: Final = {"receiving": r"tcp_recvmsg|unix_stream_re", "sending": r"tcp_sendmsg|unix_stream_send"}
STAGES: Final[Mapping[str, linux_perf.Stages]] = {
    BROKER: {},
    JVM: _stages(
        collecting_garbage=r"^(GC Thread|G1 |VM Thread)",
        compiling=r"^C[12] Compiler",
        **_SOCKETS,
        the_connector=r"org\.apache\.kafka|kafka010",
        making_rows=r"GeneratedClass|UnsafeProjection|UnsafeRowWriter|ArrowColumnVector|ColumnarBatchRow",
        Arrow=r"org\.apache\.arrow",
    ),
    WORKERS: _stages(
        **_SOCKETS,
        checksums=r"crc32c",
        codecs=r"lz4|zstd|isal|cramjam|libz",
        records=r"/_kernel/",
        Arrow=r"libarrow|pyarrow",
        copying=r"mem(move|cpy|set)",
        Python=r"libpython|/python[.0-9]*\)",
    ),
}
Found = Mapping[tuple[str, str], float]
"""Microseconds a row, by process and stage."""


def main() -> None:
    """Sample every connector, and report."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--bytes", type=sizes, default=list(BYTES), metavar="N,N", help="sizes of values")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of rows (%(default)s)")
    options = parse(parser, scale=QUICK_SCALE, bytes=[100])
    if reason := linux_perf.unavailable():
        parser.error(reason)
    report = Report("profile", "Where the CPU time of a row goes", options)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        jars = jars_of_connector(report)
        running = stack.enter_context(apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled))
        report.note(f"Broker: {running.name}.")
        cluster = stack.enter_context(running.cluster())
        given = {**RECOMMENDED, JAVA_OPTIONS: linux_perf.JAVA_OPTIONS}
        spark = local_session("profile", directory, jars=jars, memory="4g", settings=given)
        stack.callback(spark.stop)
        meter = CpuMeter.beside(running.pid)
        for verb, module in BENCHES.items():
            bench = module.Bench(spark, running, cluster, directory)
            for size in options.bytes:
                count = max(round(module.COUNTS[size] * options.scale) // USUAL_TASKS, 1) * USUAL_TASKS
                shape = Shape(value_bytes=size, count=count)
                names = [OURS, *([TUNED] if jars else ()), STUB]
                with bench.prepared(shape):
                    cases = {name: bench.case(BATCH, name, shape, meter) for name in names}
                    found = profiles(cases, options.rounds, shape, meter, directory)
                report.table(("process", "stage", *names), lines(found), f"{verb} {size:,} B, µs/row")
                report.keep({f"{verb} {size}": {name: _named(each) for name, each in found.items()}})
    report.save()


def profiles(
    cases: Mapping[str, Case], rounds: int, shape: Shape, meter: CpuMeter, directory: Path
) -> Mapping[str, Found]:
    """Of each case, the medians of the rounds."""

    def kinds() -> Mapping[int, str]:
        workers = psutil.Process(meter.jvm_pid).children(recursive=True)
        return dict.fromkeys((each.pid for each in workers), WORKERS) | {meter.jvm_pid: JVM, meter.broker_pid: BROKER}

    for case in [*cases.values()] * WARMUPS:
        case()
    seen: dict[str, list[Found]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            with linux_perf.sampled(STAGES, kinds, meter.jvm_pid, directory) as seconds:
                case()
            seen[name].append({key: each / shape.count * 1e6 for key, each in seconds.items()})
    return {name: _medians(each) for name, each in seen.items()}


def _medians(each: Sequence[Found]) -> Found:
    keys = {key for found in each for key in found}
    return {key: statistics.median(found.get(key, 0.0) for found in each) for key in keys}


def lines(found: Mapping[str, Found]) -> list[list[Cell]]:
    """A line for each stage, and one for all of a process."""
    rows: list[list[Cell]] = []
    for process, stages in STAGES.items():
        names = [*stages, linux_perf.REST] if stages else []
        rows += [[process, stage, *(each.get((process, stage)) for each in found.values())] for stage in names]
        whole = (sum(us for (of, _), us in each.items() if of == process) for each in found.values())
        rows.append([process, "all", *whole])
    return rows


def _named(found: Found) -> dict[str, float]:
    return {f"{process}, {stage}": each for (process, stage), each in sorted(found.items())}


if __name__ == "__main__":
    main()
