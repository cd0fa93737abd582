import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dirty_equals import IsInt

from broker_embedded._log import timestamp_lookup
from broker_embedded._replica import down_conversion
from broker_embedded._replica.partitions import LocalPartition
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._records.batch import CompressionType, seal, write_header
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

NOW_MS = 1_700_000_000_000
VALUE_BYTES = 100_000
"""Enough for the records to be looked at in a thread, and for the request to reserve memory."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"plain": 1}, settings={"offsets.topic.num.partitions": 1}) as running:
        running.create_topic("compacted", 40, {"cleanup.policy": "compact"})
        yield running


class Held:
    """Calls of a function, noted in ``begun``; the first ``count`` wait until they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, count: int) -> None:
        self.begun: list[Any] = []
        self._count = count
        self._released = threading.Event()
        self._original: Callable[..., Any] = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **more: self._call(*args, **more))  # noqa: PLW0108  # bound

    def _call(self, *args: Any, **more: Any) -> Any:
        self.begun.append(args)
        if len(self.begun) <= self._count:
            assert self._released.wait(60)
        return self._original(*args, **more)

    def release(self) -> None:
        self._released.set()

    def wait_for(self, count: int) -> None:
        eventually(lambda: len(self.begun), count)


def keyed(size: int = VALUE_BYTES) -> bytes:
    return bytes(write_batch([LogRecord(0, NOW_MS, b"k", b"v" * size)], base_offset=0))


def produce(partition: int) -> bytes:
    return request_bytes(produce_request("compacted", keyed(), partition), 7)


def produce_many(count: int, *, acks: int) -> bytes:
    """To ``count`` partitions, in a request that does not fill the receive buffer."""
    small = bytes(write_batch([LogRecord(0, NOW_MS, b"k", b"v")], base_offset=0, compression=CompressionType.ZSTD))
    parts = tuple(PartitionProduceData(index=index, records=small) for index in range(count))
    topic = TopicProduceData(name="compacted", partition_data=parts)
    return request_bytes(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,)), 7)


def look_up(timestamp: int) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(topics=(ListOffsetsTopic(name="plain", partitions=(part,)),))


def overstated() -> bytearray:
    """A batch whose header says a time that its record does not have."""
    raw = batch(b"v", timestamp_ms=NOW_MS)
    write_header(
        raw,
        size_in_bytes=len(raw),
        last_offset_delta=0,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 1000,
        records_count=1,
    )
    seal(raw)
    return raw


def reset(client: RawClient) -> None:
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sock.close()


def reserved(broker: EmbeddedBroker) -> int:
    return broker._server._shared.memory.used


def ended(broker: EmbeddedBroker) -> int:
    """Connections of which the broker has noticed that the client has closed its side."""
    return sum(connection._ended for connection in list(broker._server._connections))


def test_produces_of_reset_connections_are_dropped_and_release_their_memory(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends = Held(monkeypatch, LocalPartition, "append", 2)
    frame = produce(0)
    with RawClient(broker.bootstrap_servers) as kept:
        running = RawClient(broker.bootstrap_servers)
        running.send(produce(0))
        kept.send(produce(1))
        appends.wait_for(2)
        waiting = [RawClient(broker.bootstrap_servers) for _ in range(20)]
        for index, client in enumerate(waiting):
            client.send(produce(index))
        eventually(lambda: reserved(broker), 22 * len(frame))
        for client in (running, *waiting):
            reset(client)
        eventually(lambda: len(broker._server._connections), 1)
        eventually(lambda: reserved(broker), 2 * len(frame))
        appends.release()
        assert int.from_bytes(kept.frame()[:4]) == 1
    eventually(lambda: len(broker._server._connections), 0)
    eventually(lambda: reserved(broker), 0)
    assert len(appends.begun) == 2


def test_lookups_by_time_do_not_wait_for_appends(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.ask(produce_request("plain", batch(b"v", timestamp_ms=NOW_MS)), 7)
        appends = Held(monkeypatch, LocalPartition, "append", 20)
        producers = [RawClient(broker.bootstrap_servers) for _ in range(20)]
        for index, producer in enumerate(producers):
            producer.send(produce(index))
        appends.wait_for(2)
        assert client.ask(look_up(NOW_MS), 4).topics[0].partitions[0].offset == 0
        appends.release()
        for producer in producers:
            producer.frame()
            producer.sock.close()


@pytest.mark.parametrize(("acks", "begun"), [(1, 1), (0, 10)])
def test_partitions_are_not_begun_after_the_client_has_left_unless_it_wants_no_response(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, acks: int, begun: int
) -> None:
    appends = Held(monkeypatch, LocalPartition, "append", 1)
    with RawClient(broker.bootstrap_servers) as client:
        client.send(produce_many(10, acks=acks))
        appends.wait_for(1)
    eventually(lambda: ended(broker), 1)
    appends.release()
    eventually(lambda: len(broker._server._connections), 0)
    assert len(appends.begun) == begun


@pytest.mark.parametrize("has_read", [True, False])
def test_a_produce_with_acks_0_that_is_worked_on_outlives_a_reset_of_its_connection(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, has_read: bool
) -> None:
    """``has_read``: the broker reads from the connection. It does not once the next requests have filled its buffer."""
    appends = Held(monkeypatch, LocalPartition, "append", 1)
    client = RawClient(broker.bootstrap_servers)
    client.send(produce_many(10, acks=0) + (b"" if has_read else (200_000).to_bytes(4) + bytes(100_000)))
    appends.wait_for(1)
    if not has_read:
        eventually(lambda: any(connection._receive_buffer.is_full for connection in broker._server._connections), True)
    reset(client)
    eventually(lambda: ended(broker), 1)
    appends.release()
    eventually(lambda: len(broker._server._connections), 0)
    assert len(appends.begun) == 10


def test_records_with_acks_0_of_a_client_that_left_outlive_connections_max_idle_ms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedBroker(topics={"plain": 1}, settings={"connections.max.idle.ms": 200}) as broker:
        broker.create_topic("compacted", 2, {"cleanup.policy": "compact"})
        appends = Held(monkeypatch, LocalPartition, "append", 2)
        with RawClient(broker.bootstrap_servers) as first, RawClient(broker.bootstrap_servers) as second:
            first.send(produce(0))
            second.send(produce(1))
            appends.wait_for(2)
            with RawClient(broker.bootstrap_servers) as leaving:
                leaving.send(produce_many(1, acks=0))
            eventually(lambda: ended(broker), 1)
            with RawClient(broker.bootstrap_servers) as fetching:  # it waits for records, and leaves
                fetching.send(request_bytes(fetch_request("plain", max_wait_ms=1_000_000, min_bytes=1), 7))
            for _ in range(2):  # the second one is closed in a later look at all connections
                with RawClient(broker.bootstrap_servers) as idle:
                    assert idle.is_closed()
            assert ended(broker) == 1, "the connection of the Produce is open, that of the Fetch is closed"
            appends.release()
            first.frame()
            second.frame()
            appends.wait_for(3)
        eventually(lambda: len(broker._server._connections), 0)
        eventually(lambda: reserved(broker), 0)
        with RawClient(broker.bootstrap_servers) as client:
            response = client.ask(fetch_request("compacted"), 7)
            assert response.responses[0].partitions[0].high_watermark == 2


def test_a_client_that_leaves_is_noticed_although_its_requests_fill_the_buffer(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends = Held(monkeypatch, LocalPartition, "append", 2)
    with RawClient(broker.bootstrap_servers) as first, RawClient(broker.bootstrap_servers) as second:
        first.send(produce(0))
        second.send(produce(1))
        appends.wait_for(2)
        with RawClient(broker.bootstrap_servers) as leaving:
            leaving.send(produce(2) + produce_many(1, acks=1))
            eventually(lambda: reserved(broker), IsInt(gt=2 * len(produce(0)) + VALUE_BYTES))
        eventually(lambda: len(broker._server._connections), 2)
        appends.release()
        first.frame()
        second.frame()
    assert len(appends.begun) == 2


def test_a_lookup_ends_between_batches_when_its_client_leaves(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decompressed = Held(monkeypatch, timestamp_lookup, "payload_pieces", 2)
    with RawClient(broker.bootstrap_servers) as client:
        for _ in range(3):
            client.ask(produce_request("plain", overstated()), 7)
        for count in (1, 2):
            with RawClient(broker.bootstrap_servers) as leaving:
                leaving.send(request_bytes(look_up(NOW_MS + 500), 4))
                decompressed.wait_for(count)
        eventually(lambda: ended(broker), 2)
        compacted = produce_request("compacted", keyed(), 0)
        assert client.ask(compacted, 7).responses[0].partition_responses[0].error_code == 0
        decompressed.release()
        eventually(lambda: len(broker._server._connections), 1)
        assert client.ask(look_up(NOW_MS), 4).topics[0].partitions[0].offset == 0
    assert len(decompressed.begun) == 3, "one batch for each lookup, and the one that the last lookup found"


def test_a_conversion_for_an_old_client_ends_between_batches_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker(topics={"plain": 1}, settings={"as.version": "3.9"}) as broker:
        converted = Held(monkeypatch, down_conversion, "convert_down", 1)
        with RawClient(broker.bootstrap_servers) as client:
            for _ in range(3):
                client.ask(produce_request("plain", batch(b"v")), 7)
            with RawClient(broker.bootstrap_servers) as leaving:
                leaving.send(request_bytes(fetch_request("plain"), 2))
                converted.wait_for(1)
            eventually(lambda: ended(broker), 1)
            converted.release()
            eventually(lambda: len(broker._server._connections), 1)
            response = client.ask(fetch_request("plain", 2), 2)
            assert response.responses[0].partitions[0].error_code == 0
        assert len(converted.begun) == 2, "the first batch for the client that left, the last for the one that did not"
