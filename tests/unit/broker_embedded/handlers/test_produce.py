import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._log.appender import AppendResult
from broker_embedded._replica.partitions import LocalPartition
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from spark_kafka_native._records.batch import CompressionType, seal
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.driver import BrokerDriver, batch, fetch_request, idempotent, produce_request, values_in

NAMED = range(3, 13)
MANY = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def code(response: PartitionProduceResponse) -> ErrorCode:
    return ErrorCode.of(response.error_code)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", NAMED)
def test_a_batch_in_every_version_with_names(broker: BrokerDriver, version: int, acks: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0", b"1"))
    response = broker.produce("t", batch(b"2"), acks=acks, version=version)
    assert (response.error_code, response.base_offset, response.log_append_time_ms) == (0, 2, -1)
    assert response.log_start_offset == (0 if version >= 5 else -1)
    assert broker.values("t") == [b"0", b"1", b"2"]


def test_a_batch_by_topic_id(broker: BrokerDriver) -> None:
    broker.create("t")
    topic_id = broker.topic_id("t")
    data = (PartitionProduceData(index=0, records=batch(b"x")), PartitionProduceData(index=1, records=batch(b"y")))
    request = ProduceRequest(
        acks=-1,
        topic_data=(
            TopicProduceData(topic_id=topic_id, partition_data=data),
            TopicProduceData(topic_id=UUID(int=5), partition_data=data[:1]),
        ),
    )
    known, unknown = broker.ask(request, 13).responses
    assert (known.topic_id, unknown.topic_id) == (topic_id, UUID(int=5))
    assert [code(part) for part in known.partition_responses] == [ErrorCode.NONE, MANY]
    assert [code(part) for part in unknown.partition_responses] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_several_topics_and_partitions_each_for_itself(broker: BrokerDriver) -> None:
    broker.create("a", partitions=2)
    broker.create("b")
    request = ProduceRequest(
        acks=1,
        topic_data=tuple(
            TopicProduceData(
                name=name,
                partition_data=tuple(PartitionProduceData(index=index, records=batch(b"x")) for index in (1, 0)),
            )
            for name in ("a", "b", "c")
        ),
    )
    response = broker.ask(request, 12)
    assert [
        (topic.name, [(part.index, code(part)) for part in topic.partition_responses]) for topic in response.responses
    ] == [
        ("a", [(1, ErrorCode.NONE), (0, ErrorCode.NONE)]),
        ("b", [(1, MANY), (0, ErrorCode.NONE)]),
        ("c", [(1, MANY), (0, MANY)]),
    ]


def test_log_append_time_replaces_timestamps(broker: BrokerDriver) -> None:
    broker.create("t", message_timestamp_type="LogAppendTime")
    assert broker.produce("t", batch(b"x", timestamp_ms=5)).log_append_time_ms == broker.clock.now_ms()


def test_acks_0_is_silent(broker: BrokerDriver) -> None:
    broker.create("t")
    assert broker.run(broker.begin(produce_request("t", batch(b"x"), acks=0), 9)) is None
    assert broker.values("t") == [b"x"]


def test_acks_0_closes_the_connection_on_an_error(broker: BrokerDriver) -> None:
    with pytest.raises(CloseConnection, match="acks=0 failed: t-3: UNKNOWN_TOPIC_OR_PARTITION"):
        broker.run(broker.begin(produce_request("t", batch(b"x"), 3, acks=0), 9))


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(broker: BrokerDriver, acks: int) -> None:
    broker.create("t")
    assert code(broker.produce("t", batch(b"x"), acks=acks)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.values("t") == []


@pytest.mark.parametrize("release", ["3.7", "4.3"])
def test_min_insync_replicas_counts_as_the_number_of_replicas_at_most(broker: BrokerDriver, release: str) -> None:
    broker.passing_for(release)
    broker.create("t", min_insync_replicas="2")
    assert code(broker.produce("t", batch(b"x"), acks=-1)) is ErrorCode.NONE
    assert broker.values("t") == [b"x"]


def test_acks_all_requires_min_insync_replicas_before_3_7(broker: BrokerDriver) -> None:
    broker.passing_for("3.6")
    broker.create("t", min_insync_replicas="2")
    refused = broker.produce("t", batch(b"x"), acks=-1)
    assert code(refused) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused.error_message == "t-0 has 1 in-sync replicas, but min.insync.replicas is 2"
    assert broker.values("t") == []
    assert code(broker.produce("t", batch(b"y"), acks=1)) is ErrorCode.NONE
    assert broker.values("t") == [b"y"]


def altered(at: int, bits: int, *, crc: bool = True) -> bytes:
    records = batch(b"x" * 100)
    records[at] ^= bits
    if crc:
        seal(records)
    return bytes(records)


@pytest.mark.parametrize(
    ("records", "version", "expected"),
    [
        (None, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (bytes(batch(b"x"))[:-1], 9, ErrorCode.INVALID_RECORD),
        (bytes(batch(b"x")) * 2, 9, ErrorCode.INVALID_RECORD),
        (bytes(batch(b"x")) + b"\0", 9, ErrorCode.INVALID_RECORD),
        (b"\0" * 8 + b"\0\0\0\x30" + b"\0" * 4 + b"\x01" + b"\0" * 43, 9, ErrorCode.INVALID_RECORD),
        (b"\0" * 8 + b"\0\0\0\x32" + b"\0" * 4 + b"\x07" + b"\0" * 45, 9, ErrorCode.CORRUPT_MESSAGE),
        (altered(100, 1, crc=False), 9, ErrorCode.CORRUPT_MESSAGE),
        (altered(22, 0x10), 9, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (altered(22, CompressionType.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_bad_records_are_refused_with_a_code(
    broker: BrokerDriver, records: bytes | None, version: int, expected: ErrorCode
) -> None:
    broker.create("t")
    response = broker.produce("t", records, version=version)
    assert code(response) is expected
    assert (response.base_offset, response.log_start_offset) == (-1, -1)
    assert broker.values("t") == []
    assert code(broker.produce("t", batch(b"good"))) is ErrorCode.NONE


def test_errors_are_explained_from_v8_on(broker: BrokerDriver) -> None:
    broker.create("t", max_message_bytes="100")
    response = broker.produce("t", batch(b"x" * 200), version=8)
    assert code(response) is ErrorCode.MESSAGE_TOO_LARGE
    assert response.error_message
    assert broker.produce("t", batch(b"x" * 200), version=7).error_message is None


def test_the_brokers_own_topics_are_not_written_to(broker: BrokerDriver) -> None:
    broker.run(broker.broker.groups.make_ready())
    assert code(broker.produce("__consumer_offsets", batch(b"x"))) is ErrorCode.INVALID_TOPIC_EXCEPTION
    response = broker.ask(produce_request("__consumer_offsets", batch(b"x")), 9, client_id="__admin_client")
    assert response.responses[0].partition_responses[0].error_code == 0


def test_a_repeated_batch_is_there_once(broker: BrokerDriver) -> None:
    broker.create("t")
    for _ in range(3):
        response = broker.produce("t", idempotent(batch(b"a", b"b"), producer_id=5, sequence=0))
        assert (code(response), response.base_offset) == (ErrorCode.NONE, 0)
    refused = broker.produce("t", idempotent(batch(b"d"), producer_id=5, sequence=3))
    assert code(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (refused.base_offset, refused.log_start_offset) == (-1, 0)
    assert broker.values("t") == [b"a", b"b"]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_repeated_batch_is_there_once_over_restarts(broker: BrokerDriver, how: str) -> None:
    broker.create("t")
    for sequence in range(4):
        broker.produce("t", idempotent(batch(b"%d" % sequence), producer_id=5, sequence=sequence))
    getattr(broker, how)()
    response = broker.produce("t", idempotent(batch(b"3"), producer_id=5, sequence=3))
    assert (code(response), response.base_offset) == (ErrorCode.NONE, 3)
    assert code(broker.produce("t", idempotent(batch(b"4"), producer_id=5, sequence=4))) is ErrorCode.NONE
    assert broker.values("t") == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("acks", [-1, 0])
def test_appends_that_wait_for_the_disk_do_it_beside_the_event_loop(broker: BrokerDriver, acks: int) -> None:
    broker.create("t", flush_messages="1")
    log = broker.broker.partitions.get("t", 0).log
    waiting = broker.begin(fetch_request("t", max_wait_ms=20_000, min_bytes=1), 11)
    broker.settle()
    broker.run(asyncio.wait_for(broker.begin(produce_request("t", batch(b"x"), acks=acks), 9), 10))
    assert log.local.flushed_offset == 1
    assert values_in(broker.response(waiting).responses[0].partitions[0]) == [b"x"]


def test_an_append_whose_client_has_left_ends_a_waiting_fetch(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("t", flush_messages="1")
    on_disk, disk_is_free = broker.broker.threads.on_disk, asyncio.Event()

    async def once_the_disk_is_free(function: Callable[[], object]) -> object:
        await disk_is_free.wait()
        return await on_disk(function)

    monkeypatch.setattr(broker.broker.threads, "on_disk", once_the_disk_is_free)
    waiting = broker.begin(fetch_request("t", max_wait_ms=20_000, min_bytes=1), 11)
    producing = broker.begin(produce_request("t", batch(b"x")), 9)
    broker.settle()
    producing.cancel()
    broker.settle()
    assert (producing.cancelled(), waiting.done()) == (True, False)
    disk_is_free.set()
    assert values_in(broker.response(waiting).responses[0].partitions[0]) == [b"x"]


def test_a_deleted_topic_is_gone_for_producers(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.delete("t")
    assert code(broker.produce("t", batch(b"x"))) is MANY


def test_a_response_has_a_thousand_errors_of_records_at_most(broker: BrokerDriver) -> None:
    broker.create("compacted", cleanup_policy="compact")
    without_keys = write_batch([LogRecord(index, 1, None, b"v") for index in range(200)], base_offset=0)
    data = tuple(PartitionProduceData(index=0, records=bytearray(without_keys)) for _ in range(15))
    request = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="compacted", partition_data=data),))
    parts = broker.ask(request, 12).responses[0].partition_responses
    assert {code(part) for part in parts} == {ErrorCode.INVALID_RECORD}
    assert [len(part.record_errors) for part in parts] == [100] * 10 + [0] * 5
    assert all(
        "record 0: a compacted topic takes no record without a key" in (part.error_message or "") for part in parts
    )


def test_appends_that_may_take_long_run_in_threads(broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    append = LocalPartition.append

    def noted(*args: Any) -> AppendResult:
        threads.append(threading.current_thread().name.rpartition("_")[0])
        return append(*args)

    monkeypatch.setattr(LocalPartition, "append", noted)
    broker.create("plain")
    broker.create("compacted", cleanup_policy="compact")
    broker.create("flushed", flush_messages="1")
    for topic, codec in itertools.product(
        ("plain", "compacted", "flushed"), (CompressionType.NONE, CompressionType.ZSTD)
    ):
        keyed = write_batch([LogRecord(0, broker.clock.now_ms(), b"k", b"v")], base_offset=0, compression=codec)
        assert broker.produce(topic, keyed).error_code == 0
    assert threads == ["", "", "", "broker-appends", "broker-disk", "broker-disk"]
