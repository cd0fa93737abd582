import itertools
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from dirty_equals import IsTrueLike

from spark_kafka_native._client.errors import NoSuchPartition, RecordTooLarge
from spark_kafka_native._client.partitioning.key_hashes import murmur2
from spark_kafka_native._client.producer import producer as producer_module
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.arrow.schema import HEADERS
from spark_kafka_native._records.batch import CompressionType
from tests.support.records.record_batches import rows
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import PARTITIONS
from tests.support.scripted.steps import Drop, HalfFrame, Pass, Refuse, Slow, Step
from tests.support.waiting import eventually


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_rows_that_are_too_many_bytes_for_one_record_batch_are_encoded_in_several(
    brokers: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A column of binary has 2 GiB at most; here the record batches of all parts are cut at ``size`` rows."""

    def combine(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return pa.Table.from_batches(parts).combine_chunks().to_batches(max_chunksize=size)

    monkeypatch.setattr(producer_module, "_combine", combine)
    sent = [
        pa.RecordBatch.from_pydict(
            {
                "value": pa.array([b"%d" % row for row in range(first, first + 10)]),
                "partition": pa.array([row % 3 for row in range(first, first + 10)], pa.int32()),
            }
        )
        for first in range(0, 60, 10)
    ]
    with Producer(brokers.config(linger_ms=60_000)) as producer:
        for batch in sent:
            producer.send("t", batch)
    assert brokers.values() == [[b"%d" % row for row in range(number, 60, 3)] for number in range(3)] + [[]]


def test_rows_arrive_with_all_their_fields(brokers: ScriptedCluster) -> None:
    headers = pa.array([None, [{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None], HEADERS)
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(["a", None, ""]),
            "key": pa.array([b"k", None, b""], pa.binary()),
            "headers": headers,
            "timestamp": pa.array([1_000, 2_000, None], pa.int64()),
            "partition": pa.array([1, 1, 1], pa.int32()),
        }
    )
    before = time.time()
    with Producer(brokers.config()) as producer:
        producer.send("t", batch)
        assert producer.unacknowledged == 3
    (stored,) = brokers.partition("t", 1).batches
    found = decode(stored, from_offset=0, until_offset=3).records.to_pylist()
    assert [(row["key"], row["value"]) for row in found] == [(b"k", b"a"), (None, None), (b"", b"")]
    assert found[1]["headers"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    times = [row["timestamp"].timestamp() for row in found]
    assert times[:2] == [1, 2]
    assert before - 1 < times[2] < time.time() + 1
    assert producer.unacknowledged == 0


def encoded(*values: bytes) -> list[EncodedBatch]:
    """A batch of each value, compressed with a codec that is not the producer's."""
    measured = MeasuredRows(rows(values), 0)
    return measured.encode(compression=CompressionType.GZIP, max_batch_bytes=1)


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_batches_that_are_encoded_already_follow_earlier_rows_of_their_partition(
    brokers: ScriptedCluster, idempotent: str
) -> None:
    brokers.script(ProduceRequest, Pass(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with Producer(brokers.config(linger_ms=60_000, enable_idempotence=idempotent)) as producer:
        producer.send("t", rows([b"first", b"other"], partition=[0, 1]))
        producer.send_batches(TopicPartition("t", 0), encoded(b"second", b"third"))
        producer.send("t", rows([b"fourth"], partition=[0]))
    assert brokers.values()[:2] == [[b"first", b"second", b"third", b"fourth"], [b"other"]]
    headers = brokers.partition("t", 0).headers()
    assert [header.compression for header in headers[1:3]] == [CompressionType.GZIP] * 2
    expected = [0, 1, 2, 3] if idempotent == "true" else [-1] * 4
    assert [header.base_sequence for header in headers] == expected


def test_batches_that_are_too_large_for_the_broker_are_split(brokers: ScriptedCluster) -> None:
    values = [b"%d" % number for number in range(100)]
    (whole,) = MeasuredRows(rows(values), 0).encode(compression=CompressionType.GZIP, max_batch_bytes=2**20)
    brokers.script(ProduceRequest, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    with Producer(brokers.config()) as producer:
        producer.send_batches(TopicPartition("t", 0), [whole])
    assert brokers.values()[0] == values


def test_keys_decide_as_javas_producer_would(brokers: ScriptedCluster) -> None:
    keys = [b"key-%d" % number for number in range(200)]
    with Producer(brokers.config()) as producer:
        for start in range(0, 200, 70):
            producer.send("t", rows(keys[start : start + 70], key=keys[start : start + 70]))
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for key in keys:
        expected[(murmur2(key) & 0x7FFFFFFF) % PARTITIONS].append(key)
    assert brokers.values() == expected


def test_rows_without_keys_stick_to_a_partition_until_a_batch_is_full(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config(batch_size=1_000)) as producer:
        for start in range(0, 400, 50):
            producer.send("t", rows([b"%03d" % number for number in range(start, start + 50)]))
    found = brokers.values()
    assert sorted(value for partition in found for value in partition) == [b"%03d" % number for number in range(400)]
    assert all(len(partition) > 60 for partition in found), "all partitions get records"
    owner = {value: number for number, partition in enumerate(found) for value in partition}
    runs = [len(list(run)) for _, run in itertools.groupby(range(400), lambda number: owner[b"%03d" % number])]
    assert all(run >= 30 for run in runs[:-1])


def test_order_within_partitions_survives_many_sends_and_flushes(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config(batch_size=300, linger_ms=0)) as producer:
        for start in range(0, 1_000, 40):
            numbers = range(start, min(start + 40, 1_000))
            partition = [number % PARTITIONS for number in numbers]
            producer.send("t", rows([b"%d" % number for number in numbers], partition=partition))
            if start % 200 == 0:
                producer.flush()
    assert brokers.values() == [
        [b"%d" % number for number in range(part, 1_000, PARTITIONS)] for part in range(PARTITIONS)
    ]


def test_order_survives_runs_that_go_past_rows_that_wait(brokers: ScriptedCluster) -> None:
    """Long runs of rows are encoded where they are; what their partitions have waiting must go first."""
    chance = np.random.default_rng(0)
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    config = {"batch_size": 200_000, "max_request_size": 500_000, "linger_ms": 100_000}
    with Producer(brokers.config(**config)) as producer:
        for call in range(12):
            lengths = chance.integers(1, 25, 8)
            partition = np.repeat(chance.integers(0, PARTITIONS, 8), lengths).tolist()
            blobs = [b"%d-%d-" % (call, number) + b"x" * 12_000 for number in range(len(partition))]
            producer.send("t", rows(blobs, partition=partition))
            for number, blob in zip(partition, blobs, strict=True):
                sent[number].append(blob)
    assert brokers.values() == sent
    sizes = [len(batch) for part in range(PARTITIONS) for batch in brokers.partition("t", part).batches]
    assert max(sizes) <= 200_000
    assert len(sizes) < 150, "several rows to a batch"


def test_several_topics_share_requests(brokers: ScriptedCluster) -> None:
    brokers.state.create("u", 1)
    with Producer(brokers.config()) as producer:
        producer.send("t", rows([b"a"], partition=[0]))
        producer.send("u", rows([b"b"]))
    assert len(brokers.requests(ProduceRequest)) == 1
    assert brokers.values("u") == [[b"b"]]


def test_many_topics_are_looked_up_with_one_request(brokers: ScriptedCluster) -> None:
    topics = [f"topic-{number}" for number in range(50)]
    for topic in topics:
        brokers.state.create(topic, 1)
    with Producer(brokers.config()) as producer:
        producer.send("t", rows([b"known already"], partition=[0]))
        before = len(brokers.requests(MetadataRequest))
        for _ in range(2):
            producer.look_up(["t", *topics])
            for topic in topics:
                producer.send(topic, rows([topic.encode()]))
        (asked,) = brokers.requests(MetadataRequest)[before:]
    assert [topic.name for topic in asked.topics] == topics
    assert [brokers.values(topic) for topic in topics] == [[[topic.encode()] * 2] for topic in topics]


@pytest.mark.parametrize(
    ("topics", "code"),
    [(["t", ".."], ErrorCode.INVALID_TOPIC_EXCEPTION), (["t", "absent"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    ids=["invalid", "absent"],
)
def test_a_topic_that_cannot_be_looked_up_is_named(
    brokers: ScriptedCluster, topics: list[str], code: ErrorCode
) -> None:
    with Producer(brokers.config(max_block_ms=300)) as producer:
        with pytest.raises(KafkaError, match=topics[1].replace(".", r"\.")) as caught:
            producer.look_up(topics)
        assert caught.value.code is code
        producer.send("t", rows([b"a"], partition=[0]))
    assert brokers.values()[0] == [b"a"]


def test_nothing_is_sent_before_a_batch_is_full_or_old_enough(
    brokers: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(brokers.config(linger_ms=600_000)) as producer:
        producer.send("t", rows([b"a"], partition=[0]))
        producer.send("t", rows([b"b"], partition=[0]))
        assert not brokers.requests(ProduceRequest)
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 601, time=time.time)
        monkeypatch.setattr(producer_module, "time", later)
        producer.send("t", rows([b"c"], partition=[1]))
        eventually(lambda: brokers.requests(ProduceRequest), IsTrueLike)
        (request,) = brokers.requests(ProduceRequest)
        assert [part.index for part in request.topic_data[0].partition_data] == [0]
    assert brokers.values()[:2] == [[b"a", b"b"], [b"c"]]


def test_a_send_without_rows_sends_no_produce(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config()) as producer:
        producer.send("t", rows([]))
        producer.flush()
    assert not brokers.requests(ProduceRequest)


def test_batches_keep_to_their_size_and_requests_to_theirs(brokers: ScriptedCluster) -> None:
    blobs = [bytes([number % 256]) * 900 for number in range(300)]
    config = {"batch_size": 5_000, "max_request_size": 12_000, "buffer_memory": 40_000}
    with Producer(brokers.config(**config)) as producer:
        producer.send("t", rows(blobs, partition=[number % PARTITIONS for number in range(300)]))
    sizes = [len(batch) for part in range(PARTITIONS) for batch in brokers.partition("t", part).batches]
    assert max(sizes) <= 5_000
    assert len(sizes) <= 100, "several rows to a batch"
    for request in brokers.requests(ProduceRequest):
        assert sum(len(part.records) for topic in request.topic_data for part in topic.partition_data) <= 12_000
    assert brokers.values() == [blobs[part::PARTITIONS] for part in range(PARTITIONS)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(brokers: ScriptedCluster, codec: str) -> None:
    with Producer(brokers.config(compression_type=codec)) as producer:
        producer.send("t", rows([b"x" * 100] * 1_000, partition=[2] * 1_000))
    (header,) = brokers.partition("t", 2).headers()
    assert header.compression.name.lower() == codec
    assert header.size_in_bytes < 20_000
    assert brokers.values()[2] == [b"x" * 100] * 1_000


def test_memory_is_bounded_by_waiting_for_brokers(brokers: ScriptedCluster) -> None:
    brokers.script(ProduceRequest, *[Slow(3)] * 1_000)
    config = {"batch_size": 2_000, "buffer_memory": 20_000, "linger_ms": 100_000, "delivery_timeout_ms": 200_000}
    most = 0
    with Producer(brokers.config(**config)) as producer:
        for number in range(40):
            producer.send("t", rows([b"%010d" % number * 10] * 50))
            most = max(most, producer._sender.buffered_bytes + producer._accumulator.size_bytes)
        assert producer.metrics.records > 0
    assert most <= 20_000
    assert sum(map(len, brokers.values())) == 2_000


@pytest.mark.parametrize("step", [Drop(applied=True), HalfFrame(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)], ids=str)
def test_rows_are_written_once_and_in_order_after_errors(brokers: ScriptedCluster, step: Step) -> None:
    brokers.script(ProduceRequest, *[Pass(), step, step, Pass()] * 15)
    with Producer(brokers.config(batch_size=200, linger_ms=0)) as producer:
        for start in range(0, 600, 30):
            numbers = range(start, start + 30)
            producer.send("t", rows([b"%d" % n for n in numbers], partition=[n % PARTITIONS for n in numbers]))
    assert brokers.values() == [
        [b"%d" % number for number in range(part, 600, PARTITIONS)] for part in range(PARTITIONS)
    ]
    assert producer.metrics.retries


def test_a_row_that_is_too_large_is_named_and_nothing_is_sent(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config(max_request_size=1_000)) as producer:
        reason = r"takes .* bytes \(key 0, value 1000\), more than kafka\.max\.request\.size \(1000\); no row"
        with pytest.raises(RecordTooLarge, match=rf"row 2 for topic t {reason}"):
            producer.send("t", rows([b"a", b"b", b"c" * 1_000, b"d"]))
        assert producer.unacknowledged == 0
        producer.send("t", rows([b"good"], partition=[0]))
    assert brokers.values()[0] == [b"good"]


def test_the_largest_row_that_fits_is_sent(brokers: ScriptedCluster) -> None:
    largest = 1_000
    with Producer(brokers.config(max_request_size=1_000)) as producer:
        while True:
            try:
                producer.send("t", rows([b"x" * largest], partition=[0]))
                break
            except RecordTooLarge:
                largest -= 1
    assert largest > 900
    assert brokers.values()[0] == [b"x" * largest]


def test_columns_that_cannot_be_sent_are_refused_and_the_producer_continues(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config()) as producer:
        with pytest.raises(ValueError, match="'colour'"):
            producer.send("t", rows([b"a"], colour=["red"]))
        with pytest.raises(ValueError, match="row 1 has the timestamp -7 ms"):
            producer.send("t", rows([b"a", b"b"], timestamp=[0, -7]))
        producer.send("t", rows([b"good"], partition=[0]))
    assert brokers.values()[0] == [b"good"]


def test_a_partition_that_does_not_exist_is_refused_after_one_metadata_request(brokers: ScriptedCluster) -> None:
    with (
        Producer(brokers.config()) as producer,
        pytest.raises(NoSuchPartition, match="t-9 does not exist: the topic has 4 partitions"),
    ):
        producer.send("t", rows([b"a"], partition=[9]))
    assert len(brokers.requests(MetadataRequest)) == 2


def test_a_partition_that_was_added_is_found(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config()) as producer:
        producer.send("t", rows([b"a"], partition=[0]))
        brokers.state.topics["t"].partitions[4] = type(brokers.partition("t"))(leader=1)
        producer.send("t", rows([b"b"], partition=[4]))
    assert brokers.values()[4] == [b"b"]


def test_a_topic_is_created_by_brokers_that_do_so(brokers: ScriptedCluster) -> None:
    brokers.state.auto_create = 3
    with Producer(brokers.config()) as producer:
        producer.send("new", rows([b"a"] * 3, partition=[0, 1, 2]))
    assert brokers.values("new") == [[b"a"], [b"a"], [b"a"]]


def test_a_topic_that_is_missing_is_waited_for_and_named(brokers: ScriptedCluster) -> None:
    with (
        Producer(brokers.config(max_block_ms=1_000)) as producer,
        pytest.raises(KafkaError, match="topic missing: ") as caught,
    ):
        producer.send("missing", rows([b"a"]))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", "a b", "x" * 250, ".."])
def test_an_invalid_topic_name_is_refused(brokers: ScriptedCluster, name: str) -> None:
    with Producer(brokers.config()) as producer, pytest.raises(KafkaError) as caught:
        producer.send(name, rows([b"a"]))
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not brokers.received


def test_rows_without_keys_avoid_partitions_without_leaders(brokers: ScriptedCluster) -> None:
    brokers.move_leader("t", 1, to=-1)
    with Producer(brokers.config(batch_size=100, linger_ms=0)) as producer:
        producer.send("t", rows([b"%03d" % number for number in range(200)]))
    assert [len(partition) > 0 for partition in brokers.values()] == [True, False, True, True]


def test_produce_metrics(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config(batch_size=1_000)) as producer:
        producer.send("t", rows([b"x" * 100] * 100, partition=[0] * 100))
        producer.flush()
        metrics = producer.metrics
    batches = brokers.partition("t").batches
    assert (metrics.records, metrics.batches, metrics.bytes_sent) == (100, len(batches), sum(map(len, batches)))
    assert metrics.requests == len(brokers.requests(ProduceRequest))


def test_fifty_thousand_rows_over_fifty_partitions(brokers: ScriptedCluster) -> None:
    brokers.state.create("wide", 50)
    numbers = np.random.default_rng(5).integers(0, 50, 50_000)
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array([b"%d" % n for n in range(50_000)], pa.binary()), "partition": pa.array(numbers)}
    )
    with Producer(brokers.config()) as producer:
        for start in range(0, 50_000, 10_000):
            producer.send("wide", batch.slice(start, 10_000))
    found = brokers.values("wide")
    for partition in range(50):
        assert found[partition] == [b"%d" % row for row in np.flatnonzero(numbers == partition)]
