import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsInt

from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded.testing import EmbeddedBroker, ErrorCode, ManualClock
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from spark_kafka_native._protocol.messages.fetch import FetchResponse
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest
from tests.support.broker.configs import BROKER, SET, change_request
from tests.support.broker.driver import batch, fetch_request, produce_request, values_in
from tests.support.broker.members import join_request
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

BEGIN_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SETTINGS = {"offsets.topic.num.partitions": 1, "connections.max.idle.ms": -1, "group.initial.rebalance.delay.ms": 3000}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    clock = ManualClock(BEGIN_MS)
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}, settings=SETTINGS, clock=clock) as made:
        yield made


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as made:
        yield made


def arrived(broker: EmbeddedBroker, api: str, count: int = 1) -> None:
    """Wait until the broker has got so many requests: from there on its clock decides."""
    eventually(lambda: broker.request_counts()[api], IsInt(ge=count))


def test_a_fetch_waits_exactly_max_wait_ms(broker: EmbeddedBroker, client: RawClient) -> None:
    client.send(request_bytes(fetch_request("t", max_wait_ms=500, min_bytes=1), 11))
    arrived(broker, "Fetch")
    broker.advance(499)
    assert client.is_silent()
    broker.advance(1)
    _, response = decode_response(FetchResponse, 11, client.frame())
    assert values_in(response.responses[0].partitions[0]) == []


def join(broker: EmbeddedBroker, client: RawClient, **others: Any) -> tuple[str, int]:
    """Become the only member of group g: its id and generation."""
    version = 3  # which gives an id without asking back
    client.send(request_bytes(join_request("g", **others), version))
    arrived(broker, "JoinGroup")
    broker.advance(2999)
    assert client.is_silent()
    broker.advance(1)
    _, joined = decode_response(JoinGroupResponse, version, client.frame())
    assert joined.error_code == 0
    request = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    assert client.ask(request, 3).error_code == 0
    return joined.member_id, joined.generation_id


def test_a_group_waits_for_members_and_fences_a_silent_one(broker: EmbeddedBroker, client: RawClient) -> None:
    member_id, generation = join(broker, client, session_timeout_ms=10_000)

    def heartbeat() -> int:
        return client.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id), 3).error_code

    for _ in range(3):
        broker.advance(9_999)
        assert heartbeat() == 0
    broker.advance(10_000)
    assert heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_of_the_consumer_protocol_is_fenced(broker: EmbeddedBroker, client: RawClient) -> None:
    first = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    response = client.ask(first, 1)
    assert response.error_code == 0
    later = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=response.member_epoch)
    for _ in range(2):
        broker.advance(44_999)
        assert client.ask(later, 1).error_code == 0
    broker.advance(45_001)
    assert client.ask(later, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def committed(client: RawClient) -> int:
    return client.ask(offset_fetch("t", version=6), 6).topics[0].partitions[0].committed_offset


def test_offsets_are_kept_for_seven_days(broker: EmbeddedBroker, client: RawClient) -> None:
    assert client.ask(offset_commit("t", 5), 8).topics[0].partitions[0].error_code == 0
    broker.advance(days=6, hours=23)
    assert committed(client) == 5
    broker.advance(hours=2)
    assert committed(client) == -1


def produce(client: RawClient, topic: str, records: bytearray) -> None:
    response = client.ask(produce_request(topic, records), 9)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_records_outlive_their_retention_and_their_files_go(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("old", configs={"retention.ms": str(DAY_MS), "file.delete.delay.ms": "60000"})
    produce(client, "old", batch(b"x", timestamp_ms=BEGIN_MS))
    directory = broker.log_directory / "old-0"
    broker.advance(hours=23)
    response = client.ask(fetch_request("old"), 11).responses[0].partitions[0]
    assert (response.log_start_offset, values_in(response)) == (0, [b"x"])
    broker.advance(hours=1, minutes=6)
    assert client.ask(fetch_request("old"), 11).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.ask(fetch_request("old", 1), 11).responses[0].partitions[0].log_start_offset == 1
    broker.advance(minutes=2)
    assert list(directory.glob("*.deleted")) == []
    assert [path.name for path in directory.glob("*.log")] == ["00000000000000000001.log"]


def test_logs_are_compacted(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic(
        "keys", configs={"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    )
    for number in range(3):
        record = CoordinatorRecord(key=b"k", value=b"%d" % number)
        produce(client, "keys", encode_batch([record], broker.now_ms()))
        broker.advance(seconds=2)
    produce(client, "keys", encode_batch([CoordinatorRecord(key=b"other", value=b"x")], broker.now_ms()))
    broker.advance(minutes=1)
    response = client.ask(fetch_request("keys", max_partition=1 << 20), 11)
    assert values_in(response.responses[0].partitions[0]) == [b"2", b"x"]


def test_the_pause_between_compactions_changes_at_run_time(broker: EmbeddedBroker, client: RawClient) -> None:
    pause = change_request(BROKER, "1", ("log.cleaner.backoff.ms", SET, str(DAY_MS)))
    (changed,) = client.ask(pause, 1).responses
    assert changed.error_code == 0
    broker.advance(seconds=15)  # the pause that had begun ends
    broker.create_topic(
        "keys", configs={"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    )
    for value in (b"1", b"2", b"3"):
        produce(client, "keys", encode_batch([CoordinatorRecord(key=b"k", value=value)], broker.now_ms()))
        broker.advance(hours=1)

    def values() -> list[bytes]:
        response = client.ask(fetch_request("keys", max_partition=1 << 20), 11)
        return values_in(response.responses[0].partitions[0])

    assert values() == [b"1", b"2", b"3"]
    broker.advance(hours=24)
    assert values() == [b"2", b"3"], "the active segment is not compacted"


def test_a_year_passes_in_a_moment(broker: EmbeddedBroker) -> None:
    broker.advance(days=365)  # some milliseconds; with every second of it, longer than a test may take
    assert broker.now_ms() == BEGIN_MS + 365 * DAY_MS


def test_many_threads_may_move_the_clock(broker: EmbeddedBroker) -> None:
    threads = [threading.Thread(target=broker.advance, kwargs={"seconds": 1}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broker.now_ms() == BEGIN_MS + 8000
