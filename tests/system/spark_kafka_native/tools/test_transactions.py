from collections.abc import Iterator

import pytest

from tests.support.brokers import AnyBroker
from tests.support.transaction_driver import RawProducer
from tests.system.spark_kafka_native.tools.conftest import Tool

TOPIC = "tool-transactions"


@pytest.fixture
def producer(any_broker: AnyBroker, on_broker: Tool) -> Iterator[RawProducer]:
    """One with an open transaction in partition 0 of the topic."""
    made = on_broker("kafka-topics", "--create", "--if-not-exists", "--topic", TOPIC, "--partitions", "2")
    assert made.status == 0
    with RawProducer(any_broker.bootstrap_servers, "tool-tx") as made_producer:
        made_producer.begin()
        made_producer.write(TOPIC, "a")
        yield made_producer
        made_producer.abort()


def table(lines: list[str]) -> list[dict[str, str]]:
    header, *rows = ([cell.strip() for cell in line.split("\t")[:-1]] for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_transactions_of_all_brokers(on_broker: Tool, producer: RawProducer) -> None:
    answer = on_broker("kafka-transactions", "list")
    assert answer.status == 0
    row = {
        "TransactionalId": "tool-tx",
        "Coordinator": "1",
        "ProducerId": str(producer.producer_id),
        "TransactionState": "Ongoing",
    }
    assert row in table(answer.lines)
    assert len({len(line.expandtabs(1)) for line in answer.lines}) == 1
    matching = ("list", "--transactional-id-pattern", "tool-.x")
    assert table(on_broker("kafka-transactions", *matching).lines) == [row]
    assert table(on_broker("kafka-transactions", *matching, "--duration-filter", "3600000").lines) == []


def test_one_transaction(on_broker: Tool, producer: RawProducer) -> None:
    (row,) = table(on_broker("kafka-transactions", "describe", "--transactional-id", "tool-tx").lines)
    started, duration = int(row.pop("CurrentTransactionStartTimeMs")), int(row.pop("TransactionDurationMs"))
    assert (started > 1_700_000_000_000, duration >= 0) == (True, True)
    assert row == {
        "CoordinatorId": "1",
        "TransactionalId": "tool-tx",
        "ProducerId": str(producer.producer_id),
        "ProducerEpoch": str(producer.epoch),
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "60000",
        "TopicPartitions": f"{TOPIC}-0",
    }
    missing = on_broker("kafka-transactions", "describe", "--transactional-id", "none")
    assert (missing.status, missing.err) == (1, "kafka-transactions: transactional id none was not found\n")


def test_producers_of_a_partition(on_broker: Tool, producer: RawProducer) -> None:
    named = ("describe-producers", "--topic", TOPIC, "--partition")
    rows = table(on_broker("kafka-transactions", *named, "0").lines)
    (row,) = (row for row in rows if row["ProducerId"] == str(producer.producer_id))
    assert (row["ProducerEpoch"], row["LastSequence"]) == (str(producer.epoch), "0")
    assert int(row["CurrentTransactionStartOffset"]) >= 0
    assert table(on_broker("kafka-transactions", *named, "1").lines) == []
    missing = on_broker("kafka-transactions", *named, "7")
    assert (missing.status, f"{TOPIC}-7" in missing.err) == (1, True)
