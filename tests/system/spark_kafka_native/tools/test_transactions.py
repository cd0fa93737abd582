import json
import time
from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.transaction_views import reaches
from tests.support.requests.transactions import RawProducer
from tests.support.servers.brokers import AnyBroker
from tests.support.tools import Tool

TOPIC = "tool-transactions"


@pytest.fixture
def producer(any_broker: AnyBroker, on_broker: Tool) -> Iterator[RawProducer]:
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
    response = on_broker("kafka-transactions", "list")
    assert response.status == 0
    row = {
        "TransactionalId": "tool-tx",
        "Coordinator": "1",
        "ProducerId": str(producer.producer_id),
        "TransactionState": "Ongoing",
    }
    assert row in table(response.lines)
    assert len({len(line.expandtabs(1)) for line in response.lines}) == 1
    matching = ("list", "--transactional-id-pattern", "tool-.x")
    assert table(on_broker("kafka-transactions", *matching).lines) == [row]
    assert table(on_broker("kafka-transactions", *matching, "--duration-filter", "3600000").lines) == []


def test_one_transaction(on_broker: Tool, producer: RawProducer) -> None:
    in_json = json.loads(on_broker("kafka-transactions", "describe", "--transactional-id", "tool-tx", "--json").out)
    assert (in_json["transactionState"], in_json["topicPartitions"]) == ("Ongoing", {TOPIC: [0]})
    assert in_json["currentTransactionStartTimeMs"] > 1_700_000_000_000
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
    reason = "Failed to describe transaction state of transactional-id `none`: "
    assert (missing.status, missing.err.startswith(f"kafka-transactions describe: {reason}")) == (1, True)
    assert missing.err.endswith("(TRANSACTIONAL_ID_NOT_FOUND, 105)\n")


def test_producers_of_a_partition(on_broker: Tool, producer: RawProducer) -> None:
    named = ("describe-producers", "--topic", TOPIC, "--partition")
    rows = table(on_broker("kafka-transactions", *named, "0").lines)
    (row,) = (row for row in rows if row["ProducerId"] == str(producer.producer_id))
    assert (row["ProducerEpoch"], row["LastSequence"]) == (str(producer.epoch), "0")
    assert int(row["CurrentTransactionStartOffset"]) >= 0
    assert table(on_broker("kafka-transactions", *named, "1").lines) == []
    assert on_broker("kafka-transactions", *named, "0", "--broker-id", "1").lines[1:] != []
    missing = on_broker("kafka-transactions", *named, "7")
    assert (missing.status, f"{TOPIC}-7" in missing.err) == (1, True)
    elsewhere = on_broker("kafka-transactions", *named, "0", "--broker-id", "9")
    assert (elsewhere.status, f"broker 9 has no replica of {TOPIC}-0" in elsewhere.err) == (1, True)


def test_patterns_and_durations_that_are_refused_or_mean_all(on_broker: Tool, producer: RawProducer) -> None:
    refused = on_broker("kafka-transactions", "list", "--transactional-id-pattern", "(")
    assert (refused.status, "(INVALID_REGULAR_EXPRESSION, " in refused.err) == (1, True)
    every = table(on_broker("kafka-transactions", "list", "--duration-filter", "-1").lines)
    assert producer.transactional_id in {row["TransactionalId"] for row in every}


def test_a_transaction_is_aborted_in_one_partition(on_broker: Tool, producer: RawProducer) -> None:
    place = ("--topic", TOPIC, "--partition", "0")
    (row,) = open_transactions(on_broker, producer)
    offset = ("--start-offset", row["CurrentTransactionStartOffset"])
    assert on_broker("kafka-transactions", "abort", *place, "--start-offset", "1000000").err == (
        "kafka-transactions abort: Could not find any open transactions starting at offset 1000000 on partition "
        f"{TOPIC}-0\n"
    )
    aborted = on_broker("kafka-transactions", "abort", *place, *offset)
    assert (aborted.status, aborted.out, aborted.err) == (0, "", "")
    assert open_transactions(on_broker, producer) == []


def test_a_producer_of_an_older_epoch_cannot_be_aborted(on_broker: Tool, producer: RawProducer) -> None:
    producer.commit()  # the next transaction has an epoch of its own
    producer.write(TOPIC, "b")
    older = ("--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.epoch - 1))
    refused = on_broker(
        "kafka-transactions", "abort", "--topic", TOPIC, "--partition", "0", *older, "--coordinator-epoch", "-1"
    )
    spec = (
        f"AbortTransactionSpec(topicPartition={TOPIC}-0, producerId={producer.producer_id}, "
        f"producerEpoch={producer.epoch - 1}, coordinatorEpoch=0)"
    )
    assert (refused.status, f"Failed to abort transaction {spec}: {TOPIC}-0: " in refused.err) == (1, True)
    assert len(open_transactions(on_broker, producer)) == 1


def test_a_transactional_id_is_terminated(any_broker: AnyBroker, on_broker: Tool) -> None:
    with RawProducer(any_broker.bootstrap_servers, "tool-terminated") as producer:
        producer.begin()
        producer.write(TOPIC, "a", partition=1)
        done = on_broker("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "tool-terminated")
        assert (done.status, done.out, done.err) == (0, "", "")
        assert producer.produce(TOPIC, "b", partition=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        state = reaches(producer.client, "tool-terminated", "Empty")
        assert (state.producer_id, state.producer_epoch > producer.epoch) == (producer.producer_id, True)


def open_transactions(on_broker: Tool, producer: RawProducer) -> list[dict[str, str]]:
    rows = table(on_broker("kafka-transactions", "describe-producers", "--topic", TOPIC, "--partition", "0").lines)
    return [
        row
        for row in rows
        if row["ProducerId"] == str(producer.producer_id) and row["CurrentTransactionStartOffset"] != "None"
    ]


@pytest.fixture(scope="module")
def old_manners() -> Iterator[EmbeddedBroker]:
    """Writes of transactions that their coordinator does not know of are taken, as before Kafka 3.6."""
    with EmbeddedBroker(settings={"transaction.partition.verification.enable": "false"}) as broker:
        broker.create_topic("hung", 2)
        yield broker


def test_hanging_transactions(tool: Tool, old_manners: EmbeddedBroker) -> None:
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    servers = old_manners.bootstrap_servers
    with RawProducer(servers, "hanging", level=1) as producer, RawProducer(servers, "known", level=1) as known:
        producer.begin()
        assert producer.produce("hung", "a", partition=1, timestamps=an_hour_ago).error_code == ErrorCode.NONE
        known.begin()
        assert known.add(("hung", 0)) == [ErrorCode.NONE]
        assert known.produce("hung", "a", timestamps=an_hour_ago).error_code == ErrorCode.NONE

    def found(*scope: str) -> list[dict[str, str]]:
        response = tool("kafka-transactions", "--bootstrap-server", servers, "find-hanging", *scope)
        assert (response.status, response.err) == (0, "")
        return table(response.lines)

    hanging = tool("kafka-transactions", "--bootstrap-server", servers, "find-hanging", "--topic", "hung", "--json")
    in_json = json.loads(hanging.out)
    assert (in_json["topic"], in_json["partition"], in_json["startOffset"]) == ("hung", 1, 0)
    assert in_json["durationMinutes"] >= 60
    (row,) = found("--topic", "hung")
    assert int(row.pop("Duration(min)")) >= 60
    assert row == {
        "Topic": "hung",
        "Partition": "1",
        "ProducerId": str(producer.producer_id),
        "ProducerEpoch": str(producer.epoch),
        "CoordinatorEpoch": "-1",
        "StartOffset": "0",
        "LastTimestamp": str(an_hour_ago),
    }
    for scope, count in (
        (("--broker-id", "1"), 1),
        (("--broker-id", "7"), 0),
        (("--topic", "hung", "--partition", "0"), 0),
        (("--topic", "hung", "--partition", "1"), 1),
        (("--topic", "hung", "--max-transaction-timeout", "120"), 0),
    ):
        assert len(found(*scope)) == count, scope
    unknown = tool("kafka-transactions", "--bootstrap-server", servers, "find-hanging", "--topic", "none")
    assert (unknown.status, "Failed to describe topic none: " in unknown.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("abort", "--topic", "t", "--partition", "0"), "--start-offset is missing"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "--producer-epoch is missing"),
        (
            ("abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "1"),
            "--coordinator-epoch is missing",
        ),
        (("find-hanging",), "find-hanging needs --topic or --broker-id"),
        (("find-hanging", "--broker-id", "1", "--partition", "0"), "--partition needs --topic"),
        (("find-hanging", "--topic", "t", "--max-transaction-timeout", "-1"), "--max-transaction-timeout: -1"),
        (("describe-producers", "--topic", "t"), "--partition"),
        (("list", "--duration", "1"), "--duration"),
    ],
)
def test_bad_options_are_refused_before_anything_is_sent(tool: Tool, arguments: tuple[str, ...], words: str) -> None:
    refused = tool("kafka-transactions", "--bootstrap-server", "127.0.0.1:1", *arguments)
    assert (refused.status, refused.out, words in refused.err) == (2, "", True)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--producer-id", str(2**63), f"is not between {-(2**63)} and {2**63 - 1}"),
        ("--producer-epoch", "32768", "is not between -32768 and 32767"),
        ("--coordinator-epoch", "-2147483649", "is not between -2147483648 and 2147483647"),
        ("--start-offset", "first", "'first' is not a valid integer"),
    ],
)
def test_numbers_that_no_request_can_hold(tool: Tool, option: str, value: str, words: str) -> None:
    partition = ("--topic", TOPIC, "--partition", "0")
    refused = tool("kafka-transactions", "--bootstrap-server", "h:1", "abort", *partition, f"{option}={value}")
    assert refused.status == 2
    assert f"Invalid value for '{option}': " in refused.err
    assert words in refused.err
