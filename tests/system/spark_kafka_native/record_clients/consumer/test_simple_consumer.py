"""The simple consumer on brokers that fail as a test says."""

import dataclasses
import re
from typing import Any

import pytest
from crc32c import crc32c

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.stateless_fetch import FetchPosition, fetch_records
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from spark_kafka_native._protocol.messages.fetch import FetchRequest as FetchMessage
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.control import ControlType
from spark_kafka_native.clients import (
    BatchTooLarge,
    BrokerUnreachable,
    ClientClosed,
    ConfigError,
    CorruptRecords,
    FetchRequest,
    FetchResult,
    KafkaError,
    NoSuchPartition,
    NotAReplica,
    OffsetOutOfRange,
    TopicPartition,
)
from tests.support.records.record_batches import batch_of, marker
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Refuse, Respond, Step, Throttle
from tests.system.spark_kafka_native.record_clients.consumer.conftest import OpenConsumer

BATCH_BYTES = len(batch_of([b"value 0 of partition 0"]))


@pytest.fixture(autouse=True)
def records(brokers: ScriptedCluster) -> None:
    """Three batches of one record in each partition of ``t``."""
    for partition in range(4):
        for number in range(3):
            brokers.partition("t", partition).append(batch_of([b"value %d of partition %d" % (number, partition)]))


def offsets(result: FetchResult) -> list[int]:
    return [record.offset for record in result.records]


def requested(brokers: ScriptedCluster) -> list[tuple[int, list[int]]]:
    """The Fetch requests: broker and partitions."""
    return [
        (broker, [part.partition for topic in request.topics for part in topic.partitions])
        for broker, request, _ in brokers.received
        if isinstance(request, FetchMessage)
    ]


# --- fetch


def test_records_from_an_offset_on(open_consumer: OpenConsumer) -> None:
    result = open_consumer().fetch(FetchRequest("t", 2, 1))
    assert [(record.topic, record.partition, record.offset, record.value) for record in result.records] == [
        ("t", 2, 1, b"value 1 of partition 2"),
        ("t", 2, 2, b"value 2 of partition 2"),
    ]
    assert (result.next_offset, result.high_watermark, result.last_stable_offset, result.log_start_offset) == (
        3,
        3,
        3,
        0,
    )
    assert result.to_arrow().column("offset").to_pylist() == [1, 2]


def test_no_records_at_the_end_of_the_log(open_consumer: OpenConsumer) -> None:
    result = open_consumer().fetch(FetchRequest("t", 2, 3))
    assert (result.records, result.next_offset) == ([], 3)


def test_max_bytes_bounds_the_batches_and_the_first_one_is_whole(open_consumer: OpenConsumer) -> None:
    consumer = open_consumer()
    assert offsets(consumer.fetch(FetchRequest("t", 0, 0, 2 * BATCH_BYTES))) == [0, 1]
    assert offsets(consumer.fetch(FetchRequest("t", 0, 1, 1))) == [1]
    assert offsets(open_consumer(fetch_size=BATCH_BYTES).fetch(FetchRequest("t", 0, 0))) == [0]


def test_markers_and_aborted_records_are_passed_over(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    partition = brokers.partition("u")
    partition.append(batch_of([b"aborted"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    partition.put(marker(ControlType.ABORT, 7), 1)
    partition.aborted.append(AbortedTransaction(producer_id=7, first_offset=0))
    committed = open_consumer(isolation_level="read_committed").fetch(FetchRequest("u", 0, 0))
    assert (committed.records, committed.next_offset) == ([], 2)
    uncommitted = open_consumer().fetch(FetchRequest("u", 0, 0))
    assert ([record.value for record in uncommitted.records], uncommitted.next_offset) == ([b"aborted"], 2)


def test_an_offset_out_of_range_is_an_error_with_the_range(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    brokers.partition("t").log_start = 1
    with pytest.raises(OffsetOutOfRange, match=re.escape("t-0: offset 0 is not in the log, which has 1 to 3")):
        open_consumer().fetch(FetchRequest("t", 0, 0))
    with pytest.raises(OffsetOutOfRange, match=re.escape("t-0: offset 4 is not in the log")):
        open_consumer().fetch(FetchRequest("t", 0, 4))


def test_a_leader_that_does_not_know_its_end_yet_is_asked_again(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    brokers.script(FetchMessage, Refuse(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert offsets(open_consumer().fetch(FetchRequest("t", 0, 2))) == [2]
    brokers.script(FetchMessage, Refuse(ErrorCode.OFFSET_OUT_OF_RANGE))
    brokers.script(ListOffsetsRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        open_consumer().fetch(FetchRequest("t", 0, 2))


def test_topics_and_partitions_that_do_not_exist_are_errors(open_consumer: OpenConsumer) -> None:
    with pytest.raises(NoSuchPartition, match="t-4 does not exist: the topic has 4 partitions"):
        open_consumer().fetch(FetchRequest("t", 4, 0))
    with pytest.raises(KafkaError, match="topic missing"):
        open_consumer().fetch(FetchRequest("missing", 0, 0))


# --- errors that pass


@pytest.mark.parametrize(
    "step",
    [
        *BROKEN_CONNECTIONS,
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.FENCED_LEADER_EPOCH),
        Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
        Respond(lambda _: FetchResponse()),
        Throttle(5),
    ],
    ids=str,
)
def test_transient_errors_are_retried(brokers: ScriptedCluster, open_consumer: OpenConsumer, step: Step) -> None:
    brokers.script(FetchMessage, *[step] * 3)
    assert offsets(open_consumer().fetch(FetchRequest("t", 0, 0))) == [0, 1, 2]
    assert len(requested(brokers)) == 4


def test_a_moved_leader_is_found(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer()
    consumer.fetch(FetchRequest("t", 0, 0))
    brokers.move_leader("t", 0, 2)
    assert offsets(consumer.fetch(FetchRequest("t", 0, 0))) == [0, 1, 2]
    assert requested(brokers)[-1] == (2, [0])


def test_transient_errors_are_raised_after_the_timeout(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer(default_api_timeout_ms=300)
    consumer.fetch(FetchRequest("t", 0, 0))
    brokers.script(FetchMessage, *[Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 10_000)
    with pytest.raises(KafkaError, match=r"t-0: .*NOT_LEADER_OR_FOLLOWER"):
        consumer.fetch(FetchRequest("t", 0, 0))
    brokers.close()
    with pytest.raises(BrokerUnreachable):
        consumer.fetch(FetchRequest("t", 0, 0))


# --- batches that cannot be read


def test_a_damaged_batch_is_requested_once_more_and_then_an_error(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    partition = brokers.partition("t")
    partition.batches[1] = partition.batches[1][:-1] + b"?"
    consumer = open_consumer()
    before = consumer.fetch(FetchRequest("t", 0, 0))
    assert (offsets(before), before.next_offset) == ([0], 1), "records before the damaged batch are returned"
    with pytest.raises(CorruptRecords, match="t-0: records at offset 1 are corrupt"):
        consumer.fetch(FetchRequest("t", 0, 1))
    assert len(requested(brokers)) == 3
    assert offsets(consumer.fetch(FetchRequest("t", 0, 2))) == [2]


def test_a_batch_damaged_on_the_way_is_read_the_second_time(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    damaged = batch_of([b"damaged"])
    damaged[-1] ^= 1
    brokers.script(FetchMessage, Respond(lambda request: response_of(request, damaged)))
    assert offsets(open_consumer().fetch(FetchRequest("t", 0, 0))) == [0, 1, 2]


def test_a_batch_beyond_the_limit_of_decompressed_bytes_is_an_error(brokers: ScriptedCluster) -> None:
    brokers.partition("u").append(batch_of([b"x" * 2000], compression=CompressionType.GZIP))
    partition = TopicPartition("u", 0)
    with Cluster(brokers.config()) as cluster:
        position = FetchPosition(0, 1000)
        found = fetch_records(cluster, {partition: position}, cluster.deadline(), max_decompressed_bytes=1000)
    assert isinstance(found[partition], BatchTooLarge)
    assert "u-0: the record batch at offset 0 decompresses to more than 1000 bytes" in str(found[partition])


def test_records_before_several_damaged_batches_are_returned(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    malformed = batch_of([b"malformed"])
    malformed[61] ^= 0xFF  # the length of its record
    malformed[17:21] = crc32c(memoryview(malformed)[21:]).to_bytes(4, "big")
    damaged = batch_of([b"damaged"])
    damaged[-1] ^= 1
    for batch in (batch_of([b"good"]), malformed, damaged):
        brokers.partition("u").append(batch)
    result = open_consumer().fetch(FetchRequest("u", 0, 0))
    assert (offsets(result), result.next_offset) == ([0], 1)
    with pytest.raises(CorruptRecords, match="u-0: records at offset 1 are corrupt"):
        open_consumer().fetch(FetchRequest("u", 0, 1))


def test_a_damaged_batch_is_requested_over_another_connection(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    damaged = batch_of([b"damaged"])
    damaged[-1] ^= 1
    consumer = open_consumer()
    consumer.metadata(["t"])
    consumer.fetch(FetchRequest("t", 0, 3))
    before = brokers.brokers[1].accepted
    brokers.script(FetchMessage, Respond(lambda request: response_of(request, damaged)))
    assert offsets(consumer.fetch(FetchRequest("t", 0, 0))) == [0, 1, 2]
    assert brokers.brokers[1].accepted == before + 1


def response_of(request: Any, records: bytes | bytearray) -> FetchResponse:
    """A response with these records for the only partition of a request."""
    (topic,) = request.topics
    part = PartitionData(partition_index=topic.partitions[0].partition, records=bytes(records), high_watermark=3)
    return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(part,)),))


def test_a_batch_that_an_old_broker_cuts_off_is_requested_with_its_size(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    def cut_off(request: FetchMessage) -> FetchResponse:
        wanted = request.topics[0].partitions[0]
        return response_of(request, b"".join(brokers.partition("t").batches)[: wanted.partition_max_bytes])

    brokers.script(FetchMessage, *[Respond(cut_off)] * 10)
    assert offsets(open_consumer().fetch(FetchRequest("t", 0, 0, 5))) == [0]
    sizes = [request.topics[0].partitions[0].partition_max_bytes for request in brokers.requests(FetchMessage)]
    assert sizes == [5, 12, BATCH_BYTES]


def test_bytes_that_are_no_batch_are_an_error(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.script(FetchMessage, *[Respond(lambda request: response_of(request, b"\xff" * 40))] * 2)
    with pytest.raises(CorruptRecords, match="t-0: records at offset 0 are corrupt"):
        open_consumer().fetch(FetchRequest("t", 0, 0))


# --- multifetch


def test_each_broker_gets_one_request_and_results_have_the_order_of_the_requests(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    wanted = [FetchRequest("t", partition, partition % 3) for partition in (3, 0, 2, 1)]
    results = open_consumer().multifetch(wanted)
    assert [result.request for result in results] == wanted
    assert [result.records[0].value for result in results] == [
        b"value %d of partition %d" % (request.offset, request.partition) for request in wanted
    ]
    assert sorted(requested(brokers)) == [(1, [0, 2]), (2, [3, 1])]


def test_a_partition_requested_several_times_has_all_its_results(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    wanted = [FetchRequest("t", 0, offset, 1) for offset in (2, 0, 1)]
    assert [offsets(result) for result in open_consumer().multifetch(wanted)] == [[2], [0], [1]]
    assert requested(brokers) == [(1, [0])] * 3


def test_partitions_that_a_full_response_leaves_out_are_requested_again(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    consumer = open_consumer(fetch_max_bytes=BATCH_BYTES)
    results = consumer.multifetch([FetchRequest("t", 0, 0, 1), FetchRequest("t", 2, 0, 1), FetchRequest("t", 2, 3)])
    assert [offsets(result) for result in results] == [[0], [0], []]
    assert requested(brokers) == [(1, [0, 2]), (1, [2]), (1, [2])]


def test_the_error_of_a_partition_is_in_its_result_alone(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.partition("t", 1).log_start = 2
    wanted = [FetchRequest("t", 0, 0), FetchRequest("t", 1, 0), FetchRequest("t", 9, 0), FetchRequest("x", 0, 0)]
    good, out_of_range, missing, unknown = open_consumer().multifetch(wanted)
    assert (good.error, offsets(good)) == (None, [0, 1, 2])
    assert isinstance(out_of_range.error, OffsetOutOfRange)
    assert isinstance(missing.error, NoSuchPartition)
    assert unknown.error is not None
    assert unknown.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for failed in (out_of_range, missing, unknown):
        for read in ("records", "next_offset", "high_watermark", "last_stable_offset", "log_start_offset"):
            with pytest.raises(KafkaError) as raised:
                getattr(failed, read)
            assert raised.value is failed.error


def test_no_requests_have_no_results(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    assert open_consumer().multifetch([]) == []
    assert brokers.received == []


def test_partitions_that_were_not_requested_are_ignored(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    def with_another(request: FetchMessage) -> FetchResponse:
        response = response_of(request, batch_of([b"requested"]))
        (topic,) = response.responses
        others = tuple(PartitionData(partition_index=number, records=batch_of([b"other"])) for number in (1, 9))
        return dataclasses.replace(
            response, responses=(dataclasses.replace(topic, partitions=(*topic.partitions, *others)),)
        )

    brokers.script(FetchMessage, Respond(with_another), broker=1)
    first, second = open_consumer().multifetch([FetchRequest("t", 0, 0), FetchRequest("t", 1, 0)])
    assert [record.value for record in first.records] == [b"requested"]
    assert offsets(second) == [0, 1, 2]


# --- a given broker


def test_a_given_broker_is_asked_instead_of_the_leaders(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.partition("t").replicas = (1, 2)
    consumer = open_consumer(broker_id=2)
    assert offsets(consumer.fetch(FetchRequest("t", 0, 1))) == [1, 2]
    assert consumer.offsets_before("t", 0, consumer.LATEST_TIME, 2) == [3, 0]
    with pytest.raises(OffsetOutOfRange, match="which has 0 to 3"):
        consumer.fetch(FetchRequest("t", 0, 9))
    for kind in (FetchMessage, ListOffsetsRequest):
        assert set(brokers.nodes(kind)) == {2}
        assert {request.replica_id for request in brokers.requests(kind)} == {-2}
    brokers.partition("t").leader = -1
    assert offsets(open_consumer(broker_id=2).fetch(FetchRequest("t", 0, 1))) == [1, 2], "without a leader, too"


def test_a_broker_without_the_partition_is_an_error(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer(broker_id=2)
    for read in (
        lambda: consumer.fetch(FetchRequest("t", 0, 0)),
        lambda: consumer.offsets_before("t", 0, consumer.LATEST_TIME),
    ):
        with pytest.raises(NotAReplica, match="broker 2 has no replica of t-0"):
            read()
    brokers.partition("t").replicas = (1, 2)
    assert offsets(consumer.fetch(FetchRequest("t", 0, 1))) == [1, 2], "it has one now"


def test_a_topic_that_does_not_exist_is_an_error_at_once_with_a_given_broker(open_consumer: OpenConsumer) -> None:
    consumer = open_consumer(broker_id=2)
    for read in (
        lambda: consumer.fetch(FetchRequest("missing", 0, 0)),
        lambda: consumer.offsets_before("missing", 0, consumer.LATEST_TIME),
    ):
        with pytest.raises(KafkaError, match="topic missing"):
            read()


def test_a_given_broker_that_is_away_is_tried_until_the_timeout(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    brokers.partition("t").replicas = (1, 3)
    with pytest.raises(KafkaError, match="broker 3 is not in the cluster; its brokers are 1, 2"):
        open_consumer(broker_id=3, default_api_timeout_ms=200).fetch(FetchRequest("t", 0, 0))


def test_a_given_broker_needs_the_addresses_of_brokers(open_consumer: OpenConsumer) -> None:
    with pytest.raises(ConfigError, match=r"broker\.addresses: bootstrap cannot be combined with broker_id"):
        open_consumer(broker_id=2, broker_addresses="bootstrap")


def test_a_leader_that_sends_its_readers_elsewhere_is_an_error(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    def elsewhere(request: FetchMessage) -> FetchResponse:
        part = PartitionData(partition_index=0, preferred_read_replica=2, high_watermark=3)
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(part,)),))

    brokers.script(FetchMessage, Respond(elsewhere))
    with pytest.raises(KafkaError, match="t-0: its leader has its records read from broker 2; set broker_id=2"):
        open_consumer().fetch(FetchRequest("t", 0, 0))


# --- what requests carry


def test_requests_carry_the_limits_and_the_epoch(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.move_leader("t", 0, 2)
    consumer = open_consumer(
        fetch_max_wait_ms=17, fetch_min_bytes=5, fetch_max_bytes=2**31 - 1, isolation_level="read_committed"
    )
    consumer.fetch(FetchRequest("t", 0, 1, 2**31 - 1))
    (request,) = brokers.requests(FetchMessage)
    assert (request.max_wait_ms, request.min_bytes, request.isolation_level) == (17, 5, 1)
    (part,) = request.topics[0].partitions
    assert (part.fetch_offset, part.current_leader_epoch) == (1, 1)
    assert request.max_bytes == part.partition_max_bytes == 2**28, "a response must fit a frame"


def test_a_broker_waits_for_records_beside_the_request_timeout(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    consumer = open_consumer(fetch_max_wait_ms=600, request_timeout_ms=300)
    assert consumer.fetch(FetchRequest("t", 0, 3)).records == []
    short = open_consumer(fetch_max_wait_ms=600, default_api_timeout_ms=400)
    assert short.fetch(FetchRequest("t", 0, 3)).records == []
    assert [0 < request.max_wait_ms <= 600 for request in brokers.requests(FetchMessage)] == [True, True]


def test_checksums_are_compared_unless_check_crcs_is_false(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    damaged = batch_of([b"damaged"])
    damaged[17] ^= 1
    brokers.partition("u").append(damaged)
    with pytest.raises(CorruptRecords):
        open_consumer().fetch(FetchRequest("u", 0, 0))
    assert offsets(open_consumer(check_crcs="false").fetch(FetchRequest("u", 0, 0))) == [0]


def test_all_offsets_are_those_of_uncommitted_records(brokers: ScriptedCluster, open_consumer: OpenConsumer) -> None:
    brokers.partition("t").last_stable_offset = 1
    consumer = open_consumer(isolation_level="read_committed")
    assert consumer.offsets_before("t", 0, consumer.LATEST_TIME) == [3]
    result = consumer.multifetch([FetchRequest("t", 0, 1), FetchRequest("t", 2, 0)])[0]
    assert (result.records, result.next_offset, result.last_stable_offset) == ([], 1, 1)
    assert requested(brokers) == [(1, [0, 2])], "nothing is left out before the last stable offset"


def test_committed_offsets_are_stable_for_readers_of_committed_records(
    brokers: ScriptedCluster, open_consumer: OpenConsumer
) -> None:
    for level in ("read_uncommitted", "read_committed"):
        open_consumer(isolation_level=level).committed_offsets("g", [("t", 0)])
    assert [request.require_stable for request in brokers.requests(OffsetFetchRequest)] == [False, True]


# --- the end


def test_a_closed_consumer_is_an_error(open_consumer: OpenConsumer) -> None:
    consumer = open_consumer()
    with consumer:
        consumer.fetch(FetchRequest("t", 0, 0))
    with pytest.raises(ClientClosed, match="the consumer is closed"):
        consumer.fetch(FetchRequest("t", 0, 0))
    consumer.close()
