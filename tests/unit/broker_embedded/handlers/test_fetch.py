import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._metadata.image import TopicImage
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import NODE, BrokerDriver, batch, fetch_request, values_in
from tests.support.records.message_sets import messages_in

NAMED = range(4, 13)
BY_ID = range(13, 19)
LONG_MS = 20_000


def code(data: PartitionData) -> ErrorCode:
    return ErrorCode.of(data.error_code)


def size(data: PartitionData) -> int:
    assert isinstance(data.records, memoryview)
    return len(data.records)


def many(
    broker: BrokerDriver, wanted: dict[str, dict[int, int]], *, max_partition: int = 1 << 20, **others: Any
) -> FetchRequest:
    """A Fetch from several partitions: topic -> partition -> offset."""
    return FetchRequest(
        topics=tuple(
            FetchTopic(
                topic=name,
                partitions=tuple(
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_partition)
                    for index, offset in parts.items()
                ),
            )
            for name, parts in wanted.items()
        ),
        **others,
    )


def by_id(topic_id: UUID, **others: Any) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=(part,)),), **others)


@pytest.mark.parametrize("version", NAMED)
def test_records_in_every_version_with_names(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0", b"1"))
    broker.produce("t", batch(b"2"))
    data = broker.fetch("t", 0, version=version)
    assert values_in(data) == values_in(broker.fetch("t", 1, version=version)) == [b"0", b"1", b"2"]
    assert values_in(broker.fetch("t", 2, replica_id=-2, version=version)) == [b"2"], "a debugging consumer"
    assert (data.high_watermark, data.last_stable_offset) == (3, 3)
    assert data.aborted_transactions is None
    if version >= 5:
        assert data.log_start_offset == 0
    assert values_in(broker.fetch("t", 2, version=version)) == [b"2"]
    assert values_in(broker.fetch("t", 3, version=version)) == []


@pytest.mark.parametrize("version", BY_ID)
def test_records_by_topic_id(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0"))
    topic_id = broker.topic_id("t")
    (topic,) = broker.ask(by_id(topic_id), version).responses
    assert topic.topic_id == topic_id
    assert values_in(topic.partitions[0]) == [b"0"]
    (topic,) = broker.ask(by_id(UUID(int=5)), version).responses
    assert code(topic.partitions[0]) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_offsets_out_of_range(broker: BrokerDriver, offset: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0"))
    data = broker.fetch("t", offset, max_wait_ms=LONG_MS, min_bytes=1)
    assert code(data) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.log_start_offset, size(data)) == (-1, -1, 0)


def test_missing_topics_and_partitions(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0"))
    response = broker.ask(many(broker, {"t": {0: 0, 7: 0}, "u": {0: 0}}), 11)
    assert [[code(part) for part in topic.partitions] for topic in response.responses] == [
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]


def test_the_first_batch_comes_whole_and_the_limits_hold_for_the_rest(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    for index in (0, 1):
        for _ in range(3):
            broker.produce("t", batch(b"x" * 1000), index)
    one = len(batch(b"x" * 1000))
    everything = {"t": {0: 0, 1: 0}}

    def sizes(**limits: int) -> list[int]:
        return [size(part) for part in broker.ask(many(broker, everything, **limits), 11).responses[0].partitions]

    assert sizes() == [3 * one, 3 * one]
    assert sizes(max_bytes=1) == [one, 0]
    assert sizes(max_bytes=0) == [one, 0]
    assert sizes(max_partition=1) == [one, 0]
    assert sizes(max_bytes=3 * one + 5) == [3 * one, 0]
    assert sizes(max_bytes=4 * one) == [3 * one, one]
    assert sizes(max_partition=one + 5) == [one + 5, one + 5]


def test_a_partition_with_nothing_leaves_the_first_batch_to_the_next(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    broker.produce("t", batch(b"x" * 1000), 1)
    response = broker.ask(many(broker, {"t": {0: 0, 1: 0}}, max_bytes=1), 11)
    assert [size(part) for part in response.responses[0].partitions] == [0, len(batch(b"x" * 1000))]


def test_the_broker_limits_the_response_too(broker: BrokerDriver) -> None:
    broker.restart({"fetch.max.bytes": 1024})
    broker.create("t")
    for _ in range(3):
        broker.produce("t", batch(b"x" * 1000))
    assert size(broker.fetch("t")) == len(batch(b"x" * 1000))


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, ErrorCode.NONE), (-2, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_checks_the_current_leader_epoch(broker: BrokerDriver, epoch: int, expected: ErrorCode) -> None:
    broker.create("t")
    part = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1)
    response = broker.ask(FetchRequest(topics=(FetchTopic(topic="t", partitions=(part,)),)), 12)
    assert code(response.responses[0].partitions[0]) is expected


def led_a_second_time(broker: BrokerDriver, name: str) -> TopicImage:
    """The topic, its partitions now in leader epoch 1."""
    topic = broker.broker.image.topics[name]
    later = replace(topic, partitions=tuple(replace(part, leader_epoch=1) for part in topic.partitions))
    broker.broker.partitions.use(broker.broker.image.with_topic(later))
    return later


@pytest.mark.parametrize("version", [12, 16])
def test_an_old_leader_epoch_is_fenced_and_answered_with_the_leader(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    topic_id = led_a_second_time(broker, "t").topic_id
    part = FetchPartition(partition=0, current_leader_epoch=0, partition_max_bytes=1)
    request = FetchRequest(topics=(FetchTopic(topic="t", topic_id=topic_id, partitions=(part,)),))
    response = broker.ask(request, version)
    data = response.responses[0].partitions[0]
    assert code(data) is ErrorCode.FENCED_LEADER_EPOCH
    leader = (data.current_leader.leader_id, data.current_leader.leader_epoch)
    assert leader == ((1, 1) if version >= 16 else (-1, -1))
    addresses = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
    assert addresses == ([(1, NODE.host, NODE.port)] if version >= 16 else [])


@pytest.mark.parametrize(
    ("version", "others"), [(11, {"replica_id": 3}), (15, {"replica_state": ReplicaState(replica_id=3)})]
)
def test_fetches_of_followers_are_refused(broker: BrokerDriver, version: int, others: dict[str, object]) -> None:
    broker.create("t")
    topic = FetchTopic(
        topic="t", topic_id=broker.topic_id("t"), partitions=(FetchPartition(partition=0, partition_max_bytes=1),)
    )
    response = broker.ask(FetchRequest(topics=(topic,), **others), version)  # type: ignore[arg-type]  # by name
    assert code(response.responses[0].partitions[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_committed_readers_get_an_empty_list_of_aborted_transactions(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0"))
    data = broker.fetch("t", isolation_level=1)
    assert values_in(data) == [b"0"]
    assert data.aborted_transactions == ()


def values(broker: BrokerDriver, task: "asyncio.Task[FetchResponse | None]") -> list[bytes]:
    return values_in(broker.response(task).responses[0].partitions[0])


def test_an_append_ends_a_waiting_fetch(broker: BrokerDriver) -> None:
    broker.create("t")
    tasks = [broker.pending(fetch_request("t", max_wait_ms=LONG_MS, min_bytes=1), 11) for _ in range(3)]
    broker.produce("t", batch(b"0"))
    assert [values(broker, task) for task in tasks] == [[b"0"]] * 3
    assert broker.broker.delayed.count == 0


def test_an_append_ends_a_fetch_that_is_about_to_wait(broker: BrokerDriver) -> None:
    broker.create("t")

    def append() -> None:
        broker.broker.partitions.get("t", 0).append(batch(b"0"))
        broker.broker.delayed.changed(TopicPartition("t", 0))

    response = broker.ask(fetch_request("t", max_wait_ms=LONG_MS, min_bytes=1), 11, meanwhile=append)
    assert values_in(response.responses[0].partitions[0]) == [b"0"]


def test_the_wait_ends_when_enough_has_come_and_not_before(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    one = len(batch(b"x" * 100))
    task = broker.pending(many(broker, {"t": {0: 0, 1: 0}}, max_wait_ms=LONG_MS, min_bytes=3 * one), 11)
    for index in (0, 1):
        broker.produce("t", batch(b"x" * 100), index)
        broker.settle()
        assert not task.done()
    broker.produce("t", batch(b"x" * 100), 1)
    assert [size(part) for part in broker.response(task).responses[0].partitions] == [one, 2 * one]


def test_the_wait_ends_with_its_time(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", batch(b"0"))
    task = broker.pending(fetch_request("t", max_wait_ms=500, min_bytes=1 << 20), 11)
    broker.advance(499)
    assert not task.done()
    broker.advance(1)
    assert values(broker, task) == [b"0"]


def test_a_partition_that_is_missing_does_not_cut_the_wait_short(broker: BrokerDriver) -> None:
    broker.create("t")
    task = broker.pending(many(broker, {"t": {0: 0, 9: 0}}, max_wait_ms=LONG_MS, min_bytes=1), 11)
    broker.produce("t", batch(b"0"))
    assert values(broker, task) == [b"0"]


def test_an_empty_fetch_or_one_of_unknown_topics_is_answered_at_once(broker: BrokerDriver) -> None:
    assert broker.ask(FetchRequest(max_wait_ms=LONG_MS, min_bytes=1), 11).responses == ()
    (topic,) = broker.ask(fetch_request("missing", max_wait_ms=LONG_MS, min_bytes=1), 11).responses
    assert code(topic.partitions[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("again", [False, True])
def test_deleting_a_topic_ends_a_waiting_fetch(broker: BrokerDriver, again: bool) -> None:
    broker.create("t")
    task = broker.pending(fetch_request("t", max_wait_ms=LONG_MS, min_bytes=1), 11)
    broker.delete("t")
    if again:
        broker.create("t")
    response = broker.response(task)
    assert code(response.responses[0].partitions[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_stop_ends_waiting_fetches(broker: BrokerDriver) -> None:
    broker.create("t")
    task = broker.pending(fetch_request("t", max_wait_ms=LONG_MS, min_bytes=1), 11)
    broker.broker.delayed.release()
    assert values(broker, task) == []


def test_a_partition_named_twice_is_answered_once(broker: BrokerDriver) -> None:
    broker.create("t")
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    response = broker.ask(FetchRequest(topics=(FetchTopic(topic="t", partitions=(part, part)),)), 11)
    assert len(response.responses[0].partitions) == 1


@pytest.fixture
def old_broker(tmp_path: Path) -> Iterator[BrokerDriver]:
    """A broker that passes for 2.8, with what a client of today has written."""
    with BrokerDriver(tmp_path / "old", {"as.version": "2.8"}) as driver:
        driver.create("t")
        for value in (b"a", b"b" * 1000, b"c"):
            driver.produce("t", batch(value))
        yield driver


def old_values(data: PartitionData) -> list[tuple[int, bytes | None]]:
    """The format and the value of every whole message."""
    assert code(data) is ErrorCode.NONE
    assert isinstance(data.records, memoryview)
    return [(data.records[16], message.value) for message in messages_in(data.records)]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_versions_get_messages_in_their_format(old_broker: BrokerDriver, version: int, magic: int) -> None:
    data = old_broker.fetch("t", version=version)
    assert old_values(data) == [(magic, b"a"), (magic, b"b" * 1000), (magic, b"c")]
    assert data.high_watermark == 3
    assert [value for _, value in old_values(old_broker.fetch("t", 2, version=version))] == [b"c"]


@pytest.mark.parametrize("version", [0, 2])
def test_before_v3_a_message_that_is_too_large_is_cut(old_broker: BrokerDriver, version: int) -> None:
    data = old_broker.fetch("t", 1, version=version, max_partition=300)
    assert old_values(data) == []
    assert size(data) == 300


def test_v3_gets_the_first_message_whole(old_broker: BrokerDriver) -> None:
    data = old_broker.fetch("t", 1, version=3, max_partition=300)
    assert [value for _, value in old_values(data)] == [b"b" * 1000]


def test_an_old_client_waits_too(old_broker: BrokerDriver) -> None:
    task = old_broker.pending(fetch_request("t", 3, max_wait_ms=LONG_MS, min_bytes=1), 2)
    old_broker.produce("t", batch(b"d"))
    response = old_broker.response(task)
    assert [value for _, value in old_values(response.responses[0].partitions[0])] == [b"d"]


@pytest.mark.parametrize(("version", "expected"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)])
def test_zstd_is_refused_in_versions_that_do_not_know_it(
    broker: BrokerDriver, version: int, expected: ErrorCode
) -> None:
    broker.create("t", compression_type="zstd")
    broker.produce("t", batch(b"x"))
    assert code(broker.fetch("t", version=version)) is expected
