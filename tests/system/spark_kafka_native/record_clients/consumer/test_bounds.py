"""The time and the memory of one call of the simple consumer, and what it returns when they are used up."""

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from spark_kafka_native._protocol.messages.fetch import FetchRequest as FetchMessage
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native.clients import FetchRequest, FetchResult, KafkaError, OffsetOutOfRange
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Drop, Refuse, Respond, Silent, Slow, Throttle
from tests.system.spark_kafka_native.record_clients.consumer.conftest import OpenConsumer

MEGABYTES_20 = 20_000_000


@pytest.fixture(autouse=True)
def records(brokers: ScriptedCluster) -> None:
    """Three records in each partition of ``t``: 0 and 2 are led by broker 1, 1 and 3 by broker 2."""
    for partition in range(4):
        for number in range(3):
            brokers.partition("t", partition).append(batch_of([b"%d" % number]))


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def offsets(result: FetchResult) -> list[int]:
    return [record.offset for record in result.records]


# --- results beside errors


@pytest.mark.parametrize("steps", [[Drop()] * 10_000, [Silent()]], ids=["dropped", "silent"])
def test_records_are_returned_if_the_rest_of_the_cluster_is_lost(
    brokers: ScriptedCluster, open_consumer: OpenConsumer, steps: list[Drop | Silent]
) -> None:
    consumer = open_consumer(default_api_timeout_ms=2000)
    consumer.metadata(["t"])
    brokers.script(FetchMessage, Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), broker=2)
    brokers.script(MetadataRequest, *steps)
    good, lost = consumer.multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 0)])
    assert offsets(good) == [0, 1, 2]
    assert lost.error is not None
    assert lost.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_are_returned_beside_an_offset_out_of_range_and_a_partition_without_a_leader(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    consumer = open_consumer(default_api_timeout_ms=2000)
    consumer.metadata(["t"])
    brokers.partition("t", 1).leader = -1
    brokers.script(FetchMessage, *[Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 10_000, broker=2)
    wanted = [FetchRequest("t", 0, 9), FetchRequest("t", 1, 0), FetchRequest("t", 2, 0), FetchRequest("t", 2, 1)]
    out_of_range, without_leader, good, again = consumer.multifetch(wanted)
    assert isinstance(out_of_range.error, OffsetOutOfRange)
    assert without_leader.error is not None
    assert offsets(good) == [0, 1, 2]
    assert again.error is not None or offsets(again) == [1, 2], "the deadline has passed"


def test_the_range_of_an_offset_may_be_unknown(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.script(ListOffsetsRequest, *[Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2)
    out_of_range, good = open_consumer().multifetch([FetchRequest("t", 0, 9), FetchRequest("t", 2, 0)])
    assert str(out_of_range.error).startswith("t-0: offset 9; its range is not known: t-0: ")
    assert offsets(good) == [0, 1, 2]


def test_a_silent_broker_leaves_the_records_of_the_others(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    value = b"x" * 8_000_000
    brokers.partition("t", 1).append(batch_of([value]))
    brokers.script(FetchMessage, Silent(), broker=1)
    consumer = open_consumer(default_api_timeout_ms=3000)
    silent, good = consumer.multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 3)])
    assert [record.value for record in good.records] == [value]
    assert silent.error is not None


def test_a_broker_that_is_away_leaves_the_records_of_the_others(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    consumer = open_consumer(default_api_timeout_ms=2000)
    consumer.metadata(["t"])
    brokers.brokers[1].stop()
    lost, good = consumer.multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 0)])
    assert f"127.0.0.1:{brokers.brokers[1].port}: connection refused" in str(lost.error)
    assert offsets(good) == [0, 1, 2]


def test_a_throttled_broker_does_not_delay_the_others(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer(default_api_timeout_ms=20000)
    consumer.multifetch([FetchRequest("t", 0, 3), FetchRequest("t", 1, 3)])
    brokers.script(FetchMessage, Throttle(60_000), broker=1)
    throttled, good = consumer.multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 0)])
    assert "the broker throttles this client for" in str(throttled.error)
    assert offsets(good) == [0, 1, 2]
    throttled, good = consumer.multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 0)])
    assert "the broker throttles this client for" in str(throttled.error)
    assert offsets(good) == [0, 1, 2]


# --- time


def test_partitions_that_are_left_out_are_not_requested_after_the_deadline(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    consumer = open_consumer(default_api_timeout_ms=300, fetch_max_bytes=1)
    consumer.metadata(["t"])
    brokers.script(FetchMessage, *[Slow(200)] * 10_000)
    results = consumer.multifetch([FetchRequest("t", partition, 0, 1) for partition in (0, 2)])
    assert all(result.error is not None or result.next_offset <= 1 for result in results)
    assert len(brokers.requests(FetchMessage)) <= 2


def test_a_batch_that_grows_is_an_error_after_the_deadline(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    def cut_off(request: FetchMessage) -> FetchResponse:
        wanted = request.topics[0].partitions[0]
        # So many bytes after these: one byte more than the request has.
        announced = wanted.partition_max_bytes + 1 - 12
        return response_of(request, bytes(8) + announced.to_bytes(4, "big") + bytes(5))

    brokers.script(FetchMessage, *[Respond(cut_off)] * 1_000_000)
    with pytest.raises(KafkaError, match=r"t-0: no time was left for the batch of \d+ bytes|no response to Fetch"):
        open_consumer(default_api_timeout_ms=300).fetch(FetchRequest("t", 0, 0, 100))


def response_of(request: FetchMessage, records: bytes) -> FetchResponse:
    (topic,) = request.topics
    part = PartitionData(partition_index=topic.partitions[0].partition, records=records, high_watermark=3)
    return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(part,)),))


# --- memory


def test_partitions_beyond_the_memory_of_a_call_keep_their_offset(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    for partition in (0, 2):
        brokers.partition("t", partition).append(batch_of([b"x" * 60_000_000], compression=CompressionType.GZIP))
    consumer = open_consumer()
    wanted = [FetchRequest("t", 0, 3), FetchRequest("t", 2, 3)]
    first, second = consumer.multifetch(wanted)
    assert (offsets(first), second.records, second.next_offset, second.high_watermark) == ([3], [], 3, 4)
    first, second = consumer.multifetch(wanted)
    assert (first.next_offset, offsets(second)) == (3, [3]), "another partition comes first in the next call"


def test_partitions_share_the_memory_of_a_call(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    batch = batch_of([b"x" * MEGABYTES_20], compression=CompressionType.GZIP)
    for partition in (0, 2):
        for _ in range(3):
            brokers.partition("t", partition).append(bytes(batch))
    results = open_consumer().multifetch([FetchRequest("t", 0, 3), FetchRequest("t", 2, 3)])
    assert [offsets(result) for result in results] == [[3, 4], [3]]


def test_records_without_data_take_memory_too(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    for _ in range(4):
        brokers.partition("u").append(batch_of([None] * 700_000, compression=CompressionType.GZIP))
    result = open_consumer().fetch(FetchRequest("u", 0, 0))
    assert result.next_offset == 3 * 700_000


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("step", [Drop(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)], ids=str)
def test_an_error_holds_no_records_of_other_partitions(
    brokers: ScriptedCluster, open_consumer: OpenConsumer, step: Drop | Refuse
) -> None:
    brokers.partition("t", 0).append(batch_of([b"x" * MEGABYTES_20]))
    consumer = open_consumer(default_api_timeout_ms=2000)
    consumer.metadata(["t"])
    brokers.script(FetchMessage, *[step] * 10_000, broker=2)
    before = pa.total_allocated_bytes()
    good, lost = consumer.multifetch([FetchRequest("t", 0, 3), FetchRequest("t", 1, 0)])
    error = lost.error
    assert offsets(good) == [3]
    assert pa.total_allocated_bytes() - before >= MEGABYTES_20
    del good, lost
    assert pa.total_allocated_bytes() - before < MEGABYTES_20
    assert error is not None
