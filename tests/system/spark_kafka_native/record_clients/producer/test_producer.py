"""The producer of single records, with brokers that fail as the tests say."""

import threading
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native.clients import (
    ClientClosed,
    KafkaError,
    ProduceError,
    Producer,
    ProducerRecord,
    RecordFuture,
    RecordMetadata,
    SerializationError,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.security import Guard
from tests.support.scripted.steps import Drop, Refuse
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer

both_types = pytest.mark.parametrize("producer_type", ["async", "sync"])


# --- results


@both_types
def test_the_future_has_partition_offset_and_timestamp(
    brokers: ScriptedCluster, open_producer: OpenProducer, producer_type: str
) -> None:
    producer = open_producer(producer_type=producer_type)
    first = producer.send("t", b"a", key=b"k", partition=3, timestamp_ms=1000, headers=[("h", b"1"), ("h", None)])
    second = producer.send("t", b"b", partition=3, timestamp_ms=2000)
    assert first.result(60) == RecordMetadata("t", 3, 0, 1000)
    assert second.result(60) == RecordMetadata("t", 3, 1, 2000)
    assert brokers.partition("t", 3).values() == [b"a", b"b"]


@both_types
def test_records_of_a_list_are_written_in_order(
    brokers: ScriptedCluster, open_producer: OpenProducer, producer_type: str
) -> None:
    producer = open_producer(producer_type=producer_type)
    records = [ProducerRecord("tu"[number % 2], b"%d" % number, partition=0) for number in range(1000)]
    futures = producer.send_all(records)
    producer.flush()
    assert [future.result(0).offset for future in futures] == [number // 2 for number in range(1000)]
    assert brokers.partition("t", 0).values() == [b"%d" % number for number in range(0, 1000, 2)]
    assert brokers.partition("u", 0).values() == [b"%d" % number for number in range(1, 1000, 2)]
    metrics = producer.metrics
    assert (metrics.records, metrics.failed, metrics.dropped) == (1000, 0, 0)
    assert (metrics.queued, metrics.unacknowledged) == (0, 0)


def test_threads_share_a_producer_and_keep_their_orders(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(batch_num_messages=10)

    def send(name: int) -> None:
        for number in range(300):
            producer.send("t", b"%d %d" % (name, number), partition=0)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()
    values = brokers.partition("t", 0).values()
    for name in range(4):
        assert [value for value in values if value.startswith(b"%d " % name)] == [
            b"%d %d" % (name, number) for number in range(300)
        ]


def test_callbacks_may_send_records_but_not_wait(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer()
    found: list[Any] = []

    def answer(done: RecordFuture) -> None:
        producer.send("u", b"%d" % done.result().offset)
        for wait in (producer.flush, producer.close):
            with pytest.raises(RuntimeError) as caught:
                wait()
            found.append(str(caught.value))

    producer.send("t", b"a", partition=0).add_done_callback(answer)
    eventually(lambda: brokers.partition("u").values(), [b"0"])
    assert found == [f"{name}() in a callback of the producer would wait for itself" for name in ("flush", "close")]


def test_acks_0_has_no_offsets(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(acks="0")
    assert producer.send("t", b"a", partition=0, timestamp_ms=5).result(60) == RecordMetadata("t", 0, -1, 5)
    eventually(lambda: brokers.partition("t", 0).values(), [b"a"])


def test_a_written_record_whose_response_was_lost_is_written_once(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer()
    producer.send("t", b"a", partition=0).result(60)
    brokers.script(ProduceRequest, Drop(applied=True))
    assert producer.send("t", b"b", partition=0).result(60).offset == -1
    assert producer.send("t", b"c", partition=0).result(60).offset == 2
    assert brokers.partition("t", 0).values() == [b"a", b"b", b"c"]


# --- partitions


def test_a_partitioner_gets_the_key_and_the_count_and_returns_an_index(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    calls: list[tuple[Any, int]] = []

    def by_length(key: str, partitions: int) -> int:
        calls.append((key, partitions))
        return len(key) % partitions

    producer = open_producer(partitioner_class=by_length, key_serializer=str.encode)
    assert producer.partitions_for("t") == [0, 1, 2, 3]
    futures = [producer.send("t", b"v", key=key) for key in ("a", "abc", "abcdef")]
    assert [future.result(60).partition for future in futures] == [1, 3, 2]
    producer.send("t", b"no key").result(60)
    producer.send("t", b"given", key="abc", partition=0).result(60)
    assert calls == [("a", 4), ("abc", 4), ("abcdef", 4)]


@pytest.mark.parametrize("index", [4, -1, None, "0"])
def test_a_partitioner_that_returns_no_index_fails_the_record(open_producer: OpenProducer, index: Any) -> None:
    producer = open_producer(partitioner_class=lambda key, _: index if key == b"bad" else 0)
    bad, good = (producer.send("t", b"v", key=key) for key in (b"bad", b"good"))
    with pytest.raises(ValueError, match=rf"partitioner.class returned {index!r} for topic t, not an index"):
        bad.result(60)
    assert good.result(60).partition == 0


def test_a_named_partitioner_is_that_of_the_spark_sink(open_producer: OpenProducer) -> None:
    producer = open_producer(partitioner_class="round_robin")
    futures = producer.send_all(ProducerRecord("t", b"v", b"same key") for _ in range(8))
    producer.flush()
    assert sorted(future.result(0).partition for future in futures) == [0, 0, 1, 1, 2, 2, 3, 3]


@both_types
def test_a_partition_that_does_not_exist_is_an_error_of_send(open_producer: OpenProducer, producer_type: str) -> None:
    producer = open_producer(producer_type=producer_type)
    for send in (producer.send, lambda *_, **__: producer.send_all([ProducerRecord("t", b"v", partition=4)])):
        with pytest.raises(KafkaError, match="t-4 does not exist: the topic has 4 partitions"):
            send("t", b"v", partition=4)
    assert producer.send("t", b"v", partition=0).result(60).offset == 0


def test_a_partition_that_was_added_is_found(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer()
    producer.send("u", b"a").result(60)
    with brokers.state.lock:
        brokers.state.topics["u"].partitions[1] = FakePartition(leader=1)
    assert producer.send("u", b"b", partition=1).result(60)[:3] == ("u", 1, 0)


# --- errors of single records


def test_a_record_that_cannot_be_serialized_fails_alone(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(value_serializer=str.encode)
    futures = producer.send_all(ProducerRecord("t", value, partition=0) for value in ("a", 1, "b", None))
    producer.flush()
    with pytest.raises(SerializationError, match="the value of a record for topic t cannot be serialized"):
        futures[1].result(0)
    assert [futures[number].result(0).offset for number in (0, 2, 3)] == [0, 1, 2]
    assert brokers.partition("t", 0).values() == [b"a", b"b", None]
    assert producer.metrics.failed == 1


@both_types
def test_data_that_is_not_bytes_is_refused_at_once_without_a_serializer(
    open_producer: OpenProducer, producer_type: str
) -> None:
    producer = open_producer(producer_type=producer_type)
    with pytest.raises(TypeError, match=r"topic t: value is str; set value\.serializer, or pass bytes"):
        producer.send("t", "text")
    with pytest.raises(TypeError, match=r"topic t: key is int; set key\.serializer, or pass bytes"):
        producer.send_all([ProducerRecord("t", b"a"), ProducerRecord("t", b"b", key=1)])
    assert producer.metrics.records == 0


def test_a_record_that_is_too_large_fails_alone(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(max_request_size=2000)
    sizes = [10, 3000, 20, 5000, 30]
    futures = producer.send_all(ProducerRecord("t", b"x" * size, partition=0) for size in sizes)
    producer.flush()
    text = r"a record for topic t takes 30\d\d bytes \(key 0, value 3000\), more than max.request.size \(2000\)$"
    with pytest.raises(KafkaError, match=text) as caught:
        futures[1].result(0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert [len(value) for value in brokers.partition("t", 0).values()] == [10, 20, 30]


@both_types
def test_a_topic_that_does_not_exist_is_an_error_of_send(
    brokers: ScriptedCluster, open_producer: OpenProducer, producer_type: str
) -> None:
    producer = open_producer(producer_type=producer_type, max_block_ms=50)
    with pytest.raises(KafkaError, match="topic missing"):
        producer.send("missing", b"a")
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        producer.send("not a topic", b"a")
    assert producer.send("t", b"a").result(60).offset == 0


# --- errors of partitions


@both_types
def test_a_partition_in_error_fails_its_records_and_later_ones_are_written(
    brokers: ScriptedCluster, open_producer: OpenProducer, producer_type: str
) -> None:
    producer = open_producer(producer_type=producer_type)
    producer.send("t", b"a", partition=0)
    producer.flush()
    brokers.script(ProduceRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if producer_type == "sync":
        with pytest.raises(ProduceError, match=r"t-0: .*; 1 record is not acknowledged"):
            producer.send("t", b"refused", partition=0)
    else:
        refused = producer.send("t", b"refused", partition=0)
        with pytest.raises(ProduceError, match=r"t-0: .*TOPIC_AUTHORIZATION_FAILED.*; 1 record is not acknowledged"):
            refused.result(60)
    assert producer.send("t", b"b", partition=0).result(60).offset == 1
    assert brokers.partition("t", 0).values() == [b"a", b"b"]
    assert producer.metrics.failed == 1


def test_other_partitions_are_written_while_one_has_no_leader(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(linger_ms=0)
    producer.send_all(ProducerRecord("t", b"first", partition=number) for number in (0, 1))
    producer.flush()
    brokers.partition("t", 1).leader = -1
    stuck = producer.send("t", b"stuck", partition=1)
    written = [producer.send("t", b"%d" % number, partition=0) for number in range(20)]
    assert [future.result(60).offset for future in written] == list(range(1, 21))
    assert not stuck.done()
    brokers.partition("t", 1).leader = 1
    assert stuck.result(60).offset == 1


def test_a_wrong_password_fails_all_records_and_is_not_tried_again() -> None:
    guard = Guard(mechanisms=("PLAIN",), users={"alice": "secret"})
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    with (
        ScriptedCluster(topics={"t": 2}, guard=guard) as brokers,
        Producer({"bootstrap.servers": brokers.bootstrap_servers, "retry.backoff.ms": 1, **options}) as producer,
    ):
        producer.send("t", b"a", partition=0).result(60)
        guard.users = {"alice": "changed"}
        brokers.brokers[1].drop_connections()
        futures = [producer.send("t", b"b", partition=number) for number in (0, 1)]
        for future in futures:
            with pytest.raises(KafkaError, match=r"sasl\.jaas\.config"):
                future.result(60)
        with pytest.raises(ClientClosed, match=r"the producer has failed: .*sasl\.jaas\.config"):
            producer.send("t", b"c")


def test_brokers_that_are_away_for_a_while_lose_nothing(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    producer = open_producer(linger_ms=0)
    producer.send("u", b"a").result(60)
    for broker in brokers.brokers.values():
        broker.stop()
    futures = [producer.send("u", b"%d" % number) for number in range(10)]
    for broker in brokers.brokers.values():
        broker.start()
    assert [future.result(60).offset for future in futures] == list(range(1, 11))
    assert brokers.partition("u").values() == [b"a", *(b"%d" % number for number in range(10))]


def test_a_topic_whose_metadata_is_stale_needs_no_broker_to_be_taken(
    brokers: ScriptedCluster, open_producer: OpenProducer
) -> None:
    producer = open_producer(metadata_max_age_ms=0, linger_ms=0)
    producer.send("u", b"a").result(60)
    asked = len(brokers.requests(MetadataRequest))
    for broker in brokers.brokers.values():
        broker.stop()
    future = producer.send("u", b"b")
    assert not future.done()
    for broker in brokers.brokers.values():
        broker.start()
    assert future.result(60).offset == 1
    assert len(brokers.requests(MetadataRequest)) > asked
