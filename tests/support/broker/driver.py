"""A broker without sockets: requests go in as bytes and responses come out as bytes, as through a connection."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from dirty_equals import IsInt

from broker_embedded._broker import Broker
from broker_embedded._config.config import BrokerConfig
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._metadata.image import BrokerNode
from broker_embedded._platform.platform import Clock, File, FileSystem, ManualClock, Platform
from broker_embedded._platform.timers import VirtualTimers
from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded._server.dispatch import Dispatcher, Intercept, Peer
from spark_kafka_native._protocol.framing import decode_response, request_frame
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from spark_kafka_native._protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import Buffer, Chunk, FileRegion
from spark_kafka_native._records.batch import BatchHeader, iter_batches, set_producer
from spark_kafka_native._records.conversion import read_records
from tests.support.records.log_batches import NOW_MS
from tests.support.requests.of_topic import offset_commit
from tests.support.waiting import eventually_async

ResponseT = TypeVar("ResponseT", bound=Response)
ResultT = TypeVar("ResultT")

NODE = BrokerNode(node_id=1, host="broker.test", port=9092)
SMALL_SETTINGS: Mapping[str, object] = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000) -> bytearray:
    """A record batch with one record per value, as a producer sends it."""
    return encode_batch([CoordinatorRecord(key=b"", value=value) for value in values or (b"v",)], timestamp_ms)


def idempotent(records: bytearray, *, producer_id: int, sequence: int, epoch: int = 0) -> bytearray:
    """The batch as an idempotent producer sends it."""
    set_producer(records, 0, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return records


def to_bytes(chunks: list[Chunk]) -> bytes:
    """What a connection would send: files read, everything in one piece."""
    return b"".join(
        cast("File", chunk.owner.file()).read_at(chunk.position, chunk.length)
        if isinstance(chunk, FileRegion)
        else bytes(chunk)
        for chunk in chunks
    )


def produce_request(
    topic: str, records: bytes | bytearray | None, partition: int = 0, *, acks: int = -1
) -> ProduceRequest:
    """A Produce for one partition, for versions with names."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )


def fetch_request(topic: str, offset: int = 0, partition: int = 0, **others: Any) -> FetchRequest:
    """A Fetch from one partition, for versions with names, that does not wait by default."""
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=others.pop("max_partition", 1 << 20)
    )
    return FetchRequest(topics=(FetchTopic(topic=topic, partitions=(wanted,)),), **others)


class BrokerDriver:
    """A broker in a directory, its event loop and its clock. A context manager."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, object] | None = None,
        *,
        file_system: FileSystem | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.settings = {**SMALL_SETTINGS, **(settings or {})}
        self.clock = ManualClock(NOW_MS)
        self._clock = clock or self.clock
        self._file_system = file_system
        self.cost = RequestCost()
        """What the last request cost its client, among it the silence that the connection would keep."""
        self._intercept: Callable[[Broker], Intercept] | None = None
        self._loop = asyncio.new_event_loop()
        self.open()

    def open(self) -> None:
        """Open the directory again."""
        platform = Platform(clock=self._clock, file_system=self._file_system)
        self.broker = Broker.open(BrokerConfig.parse(self.settings), os.fspath(self.data_dir), platform)
        self._put_together()

    def intercept(self, make: Callable[[Broker], Intercept]) -> None:
        """Let what ``make`` returns take every call in place of its handler, after restarts too."""
        self._intercept = make
        self._put_together()

    def _put_together(self) -> None:
        self.dispatcher = Dispatcher(self.broker, None if self._intercept is None else self._intercept(self.broker))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.broker.close())
        self._loop.close()

    def restart(self, settings: Mapping[str, object] | None = None) -> None:
        """Close in order and open again, with these settings added."""
        self.settings |= settings or {}
        self.run(self.broker.close())
        self.open()

    def passing_for(self, release: str) -> Self:
        """Restart with ``as.version``."""
        self.restart({"as.version": release})
        return self

    def drop(self) -> None:
        """End as if killed: nothing is flushed, no clean shutdown file."""
        self.broker.logs.abandon()
        self.broker.threads.stop()

    def crash(self) -> None:
        """Open again as after the process was killed."""
        self.drop()
        self.open()

    def run(self, work: Awaitable[ResultT]) -> ResultT:
        """Wait for something, at most for a time that no test should need."""

        async def in_time() -> ResultT:
            return await asyncio.wait_for(work, 30)

        return self._loop.run_until_complete(in_time())

    @property
    def timers(self) -> VirtualTimers:
        """The broker's, which go by the clock that `advance` moves."""
        timers = self.broker.timers
        assert isinstance(timers, VirtualTimers)
        return timers

    def advance(self, ms: int) -> None:
        """Move the clock, and do all that falls due on the way."""
        self.run(self.timers.advance(ms))

    def settle(self) -> None:
        """Let every task run as far as it can, its work in threads included, while the clock stands."""
        self.advance(0)

    @asynccontextmanager
    async def during_disk_work(self, task: "asyncio.Task[object]") -> AsyncIterator[None]:
        """Hold the work of a new task on the disk: it has begun in the body, and ends after it."""
        disk, release = self.broker.threads._disk, threading.Event()
        for _ in range(disk._max_workers):
            disk.submit(release.wait)
        try:
            await eventually_async(lambda: self.timers._working, IsInt(gt=0))
            assert not task.done()
            yield
        finally:
            release.set()

    def begin(
        self, request: Request[ResponseT], version: int, *, client_id: str = "test"
    ) -> "asyncio.Task[ResponseT | None]":
        """Ask without waiting for the response; None is no response."""
        return self._loop.create_task(self._ask(request, version, client_id))

    def pending(self, request: Request[ResponseT], version: int) -> "asyncio.Task[ResponseT | None]":
        """Begin a request that the broker does not answer at once."""
        task = self.begin(request, version)
        self.settle()
        assert not task.done()
        return task

    def response(self, task: "asyncio.Task[ResponseT | None]") -> ResponseT:
        """Wait for the response of a request that was begun."""
        response = self.run(task)
        assert response is not None, "there was no response"
        return response

    def ask(
        self,
        request: Request[ResponseT],
        version: int,
        *,
        client_id: str = "test",
        meanwhile: Callable[[], object] = lambda: None,
    ) -> ResponseT:
        """Ask and wait for the response; ``meanwhile`` happens as soon as the broker has looked at the request."""
        response = self.run(self._ask(request, version, client_id, meanwhile))
        assert response is not None, "there was no response"
        return response

    async def _ask(
        self, request: Request[ResponseT], version: int, client_id: str, meanwhile: Callable[[], object] = lambda: None
    ) -> ResponseT | None:
        frame = bytearray(to_bytes(request_frame(request, version, 7, client_id)))
        self.cost = cost = RequestCost()
        served = self.dispatcher.serve(Peer(node=NODE), memoryview(frame)[4:], cost)
        meanwhile()
        chunks = await served if inspect.isawaitable(served) else served
        if chunks is None:
            return None
        raw = to_bytes(chunks)
        assert int.from_bytes(raw[:4], "big") == len(raw) - 4
        correlation_id, response = decode_response(type(request).response, version, raw[4:])
        assert correlation_id == 7
        return response  # type: ignore[return-value]  # a request names its response's class

    # --- small words for what most tests need ------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic; ``retention_ms="1"`` is the config ``retention.ms=1``."""
        pairs = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=pairs)
        (result,) = self.ask(CreateTopicsRequest(topics=(wanted,)), 7).topics
        assert result.error_code == 0, result

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.run(self.broker.topic_lifecycle.delete(self.broker.image.topics[topic]))

    def topic_id(self, topic: str) -> UUID:
        """The id of an existing topic."""
        return self.broker.image.topics[topic].topic_id

    def produce(
        self, topic: str, records: bytes | bytearray | None, partition: int = 0, *, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        """Produce to one partition; its response."""
        response = self.ask(produce_request(topic, records, partition, acks=acks), version)
        return response.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, *, version: int = 11, **others: Any
    ) -> PartitionData:
        """Fetch from one partition; its response."""
        return self.ask(fetch_request(topic, offset, partition, **others), version).responses[0].partitions[0]

    def values(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes]:
        """Every record's value from an offset on."""
        return values_in(self.fetch(topic, offset, partition))


def values_in(data: PartitionData) -> list[bytes]:
    """The values of the records in a Fetch response."""
    assert data.error_code == 0, data
    raw = data.records
    assert isinstance(raw, memoryview)
    return [
        record.value or b"" for position, header in iter_batches(raw) for record in decode_batch(raw, position, header)
    ]


async def run_periodic(broker: Broker, name: str) -> None:
    """Run a periodic task of the broker now."""
    (task,) = (task for task in broker.periodic_tasks() if task.name == name)
    work = task.run()
    assert work is not None
    await work


def decode_batch(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[CoordinatorRecord]:
    """The records of one whole batch of any format, none if it is a control batch. Raises CorruptBatch."""
    if header.is_control:
        return
    for message in read_records(memoryview(buffer), position, header):
        yield CoordinatorRecord(key=message.key or b"", value=message.value)


def commit_offset(
    broker: BrokerDriver, offset: int, partition: int = 0, *, topic: str = "t", version: int = 8,
    group_id: str = "g", leader_epoch: int = -1, metadata: str = "", **fields: Any,
) -> int:  # fmt: skip
    """Commit an offset of one partition; the error code."""
    where: dict[str, Any] = {"group_id": group_id, "epoch": leader_epoch, "metadata": metadata, **fields}
    response = broker.ask(offset_commit(topic, offset, partition, **where), version)
    return response.topics[0].partitions[0].error_code
