"""``__consumer_offsets`` changes hands amid transactions: what is decided counts, what is pending can be decided."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_embedded._coordinator.log import partition_for
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.classic_group import wait_for_coordinator
from tests.support.requests.committed_offsets import commit_offset, committed_offset
from tests.support.requests.of_topic import write_txn_markers
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transactions import RawProducer
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.both_brokers import kafka_of_its_own, take_over
from tests.support.servers.brokers import AnyBroker
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TOPIC = "read"
PARTITIONS = 3
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS), "transaction.state.log.num.partitions": "3"}
GROUPS = ("committed", "aborted", "pending", "overtaken", "next")
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
OFFSETS = {"committed": 12, "aborted": 11, "pending": 11, "overtaken": 13, "next": 14}
STABLE = {"committed": 12, "aborted": 11, "pending": UNSTABLE, "overtaken": UNSTABLE, "next": UNSTABLE}
DECIDED = {"committed": 12, "aborted": 11, "pending": 12, "overtaken": 13, "next": 15}


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An ongoing transaction, in the partition of a group."""

    group: str
    producer_id: int
    epoch: int


def fill(broker: AnyBroker) -> list[Open]:
    """Groups with offsets in transactions of every kind; the ongoing ones."""
    broker.create_topic(TOPIC)
    with ExitStack() as stack:
        client = stack.enter_context(RawClient(broker.bootstrap_servers))

        def commit(group: str, offset: int) -> RawProducer:
            name = f"producer-{group}-{offset}"
            producer = stack.enter_context(RawProducer(broker.bootstrap_servers, name, level=2)).begin()
            producer.send_offsets(group, {(TOPIC, 0): offset})
            return producer

        for group in GROUPS:
            wait_for_coordinator(client, group)
        for group in ("committed", "aborted", "pending", "overtaken"):
            commit_offset(client, group, TOPIC, 11)
        commit("committed", 12).commit()
        commit("aborted", 12).abort()
        pending = commit("pending", 12)
        overtaken = commit("overtaken", 12)
        commit_offset(client, "overtaken", TOPIC, 13)
        following = commit("next", 14)
        following.commit()
        following.send_offsets("next", {(TOPIC, 0): 15})
        assert_offsets(broker)
        return [
            Open(group=group, producer_id=producer.producer_id, epoch=producer.epoch)
            for group, producer in (("pending", pending), ("overtaken", overtaken), ("next", following))
        ]


def offsets_of(broker: AnyBroker, *, stable: bool) -> dict[str, int | ErrorCode]:
    with RawClient(broker.bootstrap_servers) as client:
        for group in GROUPS:
            wait_for_coordinator(client, group)
        return {group: committed_offset(client, group, TOPIC, stable=stable) for group in GROUPS}


def assert_offsets(broker: AnyBroker) -> None:
    eventually(lambda: offsets_of(broker, stable=False), OFFSETS)
    eventually(lambda: offsets_of(broker, stable=True), STABLE)


def assert_can_be_decided(broker: AnyBroker, transactions: list[Open]) -> None:
    """A coordinator that comes along with markers decides what is pending."""
    with RawClient(broker.bootstrap_servers) as client:
        for found in transactions:
            request = write_txn_markers(
                "__consumer_offsets",
                partition_for(found.group, PARTITIONS),
                producer_id=found.producer_id,
                producer_epoch=found.epoch,
                transaction_result=True,
                coordinator_epoch=100,
            )
            response = client.ask(request, 1)
            assert response.markers[0].topics[0].partitions[0].error_code == 0
    eventually(lambda: offsets_of(broker, stable=True), DECIDED)


kafka = kafka_of_its_own(settings=SETTINGS)


@pytest.fixture(scope="module")
def theirs(kafka: ApacheKafka) -> list[Open]:
    """Transactions on Apache Kafka, which is stopped then."""
    transactions = fill(kafka)
    kafka.stop()
    return transactions


def test_pending_offsets_of_kafka_are_ours(kafka: ApacheKafka, theirs: list[Open], tmp_path: Path) -> None:
    take_over(kafka.log_directory, tmp_path, {TOPIC: 1, "__consumer_offsets": PARTITIONS})
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        assert_offsets(broker)
        assert_can_be_decided(broker, theirs)
        broker.kill()
        broker.start()
        assert offsets_of(broker, stable=True) == DECIDED


def test_pending_offsets_of_ours_are_kafkas(kafka: ApacheKafka, theirs: list[Open], tmp_path: Path) -> None:
    assert theirs  # the topics are there
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        ours = fill(broker)
        broker.kill()
        broker.start()
        assert_offsets(broker)
    take_over(tmp_path, kafka.log_directory, {"__consumer_offsets": PARTITIONS})
    kafka.restart()
    assert_offsets(kafka)
    assert_can_be_decided(kafka, ours)
    kafka.stop()
