"""The producer of single records with the partitioner ``lookup``."""

from collections.abc import Callable
from pathlib import Path

import pytest
from dirty_equals import IsList

from spark_kafka_native._client.lookup_tables.file_store import FileStore
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError
from spark_kafka_native.clients import KafkaError, Producer, ProducerRecord
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.partitions import FakePartition
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer

KEYS = [b"user-%d" % number for number in range(100)]


class File:
    """The file of the tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = FileStore(str(path))

    def create(self, topic: str, partitions: int) -> None:
        self.store.change(topic, lambda _: BucketTable.create(topic, partitions))

    def reorganize(self, topic: str, partitions: int) -> None:
        def change(before: BucketTable | None) -> BucketTable:
            assert before is not None
            return before.reorganize(partitions)

        self.store.change(topic, change)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "tables.json")


@pytest.fixture
def open_lookup(open_producer: OpenProducer, file: File) -> Callable[..., Producer]:
    return lambda **options: open_producer(partitioner_class="lookup", lookup_table=f"file:{file.path}", **options)


def partitions_of(producer: Producer, topic: str) -> list[int]:
    futures = producer.send_all(ProducerRecord(topic, b"v", key) for key in KEYS)
    producer.flush()
    return [future.result(0).partition for future in futures]


def test_keys_move_to_added_partitions_alone_after_a_reorganization(
    brokers: ScriptedCluster, open_lookup: Callable[..., Producer], file: File
) -> None:
    file.create("t", 4)
    producer = open_lookup(metadata_max_age_ms=0)
    before = partitions_of(producer, "t")
    with brokers.state.lock:
        brokers.state.topics["t"].partitions |= {number: FakePartition(leader=1) for number in (4, 5)}
    assert partitions_of(producer, "t") == before, "the table decides, not the number of partitions"
    file.reorganize("t", 6)
    after = eventually(lambda: partitions_of(producer, "t"), ~IsList(*before))
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {4, 5}
    assert {old for old, _ in moved} == {0, 1, 2, 3}
    assert 20 <= len(moved) <= 45


def test_a_table_is_not_read_again_before_metadata_max_age_ms(
    brokers: ScriptedCluster, open_lookup: Callable[..., Producer], file: File
) -> None:
    file.create("t", 4)
    producer = open_lookup()
    before = partitions_of(producer, "t")
    file.path.unlink()
    assert partitions_of(producer, "t") == before


def test_an_old_table_stays_in_use_if_it_cannot_be_read(
    brokers: ScriptedCluster, open_lookup: Callable[..., Producer], file: File, caplog: pytest.LogCaptureFixture
) -> None:
    file.create("t", 4)
    producer = open_lookup(metadata_max_age_ms=0)
    before = partitions_of(producer, "t")
    file.path.write_text("not JSON")
    eventually(lambda: (partitions_of(producer, "t"), "cannot be read again" in caplog.text), (before, True))
    assert "the table of topic t cannot be read again, and stays in use" in caplog.text


def test_a_topic_without_a_table_is_an_error_of_send(open_lookup: Callable[..., Producer], file: File) -> None:
    file.create("t", 4)
    producer = open_lookup()
    with pytest.raises(LookupTableError, match=r"topic u has no table in file:.*; create it: pykafka lookup-table"):
        producer.send("u", b"v", key=b"k")
    assert producer.send("t", b"v", key=b"k").result(60).offset == 0


def test_a_topic_with_fewer_partitions_than_its_table_fails_its_records(
    brokers: ScriptedCluster, open_lookup: Callable[..., Producer], file: File
) -> None:
    file.create("t", 4)
    producer = open_lookup(max_block_ms=50)
    producer.send("t", b"v", key=b"k").result(60)
    with brokers.state.lock:
        for number in (2, 3):
            del brokers.state.topics["t"].partitions[number]
    producer._connections.cluster.metadata(["t"])
    with pytest.raises(KafkaError, match="topic t has 2 partitions, and its look-up table"):
        producer.send("t", b"v", key=b"k").result(60)
