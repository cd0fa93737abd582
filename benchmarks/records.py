"""Record batches to Arrow and back: ns a record, compiled and in plain Python, beside a copy and others' parsers.

    python -m benchmarks.records [--batch-bytes 16384] [--fetch-bytes 1048576] [--codecs none,zstd] [--shapes "100 B"]

One decode call gets what one Fetch of a partition brings (``--fetch-bytes``), in batches of a producer's
``batch.size`` (``--batch-bytes``). All columns but headers are built, and headers where there are any; CRCs are
checked. MB/s count keys and values. The copy is one of the same batches, uncompressed, into fresh memory; CRC-32C is
what the library that decoding calls takes for the batches as they are stored, and nothing else.
aiokafka's parser and its builder are the ones in Cython; they and kafka-python's make and take Python objects.
Times are CPU time of this process; cases alternate, each with as many calls as fill some milliseconds.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

from benchmarks.support.filling import NOW_MS, events
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import measure
from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.batch import CompressionType, iter_batches, set_offsets

COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestamp_type")
UNTIL: Final = 2**62
COPIES: Final = 3.0
"""So many memory copies decoding may take."""
TURN_S: Final = 0.02
QUICK_TURN_S: Final = 0.002

SHAPES: Final[dict[str, tuple[int, int, int]]] = {
    "100 B": (100, 100, 0),
    "70-130 B": (70, 130, 0),
    "100 B, 3 headers": (100, 100, 3),
    "1 KB": (1000, 1000, 0),
    "0.7-1.3 KB": (700, 1300, 0),
    "1 KB, 3 headers": (1000, 1000, 3),
    "10 KB": (10_000, 10_000, 0),
}
"""Shortest and longest value, and number of headers."""
KERNELS: Final = {"plain Python": "off", "compiled": "required"}
COPY: Final = "memory copy"
CHECKSUM: Final = "CRC-32C"
ATTRIBUTES_AT: Final = 21
"""From here on a batch's CRC covers it."""
DECODE, ENCODE = "decode", "encode"
AIOKAFKA, KAFKA_PYTHON = "aiokafka", "kafka-python"

Call = Callable[[], object]
Cases = dict[tuple[str, str], Call]
"""By what is done and who does it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one call goes through."""

    rows: pa.RecordBatch
    codec: CompressionType
    batch_bytes: int

    @property
    def names(self) -> list[str]:
        """The columns to build."""
        return [*COLUMNS, *(["headers"] if "headers" in self.rows.schema.names else [])]

    @property
    def content_bytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(len(content or b"") for name in ("key", "value") for content in self.rows.column(name).to_pylist())

    def stored(self, codec: CompressionType) -> bytes:
        """The rows as batches of a log."""
        batches = MeasuredRows(self.rows, NOW_MS).encode(compression=codec, max_batch_bytes=self.batch_bytes)
        for batch in batches:
            set_offsets(batch.buffer, 0, base_offset=batch.first_row, partition_leader_epoch=0)
        return b"".join(batch.buffer for batch in batches)

    def objects(self) -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]]:
        """The rows as other clients take them."""
        return [
            (row["timestamp"], row["key"], row["value"], [(h["key"], h["value"]) for h in row.get("headers") or ()])
            for row in self.rows.to_pylist()
        ]


def copying(sample: Sample) -> Call:
    """A copy of the batches as they are before compression."""
    buffer = sample.stored(CompressionType.NONE)
    return lambda: bytearray(buffer)


def checksums(sample: Sample) -> Call:
    """The CRCs of the batches. Raises AssertionError: one is not the batch's own."""
    view = memoryview(sample.stored(sample.codec))
    headers = list(iter_batches(view))
    covered = [view[at + ATTRIBUTES_AT : at + header.size_in_bytes] for at, header in headers]
    if [crc32c(part) for part in covered] != [header.crc for _, header in headers]:
        raise AssertionError("a CRC is wrong")
    return lambda: [crc32c(part) for part in covered]


def ours(sample: Sample, choice: str) -> tuple[Call, Call]:
    """Decode and encode, by one kernel. Raises AssertionError: what was encoded is not what is decoded."""
    buffer, names = sample.stored(sample.codec), sample.names

    def read() -> pa.RecordBatch:
        with kernel.using(choice):
            return decode(buffer, from_offset=0, until_offset=UNTIL, columns=names).records

    def write() -> list[Any]:
        with kernel.using(choice):
            return MeasuredRows(sample.rows, NOW_MS).encode(
                compression=sample.codec, max_batch_bytes=sample.batch_bytes
            )

    if not read().select(["key", "value"]).equals(sample.rows.select(["key", "value"])):
        raise AssertionError("what was encoded is not what is decoded")
    return read, write


def peers() -> dict[str, tuple[Any, Any]]:
    """The others' batch builders and readers that are installed; of aiokafka only those in Cython count."""
    found: dict[str, tuple[Any, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            from aiokafka.record._crecords import (  # type: ignore[import-untyped]  # noqa: PLC0415  # it has no types, and may be absent
                DefaultRecordBatchBuilder,
                MemoryRecords,
            )
        except ImportError:
            pass
        else:
            found[AIOKAFKA] = (DefaultRecordBatchBuilder, MemoryRecords)
        try:
            from kafka.record.default_records import DefaultRecordBatchBuilder as Builder  # noqa: PLC0415  # a peer that may be absent
            from kafka.record.memory_records import MemoryRecords as Reader  # noqa: PLC0415  # a peer that may be absent
        except ImportError:
            pass
        else:
            found[KAFKA_PYTHON] = (Builder, Reader)
    return found


def reading(reader_type: Any, sample: Sample, *, steps: bool) -> Call:
    """What it takes another parser to have key, value, offset, time and headers of the same bytes as Python objects.

    ``steps``: it tells with ``has_next`` whether there is more. Raises AssertionError: records are missing.
    """
    buffer = sample.stored(sample.codec)

    def batches() -> Any:
        reader = reader_type(buffer)
        while not steps or reader.has_next():
            batch = reader.next_batch()
            if batch is None:
                return
            yield batch

    def read() -> int:
        count = 0
        for batch in batches():
            if not batch.validate_crc():
                raise AssertionError("a CRC is wrong")
            count += sum(1 for _ in batch)
        return count

    if read() != sample.rows.num_rows:
        raise AssertionError("records are missing")
    return read


def writing(builder_type: Any, sample: Sample) -> Call:
    """What it takes another builder to make batches of Python objects."""
    records, batch_bytes = sample.objects(), sample.batch_bytes

    def fresh() -> Any:
        return builder_type(2, int(sample.codec), 0, -1, -1, -1, batch_bytes)

    def write() -> list[bytes]:
        batches: list[bytes] = []
        builder, offset = fresh(), 0
        for timestamp, key, value, headers in records:
            if builder.append(offset, timestamp, key, value, headers) is None:
                batches.append(bytes(builder.build()))
                builder, offset = fresh(), 0
                builder.append(offset, timestamp, key, value, headers)
            offset += 1
        return [*batches, bytes(builder.build())]

    return write


def cases(sample: Sample, kernels: list[str], others: dict[str, tuple[Any, Any]]) -> Cases:
    """Everything that is done with a sample."""
    found: Cases = {(COPY, COPY): copying(sample), (CHECKSUM, CHECKSUM): checksums(sample)}
    for name in kernels:
        found[DECODE, name], found[ENCODE, name] = ours(sample, KERNELS[name])
    for name, (builder, reader) in others.items():
        found[DECODE, name] = reading(reader, sample, steps=name == AIOKAFKA)
        found[ENCODE, name] = writing(builder, sample)
    return found


def repeated(call: Call, case_s: float) -> Callable[[], float]:
    """A case: CPU seconds of one call, the mean of as many as take ``case_s``."""
    started = time.process_time()
    call()
    calls = max(1, int(case_s / max(time.process_time() - started, 1e-7)))

    def case() -> float:
        started = time.process_time()
        for _ in range(calls):
            call()
        return (time.process_time() - started) / calls

    return case


class Bench:
    """What was found of all samples."""

    def __init__(self, rounds: int, case_s: float) -> None:
        self._rounds, self._case_s = rounds, case_s
        self.rows: list[list[Cell]] = []
        self.seconds: dict[str, dict[str, list[float]]] = {}
        self.medians: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
        """By shape and codec, then by what is done and who does it."""

    def run(self, shape: str, sample: Sample, found: Cases) -> None:
        """One sample."""
        named = {", ".join(dict.fromkeys(key)): key for key in found}
        cases = {name: repeated(found[key], self._case_s) for name, key in named.items()}
        seconds = measure(cases, self._rounds, title=f"{shape}, {sample.codec.label}")
        medians = {named[name]: statistics.median(times) for name, times in seconds.items()}
        self.seconds[f"{shape}, {sample.codec.label}"] = seconds
        self.medians[shape, sample.codec.label] = medians
        records, content = sample.rows.num_rows, sample.content_bytes
        for (what, who), median in medians.items():
            peer = medians.get((what, AIOKAFKA))
            self.rows.append(
                [
                    shape,
                    sample.codec.label,
                    what,
                    who,
                    round(records / median),
                    median / records * 1e9,
                    content / median / 1e6,
                    median / medians[COPY, COPY],
                    None if peer is None else peer / median,
                ]
            )


def main() -> None:
    """Measure everything and print one table."""
    parser = arguments(__doc__, rounds=7)
    parser.add_argument("--batch-bytes", type=int, default=16384)
    parser.add_argument("--fetch-bytes", type=int, default=1 << 20)
    parser.add_argument("--codecs", default=",".join(codec.label for codec in CompressionType))
    parser.add_argument("--shapes", default=";".join(SHAPES), help="separated by semicolons (%(default)s)")
    options = parse(parser, fetch_bytes=1 << 18, rounds=3, codecs="none,zstd")
    codecs = [codec for codec in CompressionType if codec.label in options.codecs.split(",")]
    kernels = [name for name, wish in KERNELS.items() if wish == "off" or kernel.choose("auto")]
    others = peers()
    report = Report("records", f"{options.fetch_bytes:,} bytes in batches of {options.batch_bytes:,}", options)
    bench = Bench(options.rounds, QUICK_TURN_S if options.quick else TURN_S)
    for shape in options.shapes.split(";"):
        rows = events(options.fetch_bytes, *SHAPES[shape])
        for codec in codecs:
            sample = Sample(rows, codec, options.batch_bytes)
            bench.run(shape, sample, cases(sample, kernels, others))
    columns = ["value", "codec", "", "by", "records/s", "ns/record", "MB/s", "x memory copy", f"x {AIOKAFKA}"]
    report.table(columns, bench.rows)
    for name in (AIOKAFKA, KAFKA_PYTHON):
        if name not in others:
            report.note(f"{name} is not installed: nothing to compare with")
    if "compiled" in kernels:
        _targets(report, bench)
    else:
        report.note("the kernel has not been built: plain Python alone")
    report.keep({"cpu seconds of a call": bench.seconds}).save()


def _targets(report: Report, bench: Bench) -> None:
    """Decoding of records that are not compressed: of the codecs' time nothing could be saved."""
    for (shape, codec), found in bench.medians.items():
        if codec == "none":
            mine = found[DECODE, "compiled"]
            copy = found[COPY, COPY]
            times = mine / copy
            report.target(f"decode, {shape}, x memory copy", COPIES, times, at_most=True)
            if times > COPIES:
                alone = found[CHECKSUM, CHECKSUM] / copy
                report.note(
                    f"{shape}: of {times:.1f} copies {alone:.1f} are the CRC-32C, and one is the copy into place."
                )
            if (DECODE, AIOKAFKA) in found:
                report.target(f"decode, {shape}, x {AIOKAFKA}", 3.0, found[DECODE, AIOKAFKA] / mine)


if __name__ == "__main__":
    main()
