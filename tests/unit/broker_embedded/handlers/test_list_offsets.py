import threading
from typing import Any

import pytest

from broker_embedded._log.reader import LogReader
from broker_embedded._log.timestamp_lookup import Lookup
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsPartitionResponse
from tests.support.broker.driver import BrokerDriver, batch
from tests.support.requests.of_topic import list_offsets

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


def look_up(
    broker: BrokerDriver,
    timestamp: int,
    version: int = 9,
    *,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    **others: int,
) -> ListOffsetsPartitionResponse:
    request = list_offsets(topic, timestamp, partition, epoch=epoch, **others)
    (found,) = broker.ask(request, version).topics[0].partitions
    return found


def place(found: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    return found.error_code, found.offset, found.timestamp


@pytest.fixture
def filled(broker: BrokerDriver) -> BrokerDriver:
    """Topic t: records at 1000, 3000, 2000 ms, offsets 0, 1 and 2."""
    broker.create("t")
    for timestamp_ms in (1000, 3000, 2000):
        broker.produce("t", batch(b"x", timestamp_ms=timestamp_ms))
    return broker


@pytest.mark.parametrize("version", range(1, 12))
def test_both_ends_and_a_time_in_every_version(filled: BrokerDriver, version: int) -> None:
    assert place(look_up(filled, LATEST, version)) == (0, 3, -1)
    assert place(look_up(filled, EARLIEST, version)) == (0, 0, -1)
    assert place(look_up(filled, 1500, version)) == (0, 1, 3000)
    assert place(look_up(filled, 3001, version)) == (0, -1, -1)
    for timestamp, offset, found_ms in [(0, 0, 1000), (1000, 0, 1000), (1001, 1, 3000), (3000, 1, 3000)]:
        assert place(look_up(filled, timestamp, version)) == (0, offset, found_ms)
    for level, replica_id in ((1, -1), (0, -2), (1, -2)):
        found = look_up(filled, LATEST, max(version, 2), isolation_level=level, replica_id=replica_id)
        assert place(found) == (0, 3, -1)
    for timestamp in (-7, -(2**63)):
        assert look_up(filled, timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert look_up(filled, LATEST, version).leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (MAX_TIMESTAMP, 7, (0, 1, 3000)),
        (EARLIEST_LOCAL, 8, (0, 0, -1)),
        (LATEST_TIERED, 9, (0, -1, -1)),
        (PENDING_UPLOAD, 11, (0, -1, -1)),
    ],
)
def test_special_timestamps_from_their_version_on(
    filled: BrokerDriver, timestamp: int, since: int, expected: tuple[int, int, int]
) -> None:
    assert place(look_up(filled, timestamp, since)) == expected
    assert place(look_up(filled, timestamp, 11)) == expected
    assert look_up(filled, timestamp, since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, 0])
def test_an_empty_log_has_no_record_for_any_time(broker: BrokerDriver, timestamp: int) -> None:
    broker.create("t")
    assert place(look_up(broker, timestamp)) == (0, -1, -1)
    assert place(look_up(broker, LATEST)) == (0, 0, -1)


def test_records_deleted_by_retention_are_before_the_earliest_offset(filled: BrokerDriver) -> None:
    filled.broker.logs.delete_records(filled.broker.partitions.get("t", 0).id, 2)
    assert place(look_up(filled, EARLIEST)) == (0, 2, -1)
    assert place(look_up(filled, 0)) == (0, 2, 2000)


def test_missing_partitions_and_wrong_epochs(filled: BrokerDriver) -> None:
    assert look_up(filled, LATEST, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(filled, LATEST, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(filled, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(filled, LATEST, epoch=-2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert place(look_up(filled, LATEST, epoch=0)) == (0, 3, -1)


def test_a_partition_named_twice_is_an_invalid_request(filled: BrokerDriver) -> None:
    codes = [found.error_code for found in filled.ask(list_offsets("t", LATEST, 0, 1, 0), 9).topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_lookup_by_time_runs_in_a_thread(filled: BrokerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    find = LogReader.look_up

    def noted(reader: LogReader, *args: Any) -> Lookup:
        threads.append(threading.current_thread().name.rpartition("_")[0])
        return find(reader, *args)

    monkeypatch.setattr(LogReader, "look_up", noted)
    assert place(look_up(filled, 1500)) == (0, 1, 3000)
    assert threads == ["broker-reads"]
