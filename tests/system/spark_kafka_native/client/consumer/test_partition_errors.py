import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import (
    CorruptRecords,
    FetchTimeout,
    LogTruncated,
    NoSuchPartition,
    OffsetOutOfRange,
)
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import BROKEN_FETCHES, LAST, ROWS, fill, offsets_of
from tests.support.scripted.security import Guard
from tests.support.scripted.several_partitions import ALL, PARTITIONS, brokers_of_two_leaders, ranges, read, tp, whole
from tests.support.scripted.steps import HalfFrame, Pass, Refuse, Respond, Silent, Step

brokers = brokers_of_two_leaders


def changed(brokers: ScriptedCluster, number: int, change: Callable[[PartitionData], PartitionData | None]) -> Respond:
    """A response with a batch of every partition, but another part of one of them."""

    def respond(request: FetchRequest) -> Response:
        parts = []
        for wanted in request.topics[0].partitions:
            records = brokers.partition("t", wanted.partition).read(wanted.fetch_offset, 1)
            part: PartitionData | None = PartitionData(partition_index=wanted.partition, records=records)
            if part is not None and wanted.partition == number:
                part = change(part)
            parts += [] if part is None else [part]
        topic = FetchableTopicResponse(
            topic=request.topics[0].topic, topic_id=request.topics[0].topic_id, partitions=tuple(parts)
        )
        return FetchResponse(responses=(topic,))

    return Respond(respond)


CHANGES: dict[str, Callable[[PartitionData], PartitionData | None]] = {
    "missing": lambda part: None,
    "error": lambda part: replace(part, error_code=ErrorCode.KAFKA_STORAGE_ERROR, records=b""),
    "preferred": lambda part: replace(part, preferred_read_replica=2, records=b""),
    "no batch": lambda part: replace(part, records=b"\0" * 70),
    "cut off": lambda part: replace(part, records=bytes(part.records or b"")[:100]),  # type: ignore[arg-type]
    # At first, it would not be.
    "before": lambda part: replace(part, records=bytes(batch_of([b"0"]))),
}


@pytest.mark.parametrize(
    ("change", "at_first"), [*((change, False) for change in CHANGES), *((change, True) for change in CHANGES)][:-1]
)
def test_an_error_of_one_partition_is_retried_while_the_others_are_read(
    brokers: ScriptedCluster, cluster: Cluster, change: str, at_first: bool
) -> None:
    brokers.script(FetchRequest, *[] if at_first else [Pass()], changed(brokers, 2, CHANGES[change]), broker=1)
    reading = read(cluster, ALL)
    assert reading.offsets == whole(ALL)
    assert not reading.errors


@pytest.mark.parametrize("after", [0, 1])
def test_a_partition_whose_log_diverges_fails_alone(brokers: ScriptedCluster, cluster: Cluster, after: int) -> None:
    def diverge(part: PartitionData) -> PartitionData:
        return replace(part, diverging_epoch=EpochEndOffset(epoch=0, end_offset=7), records=b"")

    brokers.script(FetchRequest, *[Pass()] * after, changed(brokers, 2, diverge), broker=1)
    reading = read(cluster, ALL)
    assert isinstance(reading.errors[2], LogTruncated)
    assert reading.offsets.pop(tp(2), []) == list(range(reading.positions[2]))
    assert reading.offsets == whole(ranges([0, 1, 3, 4, 5]))


def test_a_partition_without_replicas_that_have_the_offset_fails_alone(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.partition("t", 2).log_start = 400
    reading = read(cluster, ALL)
    assert isinstance(reading.errors[2], OffsetOutOfRange)
    assert reading.positions == {2: 0}
    assert reading.offsets == whole(ranges([0, 1, 3, 4, 5]))


def test_a_failed_partition_continues_with_the_range_that_it_is_assigned(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.partition("t", 2).log_start = 400
    found: dict[TopicPartition, list[int]] = {}
    with row_fetcher(cluster, ALL) as fetcher:
        with pytest.raises(OffsetOutOfRange):
            take(fetcher, found)
        with pytest.raises(OffsetOutOfRange):
            take(fetcher, found)
        assert fetcher.failed == tp(2)
        fetcher.assign(*ranges([2], 400, LAST))
        take(fetcher, found)
    assert found == whole(ranges([0, 1, 3, 4, 5]) + ranges([2], 400, LAST))


def take(fetcher: Fetcher[pa.RecordBatch], found: dict[TopicPartition, list[int]]) -> None:
    for partition, records in fetcher:
        found.setdefault(partition, []).extend(offsets_of([records]))


RETRIABLE: list[Step] = [
    *BROKEN_FETCHES,
    Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Refuse(ErrorCode.OFFSET_OUT_OF_RANGE),
    Refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("step", RETRIABLE, ids=str)
def test_an_error_of_one_leader_neither_loses_nor_repeats_a_row(
    brokers: ScriptedCluster, cluster: Cluster, step: Step, after: int
) -> None:
    brokers.script(FetchRequest, *[Pass()] * after, *[step] * 3, broker=1)
    wanted = ranges(range(PARTITIONS), 7, LAST - 7)
    assert read(cluster, wanted).offsets == whole(wanted)


def test_a_partition_whose_leader_moves_is_read_from_the_next_one(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found: dict[TopicPartition, list[int]] = {}
    with row_fetcher(cluster, ALL, target_rows=ROWS) as fetcher:
        for number, (partition, records) in enumerate(fetcher):
            found.setdefault(partition, []).extend(offsets_of([records]))
            if number == 0:
                brokers.move_leader("t", 4, to=2)
    assert found == whole(ALL)
    assert fetcher.metrics.retries == 1


@pytest.mark.parametrize("at", [70, 17, 16, 8, 58], ids=["payload", "crc", "magic", "length", "count"])
@pytest.mark.parametrize("number", [0, 1, 4, 19])
@pytest.mark.usefixtures("each_kernel")
def test_a_corrupt_batch_fails_its_partition_alone(
    brokers: ScriptedCluster, cluster: Cluster, number: int, at: int
) -> None:
    batches = brokers.partition("t", 2).batches
    batches[number] = batches[number][:at] + bytes([batches[number][at] ^ 1]) + batches[number][at + 1 :]
    reading = read(cluster, ALL)
    assert isinstance(reading.errors[2], CorruptRecords)
    assert reading.positions == {2: number * ROWS}
    assert reading.offsets.pop(tp(2), []) == list(range(number * ROWS))
    assert reading.offsets == whole(ranges([0, 1, 3, 4, 5]))


def test_a_partition_without_records_times_out_after_the_others_are_read(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    wanted = ranges([0, 2], 0, LAST) + ranges([4], LAST - 10, LAST + 5)
    reading = read(cluster, wanted, timeout_ms=1_000)
    assert isinstance(reading.errors[4], FetchTimeout)
    assert reading.positions == {4: LAST}
    assert reading.offsets == whole(ranges([0, 2]) + ranges([4], LAST - 10, LAST))


def test_a_partition_that_waits_for_records_does_not_delay_another(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Partition 4 has no records yet: the Fetch is answered at once all the same, because partition 0 has some."""
    with row_fetcher(cluster, [*ranges([0]), *ranges([4], LAST, LAST + 5)]) as fetcher:
        rows = iter(fetcher)
        unread = LAST
        while unread:
            unread -= next(rows)[1].num_rows
        with brokers.state.lock:
            fill(brokers.partition("t", 4), 1)
            brokers.state.lock.notify_all()
        assert sum(records.num_rows for _, records in rows) == 5


def test_records_beyond_the_last_stable_offset_time_out(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 2).last_stable_offset = 0
    reading = read(cluster, ranges([0, 2]), isolation=1, timeout_ms=600)
    assert "the last stable offset 0" in str(reading.errors[2])
    assert reading.offsets == whole(ranges([0]))


def test_a_silent_broker_does_not_delay_the_partitions_of_another(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, *[Silent()] * 3, broker=1)
    reading = read(cluster, ALL, timeout_ms=600)
    assert reading.positions == {0: 0, 2: 0, 4: 0}
    assert all("no response to Fetch" in str(error) for error in reading.errors.values())
    assert reading.offsets == whole(ranges([1, 3, 5]))


def test_a_broker_that_stops_in_the_middle_of_a_response_does_not_delay_another(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.script(FetchRequest, HalfFrame(300, stays_open=True), broker=1)
    unread = {tp(1): LAST, tp(3): LAST}
    begun = time.monotonic()
    with row_fetcher(cluster, ranges([0, 1, 3])) as fetcher:
        rows = iter(fetcher)
        while any(unread.values()):
            partition, records = next(rows)
            unread[partition] -= records.num_rows
    assert time.monotonic() - begun < 10


def test_partitions_without_a_leader_fail_after_the_others_are_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 2).leader = 9
    reading = read(cluster, ranges([0, 1, 2, 77]), timeout_ms=1_000)
    assert isinstance(reading.errors[77], NoSuchPartition)
    assert "t-2 has no leader" in str(reading.errors[2])
    assert reading.offsets == whole(ranges([0, 1]))


def test_a_topic_that_does_not_exist_is_named(cluster: Cluster) -> None:
    wanted = [*ranges([0]), PartitionRange(partition=tp(0, "u"), from_offset=0, until_offset=1)]
    with row_fetcher(cluster, wanted) as fetcher, pytest.raises(KafkaError, match="topic u") as caught:
        list(fetcher)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetcher.failed == tp(0, "u")


def test_a_leader_that_stays_unreachable_fails_its_partitions_and_no_other(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    cluster.leaders([each.partition for each in ALL])
    brokers.brokers[1].stop()
    reading = read(cluster, ALL, timeout_ms=1_000)
    assert reading.positions == {0: 0, 2: 0, 4: 0}
    assert all(isinstance(error, BrokerUnreachable) for error in reading.errors.values())
    assert reading.offsets == whole(ranges([1, 3, 5]))


def test_a_wrong_password_is_not_retried() -> None:
    guard = Guard(mechanisms=("PLAIN",), users={"alice": "right"})
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{module} required username="alice" password="wrong";',
    }
    with (
        ScriptedCluster(topics={"t": 2}, guard=guard) as brokers,
        Cluster(brokers.config(**login)) as cluster,
        row_fetcher(cluster, ranges([0, 1])) as fetcher,
        pytest.raises(AuthenticationFailed),
    ):
        list(fetcher)
