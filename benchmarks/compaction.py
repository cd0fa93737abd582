"""Compacting a log: MB/s of log, and microseconds a record, by record size and codec.

`python -m benchmarks.compaction [--megabytes 50] [--keys 20000] [--directory DIR]`

A log of so many megabytes, whose records have random keys out of ``--keys``, in batches of 16 KB, is compacted once by
one thread: every batch is read twice, once for the keys and once to be copied. Times are CPU time of this process.
"""

import random
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from benchmarks.support.report import Cell, Report, arguments, parse
from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.cleaner.log_cleaner import LogCleaner
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, CompressionType, seal, write_header
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.record import varint

BATCH_BYTES = 16_384
CODECS = (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD)


def main() -> None:
    """Measure every shape and report."""
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--directory", type=Path, help="where the data is made; by default a temporary directory")
    options = parse(parser, megabytes=1)
    report = Report("compaction", "Compacting a log", options)
    rows: list[list[Cell]] = []
    for size in (100, 1000):
        for codec in CODECS:
            with tempfile.TemporaryDirectory(dir=options.directory) as data:
                found = measure(Path(data), size, codec, options.megabytes * 1_000_000, options.keys)
            rows.append([f"{size} B", codec.label, *found])
    title = f"compacting {options.megabytes} MB of records with {options.keys:,} keys"
    report.table(("value", "codec", "records", "left", "MB/s of records", "us a record"), rows, title)
    report.save()


def measure(data: Path, size: int, codec: CompressionType, total_bytes: int, keys: int) -> tuple[int | float, ...]:
    """Fill a log and compact it."""
    platform, partition = Platform(), TopicPartition("t", 0)
    config = LogConfig.parse({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.bytes": 16 << 20})
    manager = LogManager(data, config, platform)
    manager.load_all()
    (log,), chance, records, written = manager.create_all([partition], uuid4()), random.Random(0), 0, 0
    while written < total_bytes:
        batch, count, plain = batch_of(size, codec, chance, keys)
        log.append(batch, leader_epoch=0)
        records, written = records + count, written + plain
    log.local.roll()
    cleaner = LogCleaner(manager, platform, CleanerConfig())
    began = time.process_time()
    while cleaner.clean_one():
        pass
    seconds = time.process_time() - began
    report = cleaner.last
    assert report is not None
    manager.close()
    return records, report.records_kept, round(written / seconds / 1e6), seconds / records * 1e6


def batch_of(size: int, codec: CompressionType, chance: random.Random, keys: int) -> tuple[bytearray, int, int]:
    """A batch as a producer makes it, how many records are in it, and their bytes."""
    payload, count = bytearray(), 0
    while len(payload) < BATCH_BYTES:
        key = b"user-%08d" % chance.randrange(keys)
        value = (b'{"seen": %d, "page": "/articles/%d"},' % (chance.getrandbits(30), count) * 40)[:size]
        body = b"\x00" + varint(count) + varint(count) + varint(len(key)) + key + varint(len(value)) + value + b"\x00"
        payload += varint(len(body)) + body
        count += 1
    now_ms = time.time_ns() // 1_000_000
    made = bytearray(RECORD_BATCH_OVERHEAD) + compress(codec, payload)
    write_header(
        made,
        size_in_bytes=len(made),
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms + count - 1,
        records_count=count,
        compression=codec,
    )
    seal(made)
    return made, count, len(payload)


if __name__ == "__main__":
    main()
