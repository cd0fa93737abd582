"""Compaction beside Apache Kafka's: from the same logs the same is left, and each continues with the other's.

Two partitions are written through Apache Kafka: one with all codecs, tombstones and idempotent producers, one with
transactions. Their directories are copied and compacted here; then Kafka's own cleaner does its work. A second round
begins with what Kafka left of the first, and more records; tombstones go in it.
"""

import random
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._config.log_config import CleanerConfig, LogConfig
from broker_embedded._log.checkpoints import read_offsets
from broker_embedded._log.cleaner.log_cleaner import LogCleaner
from broker_embedded._log.manager import LogManager
from broker_embedded._platform.platform import Platform, RealFileSystem
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import BatchHeader, check_crc, iter_batches, seal
from spark_kafka_native._records.decompression import decompress
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.confluent_transactions import transactional_producer
from tests.support.clients.interface import CODECS, DEADLINE_S, Record
from tests.support.records import reference
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable, dump_log
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

TOPIC = "table"
PLAIN, TRANSACTIONAL = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PARTITIONS = (PLAIN, TRANSACTIONAL)
NEVER, ALWAYS = "1.0", "0.0"
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "30000",
    "index.interval.bytes": "1000",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": NEVER,
}
OURS = LogConfig.parse(
    {
        **{key: value for key, value in SETTINGS.items() if not key.startswith("internal")},
        "segment.bytes": 30_000,
        "min.cleanable.dirty.ratio": 0,
    }
)
KEYS = 60


@dataclass(frozen=True)
class Round:
    """A data directory before a compaction, and after each one's."""

    before: Path
    ours: Path
    theirs: Path


@dataclass(frozen=True)
class Rounds:
    """Both rounds, and the broker that made them, stopped."""

    kafka: ApacheKafka
    first: Round
    second: Round


# --- writing ---------------------------------------------------------------------------------------------------------


def value(chance: random.Random) -> bytes | None:
    """A tombstone now and then, else bytes that no codec makes shorter."""
    return None if chance.random() < 0.1 else chance.randbytes(chance.randrange(20, 400))


def write(kafka: ApacheKafka, seed: int) -> None:
    """More records for both partitions, several segments each."""
    chance, client, now = random.Random(seed), ConfluentClient(), int(time.time() * 1000)
    for codec in CODECS:
        for repeat in range(10):
            records = [
                Record(b"key-%d" % chance.randrange(KEYS), value(chance), (("h", b"1"),), now + index)
                for index in range(60)
            ]
            # librdkafka gives up after ten answers without records, so that the batches which compaction leaves to
            # remember a producer, a new one with each call, should not be too many in a row.
            idempotent = repeat == 0
            client.produce(kafka.bootstrap_servers, TOPIC, records, compression=codec, idempotent=idempotent)
    producers = [
        transactional_producer(kafka.bootstrap_servers, f"producer-{number}", linger_ms=5) for number in range(3)
    ]
    for number in range(90):
        producer = producers[chance.randrange(3)]
        producer.begin_transaction()
        for _ in range(chance.randrange(1, 12)):
            producer.produce(TOPIC, value(chance), b"key-%d" % chance.randrange(KEYS), partition=1)
        assert producer.flush(DEADLINE_S) == 0
        if number % 3:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)


def set_dirty_ratio(kafka: ApacheKafka, ratio: str) -> None:
    from confluent_kafka import admin as api

    kafka_admin: Any = api
    change = kafka_admin.AlterConfigOpType.SET
    entry = kafka_admin.ConfigEntry("min.cleanable.dirty.ratio", ratio, incremental_operation=change)
    resource = kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = kafka_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)


# --- compacting ------------------------------------------------------------------------------------------------------


def active_segment(data: Path, partition: TopicPartition) -> int:
    return max(int(path.stem) for path in (data / str(partition)).glob("*.log"))


def compact_theirs(kafka: ApacheKafka) -> None:
    """Let Kafka's cleaner come to the active segments, and stop Kafka."""
    set_dirty_ratio(kafka, ALWAYS)
    data, files = kafka.log_directory, RealFileSystem()

    def dirty() -> dict[TopicPartition, tuple[int, int]]:
        """The cleaner's offset and the active segment of each partition where they differ."""
        offsets = read_offsets(files, str(data / "cleaner-offset-checkpoint"))
        found = {partition: (offsets.get(partition, 0), active_segment(data, partition)) for partition in PARTITIONS}
        return {partition: pair for partition, pair in found.items() if pair[0] != pair[1]}

    eventually(dirty, {}, within_s=60)
    set_dirty_ratio(kafka, NEVER)
    kafka.stop()


def compact_ours(before: Path, target: Path) -> Path:
    """Compact a copy, and close it in order."""
    shutil.copytree(before, target)
    platform = Platform()
    manager = LogManager(target, LogConfig(), platform)
    manager.load_all({TOPIC: OURS})
    cleaner = LogCleaner(manager, platform, CleanerConfig())
    while cleaner.clean_one():
        pass
    assert cleaner.uncleanable == set()
    for partition in PARTITIONS:
        assert manager.cleaned_offsets.get(partition) == active_segment(target, partition)
    manager.close()
    return target


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    skip_if(apache_kafka_unavailable())
    scratch = tmp_path_factory.mktemp("compacted")
    done: list[Round] = []
    with ApacheKafka(settings={"log.cleaner.backoff.ms": "200"}) as kafka:
        kafka.create_topic(TOPIC, partitions=len(PARTITIONS), configs=SETTINGS)
        for number in range(2):
            folder = scratch / str(number)
            if number:
                kafka.restart()
            write(kafka, seed=number)
            kafka.stop()
            before = shutil.copytree(kafka.log_directory, folder / "before")
            ours = compact_ours(before, folder / "ours")
            kafka.restart()
            compact_theirs(kafka)
            done.append(Round(before, ours, shutil.copytree(kafka.log_directory, folder / "theirs")))
        yield Rounds(kafka, *done)


# --- looking ---------------------------------------------------------------------------------------------------------


def batches(data: Path, partition: TopicPartition) -> list[reference.Batch]:
    """Every batch in the partition's files."""
    found = []
    for path in sorted((data / str(partition)).glob("*.log")):
        raw = path.read_bytes()
        for position, header in iter_batches(raw):
            found.append(read(header, raw[position : position + header.size_in_bytes]))
    return found


def read(header: BatchHeader, raw: bytes) -> reference.Batch:
    """The batch; decompressed by the product, since the reference knows one framing of each codec."""
    check_crc(raw, 0, header)
    plain = bytearray(raw[:61]) + decompress(header.compression, raw[61:])
    plain[8:12] = (len(plain) - 12).to_bytes(4, "big")
    plain[22] &= ~0x07
    seal(plain)
    return replace(reference.read_batch(bytes(plain)), codec=int(header.compression))


Row = tuple[int, bytes | None, bytes | None, int]


def rows(found: Sequence[reference.Batch]) -> list[Row]:
    return [(record.offset, record.key, record.value, record.timestamp) for batch in found for record in batch.records]


def committed(found: Sequence[reference.Batch]) -> list[Row]:
    """The records of transactions that were committed; those of the active segment may have been aborted."""
    pending: dict[int, list[Row]] = {}
    done = []
    for batch in found:
        if not batch.control:
            pending.setdefault(batch.producer_id, []).extend(rows([batch]))
        elif batch.records:
            (_, key, _, _), records = rows([batch])[0], pending.pop(batch.producer_id, [])
            done += records if key == b"\x00\x00\x00\x01" else []
    return sorted(done)


def shapes(found: Sequence[reference.Batch]) -> list[tuple[Any, ...]]:
    return [
        (
            batch.base_offset,
            batch.last_offset_delta,
            len(batch.records),
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.transactional,
            batch.control,
            batch.codec,
            batch.max_timestamp,
        )
        for batch in found
    ]


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("partition", PARTITIONS, ids=["plain", "transactional"])
def test_the_same_is_left(rounds: Rounds, which: str, partition: TopicPartition) -> None:
    done: Round = getattr(rounds, which)
    before, ours, theirs = (batches(data, partition) for data in (done.before, done.ours, done.theirs))
    assert rows(ours) == rows(theirs)
    assert len(rows(ours)) < len(rows(before))
    assert shapes(ours) == shapes(theirs)


def test_tombstones_were_there_and_went(rounds: Rounds) -> None:
    for partition in PARTITIONS:
        first, second = batches(rounds.first.ours, partition), batches(rounds.second.ours, partition)
        active = active_segment(rounds.second.ours, partition)
        assert [row for row in rows(first) if row[2] is None]
        kept = {row[0] for row in rows(first) if row[2] is None}
        assert not kept & {row[0] for row in rows(second) if row[0] < active}


@pytest.mark.parametrize("partition", PARTITIONS, ids=["plain", "transactional"])
def test_kafkas_tool_finds_nothing_wrong(rounds: Rounds, partition: TopicPartition) -> None:
    directory = rounds.second.ours / str(partition)
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1
    output = dump_log(logs, "--deep-iteration", "--print-data-log")
    assert set(re.findall(r"isvalid: (\w+)", output)) == {"true"}
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
    assert offsets == [row[0] for row in rows(batches(rounds.second.ours, partition))]
    for suffix in ("index", "timeindex"):
        indexes = sorted(directory.glob(f"*.{suffix}"))
        assert "Found" not in (found := dump_log(indexes, "--index-sanity-check")), found
        for complaint in ("ismatch", "Non-", "out of order", "Found"):
            assert complaint not in (found := dump_log(indexes, "--verify-index-only")), found
    for index in sorted(directory.glob("*.txnindex")):
        assert "version: 0 " in dump_log([index])


def test_kafka_serves_what_we_compacted(rounds: Rounds) -> None:
    """And continues with it: appends, and compacts it again."""
    kafka, data = rounds.kafka, rounds.kafka.log_directory
    for partition in PARTITIONS:
        shutil.rmtree(data / str(partition))
        shutil.copytree(rounds.second.ours / str(partition), data / str(partition))
    kafka.restart()
    expected = {partition: batches(rounds.second.ours, partition) for partition in PARTITIONS}
    client = ConfluentClient()
    visible = rows(expected[PLAIN])
    stored = client.consume(kafka.bootstrap_servers, TOPIC, {0: len(visible)}, start=0)
    assert [(record.offset, record.key, record.value, record.timestamp_ms) for record in stored] == visible
    visible = committed(expected[TRANSACTIONAL])
    stored = client.consume(kafka.bootstrap_servers, TOPIC, {1: len(visible)}, start=0)
    assert [(record.offset, record.key, record.value, record.timestamp_ms) for record in stored] == visible
    write(kafka, seed=7)
    compact_theirs(kafka)
