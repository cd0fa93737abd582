"""What fuzzers feed: bytes in, nothing out, and an exception only where something is wrong with our code.

The same targets serve Hypothesis in the test suite, atheris in long runs, and the replay of the corpus in tests/golden.
"""

import asyncio
import contextlib
import inspect
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from broker_embedded._config.log_config import LogConfig
from broker_embedded._handlers.support.registry import Api, CloseConnection, Result, apis_of
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._log.log import Log
from broker_embedded._log.opening import open_log
from broker_embedded._platform.platform import ManualClock, Platform
from broker_embedded._server.dispatch import Call, Peer
from spark_kafka_native._protocol.codec import decode as decode_message
from spark_kafka_native._protocol.codec import encode as encode_message
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from spark_kafka_native._protocol.wire import Chunk
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD, CorruptBatch, iter_batches, seal
from tests.support.broker.disk import MemoryFileSystem
from tests.support.broker.driver import NODE, SMALL_SETTINGS, BrokerDriver, batch, to_bytes
from tests.support.broker.log_driver import DIRECTORY, LogDriver, offset_for_timestamp, slice_bytes
from tests.support.records.both_kernels import decode_both
from tests.support.records.log_batches import NOW_MS

_RAW: Final = 255
_MAX_TOPICS: Final = 40
_MAX_PARTITIONS: Final = 8
_STEPS: Final = 200
_STORED: Final = (b"one", b"two" * 200, b"three")


class FrameTarget:
    """A broker that gets frames.

    The first byte is an API's key, or chooses one; the second chooses a version; after 255 comes a whole frame.
    """

    def __init__(self) -> None:
        self._broker: BrokerDriver | None = None

    def __call__(self, data: bytes) -> None:
        if len(data) < 2:
            return
        broker = self._driver()
        frame, api, version = self._frame(data)
        raw = broker.run(_answered(frame, broker))
        if raw is None or api is None:
            return
        correlation_id, response = decode_response(api.request.response, version, raw[4:])
        assert correlation_id == 7
        assert isinstance(response, api.request.response)

    @property
    def broker(self) -> BrokerDriver:
        """The broker that gets the next frame. Topic ``t`` has two partitions, and two records in the first."""
        return self._driver()

    def close(self) -> None:
        """Let go of the broker."""
        if self._broker is not None:
            self._broker.__exit__()
            self._broker = None

    def _driver(self) -> BrokerDriver:
        """The broker, a new one when the present one has become too large."""
        if self._broker is not None and len(self._broker.broker.image.topics) > _MAX_TOPICS:
            self.close()
        if self._broker is None:
            settings = {
                **SMALL_SETTINGS,
                "auto.create.topics.enable": False,
                "group.initial.rebalance.delay.ms": 0,
                "offsets.topic.num.partitions": 1,
            }
            disk = MemoryFileSystem()
            self._broker = BrokerDriver(Path("/fuzz"), settings, file_system=disk)
            self._broker.intercept(lambda _: _in_bounds)
            self._broker.create("t", 2)
            self._broker.produce("t", batch(b"a", b"b"))
        return self._broker

    @staticmethod
    def _frame(data: bytes) -> tuple[bytes, Api | None, int]:
        if data[0] == _RAW:
            return data[1:], None, 0
        apis = apis_of("4.3")
        api = apis.get(data[0]) or list(apis.values())[data[0] % len(apis)]
        version = api.served.first + data[1] % (api.served.last - api.served.first + 1)
        head = struct.pack(">hhih", api.request.api_key, version, 7, 1) + b"f"
        tags = b"\0" if version in api.request.flexible else b""
        return head + tags + data[2:], api, version


async def _answered(frame: bytes, broker: BrokerDriver) -> bytes | None:
    try:
        found = broker.dispatcher.serve(Peer(node=NODE), memoryview(bytearray(frame)), RequestCost())
        chunks = await _done(found, broker) if inspect.isawaitable(found) else found
    except (CloseConnection, RemoteProtocolError):
        return None
    return None if chunks is None else to_bytes(chunks)


def _in_bounds(call: Call) -> Result:
    """The handler's own response, but for requests that are fine and would take the whole day."""
    request = call.request
    if isinstance(request, CreateTopicsRequest) and any(
        topic.num_partitions > _MAX_PARTITIONS or len(topic.assignments) > _MAX_PARTITIONS for topic in request.topics
    ):
        return CreateTopicsResponse()
    if isinstance(request, CreatePartitionsRequest) and any(topic.count > _MAX_PARTITIONS for topic in request.topics):
        return CreatePartitionsResponse()
    return call.api.handler(request, call.context)


async def _done(work: Awaitable[list[Chunk] | None], broker: BrokerDriver) -> list[Chunk] | None:
    """What comes of the work, None if it waits for something that will not come while the clock stands."""
    task = asyncio.ensure_future(work)
    await broker.timers.advance(0)
    if task.done():
        return await task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return None


def messages_target(data: bytes) -> None:
    """A received request or response; every class and version is tried.

    The first byte chooses an API, the second request or response and the version.
    """
    if len(data) < 2:
        return
    body = memoryview(data)[2:]
    request = list(all_requests().values())[data[0] % len(all_requests())]
    cls: type[Any] = request.response if data[1] & 1 else request
    version = cls.versions.first + (data[1] >> 1) % (cls.versions.last - cls.versions.first + 1)
    try:
        message = decode_message(cls, body, version)
    except RemoteProtocolError:
        return
    again = to_bytes(encode_message(message, version))
    assert to_bytes(encode_message(decode_message(cls, again, version), version)) == again


def records_target(data: bytes) -> None:
    """Bytes as a consumer gets them, by the kernel and the reference, and as a producer sends them.

    The first byte has whether CRCs are made right.
    """
    if not data:
        return
    records = bytearray(data[1:])
    if data[0] & 1:
        _seal_all(records)
    decode_both(bytes(records), from_offset=0, until_offset=2**63 - 1, max_decompressed_bytes=1 << 22)
    driver = LogDriver({"message.timestamp.after.max.ms": 2**63 - 1, "compression.type": _CODECS[data[0] >> 1 & 3]})
    before = driver.log.log_end_offset
    try:
        result = driver.log.append(memoryview(records), leader_epoch=0)
    except KafkaError:
        _check(driver.log.log_end_offset == before, "what was refused was written")
        return
    assert result.base_offset == before
    assert driver.log.log_end_offset == result.last_offset + 1
    stored = slice_bytes(driver.log.reader.read(before, max_bytes=1 << 30))
    headers = [header for _, header in iter_batches(stored)]
    assert headers[-1].next_offset == result.last_offset + 1
    end = driver.log.log_end_offset
    driver.disk.restart()
    again = open_log(DIRECTORY, driver.config, Platform(clock=ManualClock(NOW_MS), file_system=driver.disk))
    assert again.log_end_offset == end, "recovery cuts off what was taken"


_MAY_STOP_AN_OPENING: Final = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID}
_CODECS: Final = ("producer", "uncompressed", "gzip", "lz4")


def _seal_all(records: bytearray) -> None:
    position = 0
    while len(records) - position >= RECORD_BATCH_OVERHEAD:
        (length,) = struct.unpack_from(">i", records, position + 8)
        if not RECORD_BATCH_OVERHEAD - 12 <= length <= len(records) - position - 12:
            return
        with contextlib.suppress(CorruptBatch):
            seal(records, position)
        position += length + 12


FILES: Final = (
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000003.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "00000000000000000000.log.swap",
    "00000000000000000001.log",
    "00000000000000000001.index",
)


def indexes_target(data: bytes) -> None:
    """A log directory with one file that holds these bytes. First byte: which one, and whether the stop was clean."""
    if not data:
        return
    which, clean = FILES[(data[0] >> 1) % len(FILES)], bool(data[0] & 1)
    driver = LogDriver({"index.interval.bytes": 0})
    for value in _STORED:
        driver.append(value)
    driver.log.close()
    driver.disk.restart()
    driver.disk.create(f"{DIRECTORY}/{which}").write_at(0, data[1:])
    platform = Platform(clock=ManualClock(NOW_MS), file_system=driver.disk)
    try:
        log = open_log(DIRECTORY, LogConfig.parse({"index.interval.bytes": 0}), platform, clean_shutdown=clean)
    except KafkaError as error:
        _check(error.code in _MAY_STOP_AN_OPENING, f"a log does not open because of {error}")
        return
    only_indexes = not which.endswith((".log", ".swap"))
    if not clean and only_indexes:
        assert log.log_end_offset == len(_STORED), "recovery lost records for want of an index"
    with contextlib.suppress(KafkaError):
        _read_whole(log)
    with contextlib.suppress(KafkaError):
        offset_for_timestamp(log, driver.clock.now_ms())
    with contextlib.suppress(KafkaError):
        log.append(batch(b"more"), leader_epoch=1)
        log.close()


def _check(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise AssertionError(otherwise)


def _read_whole(log: Log) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.reader.read(offset, max_bytes=100)
        headers = [header for _, header in iter_batches(slice_bytes(found))]
        assert not headers or headers[-1].next_offset > offset, "reading does not get on"
        offset = headers[-1].next_offset if headers else log.log_end_offset


TARGETS: Final[Mapping[str, Callable[[], Callable[[bytes], None]]]] = MappingProxyType(
    {
        "frames": FrameTarget,
        "messages": lambda: messages_target,
        "records": lambda: records_target,
        "indexes": lambda: indexes_target,
    }
)
"""By name; each makes a target that may keep something over its calls."""
