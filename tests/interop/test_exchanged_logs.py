"""A partition's directory changes hands: Apache Kafka's is opened by our log, ours is served by Apache Kafka."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.checkpoints import read_offsets, read_partition_metadata
from broker_embedded._log.manager import LogManager
from broker_embedded._log.opening import open_log
from broker_embedded._platform.platform import Platform, RealFileSystem
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.log_driver import batches_of, offset_for_timestamp
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import CODECS, Record
from tests.support.records.log_batches import batch, rows
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable

pytestmark = pytest.mark.interop

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

THEIRS, OURS = TopicPartition("theirs", 0), TopicPartition("ours", 0)
SMALL = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "1000"}
PER_CODEC = 1500


def value(number: int) -> bytes:
    """400 bytes that no codec makes shorter."""
    return random.Random(number).randbytes(400)


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    """A node of its own, because it is stopped and started again; with records in one of two topics."""
    skip_if(apache_kafka_unavailable())
    with ApacheKafka() as kafka:
        for partition in (THEIRS, OURS):
            kafka.create_topic(partition.topic, configs=SMALL)
        client, now = ConfluentClient(), int(time.time() * 1000)
        number = 0
        for codec in CODECS:
            records = [Record(None, value(number + index), (), now + number + index) for index in range(PER_CODEC)]
            client.produce(kafka.bootstrap_servers, THEIRS.topic, records, compression=codec)
            number += PER_CODEC
        kafka.stop()
        yield kafka


def copied(kafka: ApacheKafka, partition: TopicPartition, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    return shutil.copytree(kafka.log_directory / str(partition), target / str(partition))


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_kafka_is_read_and_continued(kafka: ApacheKafka, tmp_path: Path, *, clean: bool) -> None:
    count = len(CODECS) * PER_CODEC
    points = read_offsets(RealFileSystem(), str(kafka.log_directory / "recovery-point-offset-checkpoint"))
    assert points[THEIRS] == count
    directory = copied(kafka, THEIRS, tmp_path)
    log = open_log(
        directory, LogConfig(), Platform(), recovery_point=points[THEIRS] if clean else 0, clean_shutdown=clean
    )
    assert (log.log_start_offset, log.log_end_offset, log.topic_id is not None) == (0, count, True)
    assert len(log.local.view.bases) > 1
    read = [row for _, data in batches_of(log) for row in rows(data)]
    assert [(row.offset, row.value) for row in read] == [(number, value(number)) for number in range(count)]
    for row in (read[0], read[777], read[-1]):
        assert offset_for_timestamp(log, row.timestamp) == (row.offset, row.timestamp)
    assert offset_for_timestamp(log, None) == (count - 1, read[-1].timestamp)
    assert log.epochs.latest == 0
    assert log.append(batch(b"ours", timestamps=int(time.time() * 1000)), leader_epoch=0).base_offset == count
    log.close()


def test_a_log_of_ours_is_read_and_continued_by_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    files = RealFileSystem()
    topic_id = read_partition_metadata(files, str(kafka.log_directory / str(OURS) / "partition.metadata"))
    assert topic_id is not None
    manager = LogManager(tmp_path, LogConfig(segment_bytes=20_000, index_interval_bytes=1000), Platform())
    manager.load_all()
    (log,), now = manager.create_all([OURS], topic_id), int(time.time() * 1000)
    for number in range(0, 300, 3):
        values = [value(number + index) for index in range(3)]
        log.append(batch(*values, timestamps=now + number), leader_epoch=0)
    assert len(log.local.view.bases) > 3
    manager.close()
    theirs = kafka.log_directory / str(OURS)
    shutil.rmtree(theirs)
    shutil.copytree(tmp_path / str(OURS), theirs)
    kafka.restart()
    client = ConfluentClient()
    assert client.watermarks(kafka.bootstrap_servers, OURS.topic, 0) == (0, 300)
    more = [Record(None, value(number), (), now + number) for number in range(300, 310)]
    client.produce(kafka.bootstrap_servers, OURS.topic, more)
    stored = client.consume(kafka.bootstrap_servers, OURS.topic, {0: 310}, start=0)
    assert [(record.offset, record.value) for record in stored] == [(number, value(number)) for number in range(310)]
    times = client.offsets_for_times(kafka.bootstrap_servers, OURS.topic, {0: now + 100})
    assert times == {0: 102}
    kafka.stop()
    again = open_log(copied(kafka, OURS, tmp_path / "back"), LogConfig(), Platform(), clean_shutdown=True)
    assert again.log_end_offset == 310
    again.close()
