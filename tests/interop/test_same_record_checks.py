"""Records that topics do not take, or store otherwise than they came: the same answers as Apache Kafka's, and bytes."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from spark_kafka_native._protocol.messages.fetch import FetchResponse
from spark_kafka_native._records.batch import CompressionType, seal
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.record import NO_HEADERS, LogRecord
from tests.support.broker.driver import fetch_request, produce_request
from tests.support.records.message_sets import messages_in
from tests.support.requests.conversation import Conversation
from tests.support.requests.same_responses import compare_brokers

pytestmark = pytest.mark.interop

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
NOW_MS = int(time.time() * 1000)
DAY_MS = 24 * 60 * 60 * 1000


def records(
    *fields: tuple[bytes | None, int], codec: CompressionType = NONE, deltas: Sequence[int] | None = None
) -> bytearray:
    """A batch of records with these keys and times."""
    offsets = deltas or range(len(fields))
    found = [
        LogRecord(offset, time_ms, key, b"v", NO_HEADERS)
        for offset, (key, time_ms) in zip(offsets, fields, strict=True)
    ]
    return write_batch(found, base_offset=0, compression=codec)


def patched(raw: bytearray, at: int, value: int, size: int) -> bytearray:
    raw[at : at + size] = value.to_bytes(size, "big", signed=True)
    seal(raw)
    return raw


GOOD = (b"k", NOW_MS)
UNKEYED = (None, NOW_MS)
OLD = (b"k", NOW_MS - 10 * DAY_MS)
OLD_UNKEYED = (None, NOW_MS - 10 * DAY_MS)
TIMELESS = (b"k", -1)
FUTURE = (b"k", NOW_MS + 10 * DAY_MS)


def cases(codec: CompressionType) -> dict[str, bytearray]:
    """What is sent to each topic; ``codec`` for those that have records."""
    return {
        "good": records(GOOD, GOOD, codec=codec),
        "one without a key": records(GOOD, UNKEYED, GOOD, codec=codec),
        "none with a key": records(UNKEYED, UNKEYED, UNKEYED, UNKEYED, codec=codec),
        "one too old": records(GOOD, OLD, GOOD, codec=codec),
        "old and without a key": records(GOOD, OLD_UNKEYED, codec=codec),
        "old, and one without a key": records(OLD, UNKEYED, codec=codec),
        "one ahead": records(GOOD, FUTURE, codec=codec),
        "all of it": records(FUTURE, UNKEYED, OLD, TIMELESS, OLD_UNKEYED, codec=codec),
        "no time": records(TIMELESS, TIMELESS, codec=codec),
    }


TOPICS: dict[str, dict[str, Any]] = {
    "compacted": {"cleanup_policy": "compact"},
    "both": {"cleanup_policy": "compact,delete"},
    "recent": {"message_timestamp_before_max_ms": str(DAY_MS)},
    "no future": {"message_timestamp_after_max_ms": str(DAY_MS)},
    "recent, compacted": {"cleanup_policy": "compact", "message_timestamp_before_max_ms": str(DAY_MS)},
    "stamped": {"message_timestamp_type": "LogAppendTime", "message_timestamp_before_max_ms": str(DAY_MS)},
    "gzip": {"compression_type": "gzip", "message_timestamp_before_max_ms": str(DAY_MS)},
    "uncompressed": {"compression_type": "uncompressed"},
}


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("topic", TOPICS)
@compare_brokers
def test_records_to_blame(broker: Conversation, topic: str, codec: CompressionType) -> None:
    broker.create("t", **TOPICS[topic])
    name = broker.topic("t")
    for what, raw in cases(codec).items():
        for version in (7, 9):
            request = produce_request(name, bytes(raw))
            if topic == "stamped":  # the time of the response is each broker's own
                response = broker.response(request, version).responses[0].partition_responses[0]
                broker.responses.append((f"{topic}, {what}", (response.error_code, response.log_append_time_ms > 0)))
            else:
                broker.ask(request, version, f"{topic}, {what}")


def stored(broker: Conversation, topic: str) -> list[object]:
    """What a consumer gets: codec and headers of each batch, and the records."""
    response: FetchResponse = broker.response(fetch_request(broker.topic(topic)), 11)
    raw = bytes(response.responses[0].partitions[0].records or b"")  # type: ignore[arg-type]  # as a client gets them
    headers = [header._replace(batch_length=0, crc=0, partition_leader_epoch=0) for _, header in iter_any(raw)]
    return [headers, messages_in(raw)]


@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("name", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@compare_brokers
def test_what_is_stored(broker: Conversation, name: str, codec: CompressionType) -> None:
    broker.create("t", compression_type=name)
    for raw in (records(GOOD, UNKEYED, OLD, codec=codec), records(TIMELESS, GOOD, codec=codec)):
        broker.ask(produce_request(broker.topic("t"), bytes(raw)), 9, name)
    broker.look(f"stored as {name}", lambda: stored(broker, "t"))


@pytest.mark.parametrize("codec", [NONE, GZIP])
@compare_brokers
def test_a_time_before_1970(broker: Conversation, codec: CompressionType) -> None:
    """Where the topic has another codec, Apache Kafka fails with UNKNOWN_SERVER_ERROR, and this broker takes it."""

    settings: list[dict[str, Any]] = [{}, {"cleanup_policy": "compact"}, TOPICS["recent"]]
    for topic, configs in zip(("plain", "compacted", "recent"), settings, strict=True):
        broker.create(topic, **configs)
        broker.ask(produce_request(broker.topic(topic), bytes(records((b"k", -5), codec=codec))), 9, topic)
        broker.look(f"stored in {topic}", lambda topic=topic: stored(broker, topic))  # type: ignore[misc]  # this one


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("configs", [{"cleanup_policy": "compact"}, {"compression_type": "lz4"}])
@compare_brokers
def test_batches_that_contradict_themselves(
    broker: Conversation, configs: dict[str, Any], codec: CompressionType
) -> None:
    """Where records are looked at one by one, here as there."""

    broker.create("t", **configs)
    name = broker.topic("t")
    three = (GOOD, GOOD, GOOD)
    fewer = patched(patched(records(*three, codec=codec), 57, 2, 4), 23, 1, 4)
    more = patched(patched(records(*three, codec=codec), 57, 4, 4), 23, 3, 4)
    for what, raw in (
        ("too few are counted", fewer),
        ("too many are counted", more),
        ("the count alone is wrong", patched(records(*three, codec=codec), 57, 2, 4)),
        ("a wrong largest time", patched(records(*three, codec=codec), 35, NOW_MS + 5, 8)),
    ):
        broker.ask(produce_request(name, bytes(raw)), 9, what)
    broker.look("stored", lambda: stored(broker, "t"))
