"""``__transaction_state`` changes hands: transactions of ours are coordinated by Apache Kafka, and Kafka's by ours.

One is open all the time, with records and the position of a group, and is committed on the broker that has it then.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from broker_embedded._transactions.records import read_transaction_record, transaction_record
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_transactions import TransactionState
from tests.support.report import skip_if
from tests.support.requests.classic_group import wait_for_coordinator
from tests.support.requests.committed_offsets import committed_offset
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import View, described, is_served, producers, reaches, shows, values, view
from tests.support.requests.transactions import RawProducer, wait_for_transaction_coordinator
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable, dump_log
from tests.support.servers.both_brokers import kafka_of_its_own, take_over
from tests.support.servers.brokers import AnyBroker, stored_records
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TOPIC, GROUP = "written", "group"
PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
}
STATES = {
    "committed": "CompleteCommit",
    "aborted": "CompleteAbort",
    "old": "CompleteCommit",
    "idle": "Empty",
    "open": "Ongoing",
}
LONG_MS = 900_000
LOGS = {TOPIC: 1, "__consumer_offsets": PARTITIONS, "__transaction_state": PARTITIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a broker says about the transactions."""

    states: dict[str, TransactionState]
    view: View
    everything: list[str]
    position: int | ErrorCode
    stable_position: int | ErrorCode
    producers: dict[int, tuple[int, int, int]]


def fill(broker: AnyBroker) -> tuple[int, int]:
    """Transactions of every kind; the producer of the open one."""
    broker.create_topic(TOPIC)
    with RawClient(broker.bootstrap_servers) as client:
        eventually(lambda: is_served(client, TOPIC), True)
        wait_for_coordinator(client, GROUP)
        for name, level in (("committed", 2), ("aborted", 2), ("old", 1), ("idle", 2)):
            with RawProducer(broker.bootstrap_servers, name, level=level, timeout_ms=LONG_MS) as producer:
                producer.begin()
                if name == "idle":
                    continue
                producer.write(TOPIC, name)
                producer.send_offsets(GROUP, {(TOPIC, 0): level})
                if name == "aborted":
                    producer.abort()
                else:
                    producer.commit()
                reaches(client, name, STATES[name])
    with RawProducer(broker.bootstrap_servers, "open", timeout_ms=LONG_MS) as producer:
        producer.begin()
        producer.write(TOPIC, "open")
        producer.send_offsets(GROUP, {(TOPIC, 0): 9})
        return producer.identity


def look(broker: AnyBroker) -> Seen:
    with RawClient(broker.bootstrap_servers) as client:
        eventually(lambda: is_served(client, TOPIC), True)
        wait_for_coordinator(client, GROUP)
        for name in STATES:
            wait_for_transaction_coordinator(client, name)
            eventually(lambda: described(client, name).error_code, 0)  # noqa: B023  # called at once
        return Seen(
            states={name: _in_order(described(client, name)) for name in STATES},
            view=view(client, TOPIC),
            everything=values(client, TOPIC, committed=False),
            position=committed_offset(client, GROUP, TOPIC),
            stable_position=committed_offset(client, GROUP, TOPIC, stable=True),
            producers={
                number: (state.producer_epoch, state.last_sequence, state.current_txn_start_offset)
                for number, state in producers(client, TOPIC).items()
            },
        )


def _in_order(state: TransactionState) -> TransactionState:
    return replace(state, topics=tuple(sorted(state.topics, key=lambda entry: entry.topic)))


def assert_right(seen: Seen) -> None:
    assert {name: state.transaction_state for name, state in seen.states.items()} == STATES
    assert (seen.view.values, seen.everything) == (["committed", "old"], ["committed", "aborted", "old", "open"])
    assert (seen.position, seen.stable_position) == (1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def assert_continues(broker: AnyBroker, identity: tuple[int, int]) -> None:
    """The open transaction is committed by its producer, and every id has its next."""
    with RawClient(broker.bootstrap_servers) as client:
        with RawProducer(broker.bootstrap_servers, "open") as producer:
            producer.take(*identity)
            producer.commit()
        shows(client, TOPIC, "committed", "old", "open")
        eventually(lambda: committed_offset(client, GROUP, TOPIC, stable=True), 9)
        for name in STATES:
            before = described(client, name)
            with RawProducer(broker.bootstrap_servers, name) as producer:
                producer.begin()
                assert producer.identity == (before.producer_id, before.producer_epoch + 1)
                producer.write(TOPIC, f"{name} again")
                producer.commit()
        shows(client, TOPIC, "committed", "old", "open", *(f"{name} again" for name in STATES))


kafka = kafka_of_its_own(settings=SETTINGS)


@pytest.fixture(scope="module")
def theirs(kafka: ApacheKafka) -> tuple[Seen, tuple[int, int]]:
    """Transactions on Apache Kafka, which is stopped then."""
    identity = fill(kafka)
    seen = look(kafka)
    kafka.stop()
    return seen, identity


def test_transactions_of_kafka_are_coordinated_by_ours(
    kafka: ApacheKafka, theirs: tuple[Seen, tuple[int, int]], tmp_path: Path
) -> None:
    expected, identity = theirs
    assert_right(expected)
    take_over(kafka.log_directory, tmp_path, LOGS)
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        assert look(broker) == expected
        assert_continues(broker, identity)


def test_records_of_kafka_are_encoded_as_ours(kafka: ApacheKafka, theirs: tuple[Seen, tuple[int, int]]) -> None:
    assert theirs
    count = 0
    for record in stored_records(kafka, "__transaction_state", PARTITIONS):
        found = read_transaction_record(record)
        assert found is not None
        assert found[1] is not None
        encoded = transaction_record(found[1], flexible=True)
        if len({partition.topic for partition in found[1].partitions}) > 1:  # topics come in any order
            assert read_transaction_record(encoded) == found
            assert sorted(encoded.value or b"") == sorted(record.value or b"")
        else:
            assert encoded == record
        count += 1
    assert count >= len(STATES) * 2


def test_transactions_of_ours_are_coordinated_by_kafka(
    kafka: ApacheKafka, theirs: tuple[Seen, tuple[int, int]], tmp_path: Path
) -> None:
    assert theirs  # the topics are there
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        identity = fill(broker)
        ours = look(broker)
    assert_right(ours)
    take_over(tmp_path, kafka.log_directory, LOGS)
    kafka.restart()
    assert look(kafka) == ours
    assert_continues(kafka, identity)
    kafka.stop()


def test_kafkas_tool_reads_our_transactions(tmp_path: Path) -> None:
    skip_if(apache_kafka_unavailable())
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        fill(broker)

    def dump(pattern: str, *options: str) -> str:
        return dump_log(sorted(tmp_path.glob(pattern)), *options)

    states = dump("__transaction_state-*/*.log", "--transaction-log-decoder")
    assert "isvalid: true" in states
    assert "isvalid: false" not in states
    for name in STATES:
        assert re.search(rf'"transactionalId":"{name}"', states), name
    records = dump(f"{TOPIC}-0/*.log", "--deep-iteration", "--print-data-log")
    assert re.findall(r"endTxnMarker: (\w+)", records) == ["COMMIT", "ABORT", "COMMIT"]
    assert "isvalid: false" not in records
    aborted = dump(f"{TOPIC}-0/*.txnindex")
    assert re.search(r"firstOffset: 2 lastOffset: 3 lastStableOffset: 4", aborted), aborted
    assert "producerId" in dump(f"{TOPIC}-0/*.snapshot")
