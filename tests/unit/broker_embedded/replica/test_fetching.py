import asyncio
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import VirtualTimers
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.fetch_sessions import FetchedPartition
from broker_embedded._replica.fetching import DEBUGGER, FetchLimits, PartitionRead, Reading
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchPartition
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver, batch

ONE = len(batch(b"x" * 1000))
LIMITS = FetchLimits(max_bytes=1 << 20, min_bytes=1)
NONE = ErrorCode.NONE


@pytest.fixture
def broker(broker: BrokerDriver) -> BrokerDriver:
    """Topic t: three batches in partition 0, two in 1, none in 2."""
    broker.create("t", partitions=3)
    for index in (0, 1, 0, 1, 0):
        broker.produce("t", batch(b"x" * 1000), index)
    return broker


def fetched(
    index: int, offset: int = 0, *, topic: str | None = "t", topic_id: int = 0, **fields: Any
) -> FetchedPartition:
    fields.setdefault("partition_max_bytes", 1 << 20)
    part = FetchPartition(partition=index, fetch_offset=offset, **fields)
    return FetchedPartition(key=(topic or "?", index), topic=topic, topic_id=UUID(int=topic_id), request=part)


def read_partitions(broker: BrokerDriver, *partitions: FetchedPartition, **limits: Any) -> Reading:
    reading = Reading(broker.broker.partitions, partitions, LIMITS._replace(**limits))
    reading.read()
    return reading


def sizes(reading: Reading) -> list[int]:
    return [read.size for read in reading.results]


def codes(reading: Reading) -> list[ErrorCode]:
    return [ErrorCode.of(read.error_code) for read in reading.results]


def test_partitions_are_read_in_their_order(broker: BrokerDriver) -> None:
    reading = read_partitions(broker, fetched(1), fetched(2), fetched(0, 1))
    assert sizes(reading) == [2 * ONE, 0, 2 * ONE]
    assert [read.high_watermark for read in reading.results] == [2, 0, 3]
    assert [read.fetched.request.partition for read in reading.results] == [1, 2, 0]
    assert reading.is_done


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (0, [ONE, 0]),
        (1, [ONE, 0]),
        (ONE, [ONE, 0]),
        (3 * ONE + 11, [3 * ONE, 0]),
        (3 * ONE + 13, [3 * ONE, 0]),
        (4 * ONE - 1, [3 * ONE, 0]),
        (4 * ONE, [3 * ONE, ONE]),
        (4 * ONE + 5, [3 * ONE, ONE + 5]),
    ],
)
def test_only_the_very_first_batch_is_whole_whatever_the_limit(
    broker: BrokerDriver, max_bytes: int, expected: list[int]
) -> None:
    assert sizes(read_partitions(broker, fetched(0), fetched(1), max_bytes=max_bytes)) == expected


def test_before_v3_even_the_first_batch_is_cut(broker: BrokerDriver) -> None:
    parts = fetched(0, partition_max_bytes=100), fetched(1, partition_max_bytes=5)
    assert sizes(read_partitions(broker, *parts, cuts_first=True)) == [100, 5]
    assert sizes(read_partitions(broker, *parts)) == [ONE, 0]


def test_unknown_partitions_come_last_and_do_not_end_the_wait_for_others(broker: BrokerDriver) -> None:
    reading = read_partitions(broker, fetched(9), fetched(0, topic="u"), fetched(2), fetched(0, topic=None))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(reading) == [NONE, missing, missing, ErrorCode.UNKNOWN_TOPIC_ID]
    assert [read.is_missing for read in reading.results] == [False, True, True, True]
    assert not reading.is_done
    assert read_partitions(broker, fetched(9)).is_done


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (fetched(0, 4), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetched(0, current_leader_epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetched(0, last_fetched_epoch=1), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_errors_are_answered_at_once_with_offsets_of_minus_1(
    broker: BrokerDriver, part: FetchedPartition, code: ErrorCode
) -> None:
    reading = read_partitions(broker, fetched(2), part)
    assert codes(reading) == [NONE, code]
    bad = reading.results[1]
    assert (bad.high_watermark, bad.last_stable_offset, bad.log_start_offset, bad.size) == (-1, -1, -1, 0)
    assert reading.is_done


def test_a_fetch_by_topic_id_checks_the_id(broker: BrokerDriver) -> None:
    right = broker.topic_id("t").int
    assert codes(read_partitions(broker, fetched(0, topic_id=right), by_id=True)) == [NONE]
    assert codes(read_partitions(broker, fetched(0, topic_id=5), by_id=True)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert codes(read_partitions(broker, fetched(0, topic_id=5))) == [NONE]


def test_an_error_that_is_over_leaves_no_trace(broker: BrokerDriver) -> None:
    reading = read_partitions(broker, fetched(2, 1))
    assert codes(reading) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    broker.produce("t", batch(b"x" * 1000), 2)
    reading.read()
    (read,) = reading.results
    assert (read.error_code, read.high_watermark, read.size) == (NONE, 1, 0)
    assert not reading.is_done


def test_a_diverging_epoch_is_answered_at_once(broker: BrokerDriver) -> None:
    reading = read_partitions(broker, fetched(2), fetched(0, 5, last_fetched_epoch=0))
    read = reading.results[1]
    assert read.diverging_epoch is not None
    assert (read.diverging_epoch.epoch, read.diverging_epoch.end_offset) == (0, 3)
    assert (read.error_code, read.high_watermark, read.size, read.diverges) == (NONE, 3, 0, True)
    assert reading.is_done


def test_fetches_of_followers_are_refused_and_those_of_debuggers_served(broker: BrokerDriver) -> None:
    assert codes(read_partitions(broker, fetched(0), replica_id=3)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert sizes(read_partitions(broker, fetched(0), replica_id=DEBUGGER)) == [3 * ONE]


def test_read_committed_fetches_list_the_aborted_transactions(broker: BrokerDriver) -> None:
    assert [read.aborted for read in read_partitions(broker, fetched(0), committed=True).results] == [()]
    assert [read.aborted for read in read_partitions(broker, fetched(0)).results] == [None]


def test_an_old_format_is_made_of_what_was_read(broker: BrokerDriver) -> None:
    reading = read_partitions(broker, fetched(0), fetched(2))
    for read in reading.to_convert:
        reading.convert(read, 1)
    first, second = reading.results
    assert isinstance(first.records, bytes)
    assert first.records[16] == 1
    assert (second.records, first.size) == ((), 3 * ONE)


def test_records_that_an_old_format_cannot_hold_are_an_error(broker: BrokerDriver) -> None:
    broker.passing_for("3.9")
    broker.create("new", message_downconversion_enable="false")
    broker.produce("new", batch(b"x"))
    reading = read_partitions(broker, fetched(0, topic="new"))
    for read in reading.to_convert:
        reading.convert(read, 0)
    assert codes(reading) == [ErrorCode.UNSUPPORTED_VERSION]


def test_waiting_looks_again_at_what_has_changed_alone(broker: BrokerDriver) -> None:
    async def wait_for_records() -> list[PartitionRead]:
        delayed = DelayedOperations(VirtualTimers(ManualClock()))
        reading = read_partitions(broker, fetched(2), fetched(0, 3), min_bytes=2 * ONE)
        task = asyncio.create_task(reading.wait(delayed, 1000))
        await asyncio.sleep(0)
        for _ in range(2):
            assert not task.done()
            broker.broker.partitions.get("t", 2).append(batch(b"x" * 1000))
            delayed.changed(TopicPartition("t", 2))
            await asyncio.sleep(0)
        await task
        return reading.results

    assert [read.size for read in asyncio.run(wait_for_records())] == [2 * ONE, 0]
