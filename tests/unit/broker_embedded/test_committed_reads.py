import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchResponse
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsPartitionResponse
from tests.support.broker.driver import BrokerDriver, batch, fetch_request, run_periodic, values_in
from tests.support.broker.transactional_producer import DirectProducer
from tests.support.requests.of_topic import delete_records, list_offsets
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import View, values, view

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def seen(broker: BrokerDriver, offset: int = 0, *, committed: bool = True, topic: str = "t") -> View:
    return view(cast("RawClient", broker), topic, committed=committed, offset=offset)


def all_values(broker: BrokerDriver, *, committed: bool = True, topic: str = "t") -> list[str]:
    return values(cast("RawClient", broker), topic, committed=committed)


def offset_at(broker: BrokerDriver, timestamp: int, *, committed: bool) -> ListOffsetsPartitionResponse:
    request = list_offsets("t", timestamp, isolation_level=int(committed))
    return broker.ask(request, 7).topics[0].partitions[0]


def delete_before(broker: BrokerDriver, offset: int) -> int:
    return broker.ask(delete_records("t", offset), 2).topics[0].partitions[0].low_watermark


def producers(broker: BrokerDriver, *names: str) -> list[DirectProducer]:
    return [DirectProducer(broker, name).begin() for name in names]


def test_read_committed_fetches_end_at_the_oldest_open_transaction(broker: BrokerDriver) -> None:
    broker.create("t")
    first, second = producers(broker, "a", "b")
    broker.produce("t", batch(b"plain"))
    first.write("t", "1")
    second.write("t", "2")
    broker.produce("t", batch(b"after"))
    assert seen(broker) == View(["plain"], 1, 4, [], 1)
    assert seen(broker, committed=False) == View(["plain", "1", "2", "after"], 1, 4, None, 4)
    second.commit()
    assert (seen(broker).values, seen(broker).stable) == (["plain"], 1)
    first.commit()
    assert seen(broker) == View(["plain", "1", "2", "after"], 6, 6, [], 6)


def test_only_read_committed_fetches_list_aborted_transactions(broker: BrokerDriver) -> None:
    broker.create("t")
    first, second = producers(broker, "a", "b")
    first.write("t", "no")
    second.write("t", "yes")
    first.abort()
    assert seen(broker) == View([], 1, 3, [(first.producer_id, 0)], 1)
    second.commit()
    first.write("t", "now yes")
    first.commit()
    first.write("t", "no again")
    first.abort()
    assert seen(broker) == View(["yes", "now yes"], 8, 8, [(first.producer_id, 0), (first.producer_id, 6)], 8)
    assert seen(broker, committed=False).aborted is None
    assert seen(broker, offset=3).aborted == [(first.producer_id, 6)]
    assert seen(broker, offset=8).aborted == []


def test_a_marker_ends_their_wait(broker: BrokerDriver) -> None:
    """Records that are not committed do not."""
    broker.create("t")
    (writer,) = producers(broker, "a")
    waiting: asyncio.Task[FetchResponse | None] = broker.begin(
        fetch_request("t", isolation_level=1, max_wait_ms=60_000, min_bytes=1), 11
    )
    broker.settle()
    writer.write("t", "x")
    broker.settle()
    assert not waiting.done()
    writer.commit()
    response = broker.response(waiting)
    data = response.responses[0].partitions[0]
    assert (data.last_stable_offset, data.aborted_transactions) == (2, ())
    assert values_in(data)[:1] == [b"x"]


def test_the_marker_of_another_ends_their_wait(broker: BrokerDriver) -> None:
    """Records after an open transaction stay unreadable for long, and become readable all at once."""
    broker.create("t")
    first, second = producers(broker, "a", "b")
    first.write("t", "x")
    second.write("t", "y")
    second.commit()
    waiting = broker.begin(fetch_request("t", isolation_level=1, max_wait_ms=60_000, min_bytes=150), 11)
    broker.settle()
    first.abort()
    response = broker.response(waiting)
    (aborted,) = response.responses[0].partitions[0].aborted_transactions or ()
    assert (aborted.producer_id, aborted.first_offset) == (first.producer_id, 0)


@pytest.mark.parametrize("level", [1, 2])
def test_read_committed_fetches_continue_after_a_transaction_timeout(broker: BrokerDriver, level: int) -> None:
    broker.create("t")
    lost = DirectProducer(broker, "lost", level=level, timeout_ms=5000).begin()
    lost.write("t", "no")
    broker.produce("t", batch(b"yes"))
    assert all_values(broker) == []
    broker.advance(4999)
    broker.run(broker.broker.transactions.abort_timed_out())
    assert all_values(broker) == []
    broker.advance(2)
    broker.run(broker.broker.transactions.abort_timed_out())
    assert all_values(broker) == ["yes"]
    assert lost.produce("t").error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_that_they_may_look_for(broker: BrokerDriver) -> None:
    broker.create("t")
    (writer,) = producers(broker, "a")
    broker.produce("t", batch(b"plain", timestamp_ms=1000))
    writer.produce("t", "x", timestamps=5000)
    broker.produce("t", batch(b"after", timestamp_ms=3000))

    def found(timestamp: int, *, committed: bool) -> tuple[int, int]:
        response = offset_at(broker, timestamp, committed=committed)
        return response.offset, response.timestamp

    assert [found(LATEST, committed=flag) for flag in (False, True)] == [(3, -1), (1, -1)]
    assert [found(EARLIEST, committed=flag) for flag in (False, True)] == [(0, -1), (0, -1)]
    assert [found(500, committed=flag) for flag in (False, True)] == [(0, 1000), (0, 1000)]
    assert [found(2000, committed=flag) for flag in (False, True)] == [(1, 5000), (-1, -1)]
    assert [found(MAX_TIMESTAMP, committed=flag) for flag in (False, True)] == [(1, 5000), (-1, -1)]
    writer.commit()
    assert [found(LATEST, committed=flag) for flag in (False, True)] == [(4, -1), (4, -1)]
    assert found(2000, committed=True) == (1, 5000)


def test_records_of_an_open_transaction_may_be_deleted(broker: BrokerDriver) -> None:
    broker.create("t")
    (writer,) = producers(broker, "a")
    writer.write("t", "0", "1", "2")
    assert delete_before(broker, 2) == 2
    assert seen(broker, 2) == View([], 2, 3, [], 2)
    writer.write("t", "3")
    assert delete_before(broker, -1) == 4
    assert (seen(broker, 4).stable, seen(broker, 4).end) == (4, 4)
    writer.write("t", "4")
    assert seen(broker, 4).stable == 4
    broker.restart()
    writer.commit()
    assert seen(broker, 4) == View(["4"], 6, 6, [], 6)


def test_retention_lets_an_open_transaction_begin_before_the_log(broker: BrokerDriver) -> None:
    broker.create("t", segment_bytes="1000", retention_bytes="1000")
    (writer,) = producers(broker, "a")
    for number in range(40):
        writer.write("t", f"{number:030}")
    broker.run(run_periodic(broker.broker, "retention"))
    log = broker.broker.partitions.get("t", 0).log
    start = log.log_start_offset
    assert 0 < start == log.last_stable_offset
    broker.crash()
    writer.abort()
    assert seen(broker, start) == View([], 41, 41, [(writer.producer_id, 0)], 41)


@pytest.mark.parametrize("restart", ["", "restart", "crash"])
def test_a_compacted_topic(tmp_path: Path, restart: str) -> None:
    """Aborted records are removed whatever their keys, and no committed record with them."""

    def again() -> None:
        if restart:
            getattr(broker, restart)()

    with BrokerDriver(tmp_path) as broker:
        broker.create("t", cleanup_policy="compact", segment_bytes="300", delete_retention_ms="1000")
        good, bad, slow = producers(broker, "good", "bad", "slow")
        good.put("t", a="1", b="1")
        good.commit()
        for number in range(5):
            bad.put("t", a=f"bad {number}", c="bad")
            good.put("t", d=f"{number}")
            bad.abort()
            good.commit()
        slow.put("t", e="open")
        good.put("t", b="2", a=None)
        good.commit()
        before = seen(broker).stable
        for _ in range(2):
            again()
            broker.run(broker.broker.compaction.run())
        assert seen(broker).stable == before
        assert sorted(all_values(broker)) == ["1", "1", "4"]
        slow.commit()
        assert "open" in all_values(broker)
        for _ in range(4):
            for _ in range(10):
                good.put("t", f="filler")
                good.commit()
            again()
            broker.run(broker.broker.compaction.run())
            broker.advance(2000)
        kept = [value for value in all_values(broker) if value != "filler"]
        assert kept == ["4", "open", "2"]
        assert all(value != "bad" for value in all_values(broker, committed=False)[:-1])


@pytest.mark.parametrize("restart", ["restart", "crash"])
@pytest.mark.parametrize("level", [1, 2])
def test_open_and_aborted_transactions_are_loaded_after_a_restart(
    broker: BrokerDriver, restart: str, level: int
) -> None:
    broker.create("t", segment_bytes="1000")
    aborted, opened, done = (DirectProducer(broker, name, level=level).begin() for name in ("a", "o", "d"))
    expected = []
    for number in range(10):
        aborted.write("t", f"no {number:020}")
        done.write("t", f"yes {number}")
        expected.append(f"yes {number}")
        if number % 3 == 0:
            aborted.abort()
        done.commit()
    aborted.abort()
    opened.write("t", "open")
    broker.produce("t", batch(b"after"))

    def state() -> list[Any]:
        return [
            all_values(broker),
            seen(broker).stable,
            sorted(seen(broker).aborted or ()),
            all_values(broker, committed=False),
        ]

    before = state()
    assert before[0] == expected
    getattr(broker, restart)()
    assert state() == before
    opened.write("t", "open")
    opened.commit()
    assert all_values(broker) == [*expected, "open", "after", "open"]
