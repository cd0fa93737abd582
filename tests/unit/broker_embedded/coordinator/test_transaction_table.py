import asyncio
import functools
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker_embedded._coordinator.transaction_table import TransactionTable
from broker_embedded._records.coordinator_record import CoordinatorRecord
from broker_embedded._transactions.state import Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.configs import TOPIC, put
from tests.support.broker.disk import MemoryFileSystem
from tests.support.broker.driver import BrokerDriver
from tests.support.refusals import refused

EMPTY = Transaction(transactional_id="id", producer_id=5, producer_epoch=0, timeout_ms=1000, updated_ms=7)
ONGOING = replace(EMPTY, state=TransactionState.ONGOING, started_ms=9, updated_ms=9)


@pytest.fixture
def broker() -> Iterator[BrokerDriver]:
    with BrokerDriver(Path("/data"), file_system=MemoryFileSystem()) as broker:
        yield broker


@pytest.fixture
def table(broker: BrokerDriver) -> TransactionTable:
    broker.run(broker.broker.transactions.make_ready())
    return broker.broker.transactions._table


def read_again(broker: BrokerDriver) -> dict[str, Transaction]:
    """The transactions that a new table reads from the log."""
    table = TransactionTable(broker.broker.transactions._table.log, lambda: TransactionVersion.TV_2)
    table.load()
    return dict(table.all)


def test_a_written_transaction_is_known_at_once_and_after_a_restart(
    broker: BrokerDriver, table: TransactionTable
) -> None:
    assert table.get("id") is None
    for known in (EMPTY, ONGOING):
        broker.run(table.write(known, table.load_epoch))
        assert table.get("id") == known
        assert read_again(broker) == {"id": known}
    broker.run(table.forget("id", table.load_epoch))
    assert (table.get("id"), read_again(broker)) == (None, {})


def test_transactions_past_their_timeout_are_found(broker: BrokerDriver, table: TransactionTable) -> None:
    assert table.timed_out(9, 0) == []
    broker.run(table.write(ONGOING, table.load_epoch))
    assert (table.timed_out(1009, 1000), table.timed_out(1010, 1001)) == ([], ["id"])
    broker.restart()
    table = broker.broker.transactions._table
    assert (table.timed_out(1009, 0), table.timed_out(1010, 1)) == ([], ["id"]), "the age is that of the log"
    broker.run(table.write(replace(ONGOING, state=TransactionState.PREPARE_ABORT), table.load_epoch))
    assert table.timed_out(10_000, 10_000) == []
    broker.run(table.write(ONGOING, table.load_epoch))
    broker.run(table.forget("id", table.load_epoch))
    assert table.timed_out(20_000, 20_000) == []
    broker.run(table.write(ONGOING, table.load_epoch))
    table.unload()
    assert table.timed_out(30_000, 30_000) == []


def test_a_write_of_an_old_load_epoch_is_refused(broker: BrokerDriver, table: TransactionTable) -> None:
    broker.run(table.write(EMPTY, table.load_epoch))
    assert table.unload() == {"id": EMPTY}
    assert refused(broker.run, table.write(ONGOING, table.load_epoch - 1)).code is ErrorCode.NOT_COORDINATOR
    assert (dict(table.all), read_again(broker)) == ({}, {"id": EMPTY})


def test_a_write_that_waits_for_the_disk_is_dropped_by_an_unload(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    broker.run(broker.broker.transactions.make_ready())
    table = broker.broker.transactions._table

    async def give_up_meanwhile() -> None:
        task = asyncio.create_task(table.write(EMPTY, table.load_epoch))
        async with broker.during_disk_work(task):
            table.unload()
        await task

    assert refused(broker.run, give_up_meanwhile()).code is ErrorCode.NOT_COORDINATOR
    assert dict(table.all) == {}


def test_damaged_records_cost_their_ids_alone(
    broker: BrokerDriver, table: TransactionTable, caplog: pytest.LogCaptureFixture
) -> None:
    broker.run(table.write(EMPTY, table.load_epoch))
    table.log.append("id", [CoordinatorRecord(key=b"\x00\x00\x00\x03one", value=b"\x00\x01")])
    table.log.append("id", [CoordinatorRecord(key=b"\x00\x09of a kind that is not known", value=b"")])
    with caplog.at_level(logging.ERROR):
        assert read_again(broker) == {"id": EMPTY}
    assert caplog.text.count("a record of __transaction_state cannot be decoded, ignored") == 1


def test_a_clock_that_jumps_neither_ends_nor_prolongs_a_transaction(
    broker: BrokerDriver, table: TransactionTable
) -> None:
    assert table.timed_out(990, 0) == []
    broker.run(table.write(ONGOING, table.load_epoch))
    started_ms, timeout_ms = ONGOING.started_ms, ONGOING.timeout_ms
    assert table.timed_out(started_ms + 3_600_000, 5) == [], "set ahead"
    assert table.timed_out(started_ms - 3_600_000, 5 + timeout_ms - 5) == [], "set back"
    assert table.timed_out(started_ms - 3_600_000, 5 + timeout_ms + 1) == ["id"]


def test_the_record_version_follows_transaction_version(broker: BrokerDriver, table: TransactionTable) -> None:
    versions = []
    for level in TransactionVersion:
        broker.run(TransactionTable(table.log, functools.partial(TransactionVersion, level)).write(EMPTY, 0))
        (record,) = table.log.records()
        assert record.value is not None
        versions.append(int.from_bytes(record.value[:2], "big"))
    assert versions == [0, 1, 1]


def test_a_write_with_too_few_replicas_is_refused(broker: BrokerDriver) -> None:
    broker.passing_for("3.6")  # later releases bound min.insync.replicas by the number of replicas
    broker.run(broker.broker.transactions.make_ready())
    put(broker, TOPIC, "__transaction_state", min_insync_replicas="2")
    table = broker.broker.transactions._table
    with pytest.raises(KafkaError, match=r"min\.insync\.replicas is 2.*\(COORDINATOR_NOT_AVAILABLE, "):
        broker.run(table.write(EMPTY, table.load_epoch))
    assert read_again(broker) == {}


def test_the_topic_is_made_as_the_settings_say(broker: BrokerDriver) -> None:
    broker.restart({"transaction.state.log.num.partitions": 5, "transaction.state.log.segment.bytes": 1_048_576})
    broker.run(broker.broker.transactions.make_ready())
    topic = broker.broker.image.topics["__transaction_state"]
    assert len(topic.partitions) == 5
    assert dict(topic.configs) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "1048576",
        "unclean.leader.election.enable": "false",
    }
