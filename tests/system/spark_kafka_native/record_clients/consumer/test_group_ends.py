"""The end of a group consumer: ``shutdown``, signals, a fork, garbage collection."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.groups import describe_group
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.classic_member import ClassicMembership
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer import stream_partitions
from spark_kafka_native._record_clients.consumer.record_rows import records_of
from spark_kafka_native.clients import ClientClosed, ConsumerConnector, ConsumerRecord
from tests.support.clients.consuming import PARTITIONS, Consuming, all_of, committed, numbers, write
from tests.support.clients.native import config_of
from tests.support.scripts import started
from tests.support.waiting import eventually

READ_UNTIL_SIGTERM = """
import signal, sys
from spark_kafka_native.clients import ConsumerConnector
servers, topic, group = sys.argv[1:]
consumer = ConsumerConnector({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
signal.signal(signal.SIGTERM, lambda *_: consumer.shutdown())
(stream,) = consumer.create_message_streams({topic: 1})[topic]
for count, record in enumerate(stream):
    if count == 1000:
        print("a thousand records", flush=True)
print("the end", flush=True)
"""


def members(broker: EmbeddedBroker, options: dict[str, object]) -> int:
    with Cluster(config_of(broker.bootstrap_servers)) as cluster:
        return len(describe_group(cluster, str(options["group.id"])).members)


def test_shutdown_does_not_commit_records_in_process(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(3), 1)
    consumer = ConsumerConnector(options)
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    next(stream)
    next(stream)
    consumer.shutdown()
    assert committed(broker, options["group.id"])[0] == 1
    assert list(stream) == []


def test_shutdown_in_a_handler_of_a_signal_does_not_wait_for_the_interrupted_call(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted call holds the lock of its stream, which the member needs when it leaves."""

    def interrupted(partition: TopicPartition, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        signal.raise_signal(signal.SIGUSR1)
        return iter(records_of(partition, batch))

    def handle(*_: object) -> None:
        consumer.shutdown()
        handled.append(True)

    handled: list[bool] = []
    monkeypatch.setattr(stream_partitions, "records_of", interrupted)
    write(broker, topic, range(3), 1)
    consumer = ConsumerConnector(options)
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        assert [record.offset for record in stream] in ([], [0])
    finally:
        signal.signal(signal.SIGUSR1, before)
        consumer.shutdown()
    assert handled
    assert members(broker, options) == 0


def test_a_process_that_shuts_down_by_sigterm_ends_and_leaves_its_group(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(50_000), 1)
    program = [sys.executable, "-c", READ_UNTIL_SIGTERM, broker.bootstrap_servers, topic, str(options["group.id"])]
    with started(program, until="a thousand records") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert members(broker, options) == 0
    assert committed(broker, options["group.id"])[0] > 0


def test_a_consumer_of_the_parent_is_refused_in_a_forked_process(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(3), 1)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        next(stream)
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (consumer.commit_offsets, lambda: next(stream)):
                try:
                    call()
                except ClientClosed:
                    refused += 1
            consumer.shutdown()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert next(stream).offset == 1
    assert committed(broker, options["group.id"])[0] == 2


def test_a_forgotten_consumer_leaves_its_group(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    write(broker, topic, range(PARTITIONS))
    streams = ConsumerConnector(options).create_message_streams({topic: 1})[topic]
    next(streams[0])
    gc.collect()
    assert members(broker, options) == 1, "its stream can be read"
    streams.clear()
    gc.collect()
    with Consuming(options, {topic: 1}) as second:
        eventually(lambda: second.partitions, all_of(topic), within_s=60)
        eventually(lambda: numbers(second), list(range(PARTITIONS)), within_s=60)
    text = (
        f"group {options['group.id']}: a ConsumerConnector was collected as garbage without shutdown(); its member has"
    )
    assert text in caplog.text


def test_an_unexpected_error_of_the_member_is_logged_with_its_traceback_and_raised_by_its_streams(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def step(_: ClassicMembership) -> None:
        raise KeyError("t")

    monkeypatch.setattr(ClassicMembership, "step", step)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(KeyError, match="t"):
            next(stream)
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert (
        record.getMessage()
        == f"group {options['group.id']}: the member has ended, and its streams raise: KeyError: 't'"
    )
    assert record.exc_info


def test_the_partitions_of_a_stream_are_known_while_its_lock_is_held(topic: str, options: dict[str, object]) -> None:
    """Or a handler of a signal that calls ``shutdown`` could wait for a lock that the interrupted thread has."""
    with Consuming(options, {topic: 1}) as consuming:
        (stream,) = consuming.streams
        eventually(lambda: len(stream.partitions), PARTITIONS)
        found: list[TopicPartition] = []
        reading = threading.Thread(target=lambda: found.extend(stream.partitions), daemon=True)
        with stream._partitions._lock:
            reading.start()
            reading.join(30)
        assert len(found) == PARTITIONS


@pytest.mark.parametrize("streams", [["events"], "events", None, 5])
def test_streams_that_are_no_mapping_are_an_error(options: dict[str, object], streams: object) -> None:
    with ConsumerConnector(options) as consumer:
        with pytest.raises(TypeError, match="streams must be a mapping of topics to numbers of streams, not"):
            consumer.create_message_streams(streams)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(RuntimeError, match="the consumer has no streams yet; call create_message_streams first"):
            consumer.commit_offsets()
    with pytest.raises(ClientClosed, match="the consumer is closed"):
        consumer.commit_offsets()
