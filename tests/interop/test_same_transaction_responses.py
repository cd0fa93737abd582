"""The bundled broker answers about transactions as Apache Kafka does: every version of every API, field by field."""

from typing import Any

import pytest

from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.requests.conversation import Conversation
from tests.support.requests.same_responses import compare_brokers
from tests.support.requests.transaction_stories import ToldProducer, second_epoch

pytestmark = pytest.mark.interop

UNKNOWN_ID = 999_999


def wrongs(producer: ToldProducer) -> dict[str, dict[str, Any]]:
    """Producers that are not this one, by what is wrong with them."""
    return {
        "another producer": {"producer_id": UNKNOWN_ID},
        "an older epoch": {"producer_epoch": producer.epoch - 1},
        "a newer epoch": {"producer_epoch": producer.epoch + 1},
        "an unknown id": {"transactional_id": producer.transactional_id + "-unknown"},
        "no id": {"transactional_id": ""},
    }


@compare_brokers
def test_finding_coordinators(broker: Conversation) -> None:
    ToldProducer(broker, "id").begin()
    for version in range(1, 7):
        for kind in (0, 1, 2, 9):
            for key in (broker.topic("id"), ""):
                keys: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": (key, "other")}
                request = FindCoordinatorRequest(key_type=kind, **keys)
                broker.ask(request, version, f"{kind} {key and 'named'}")


@compare_brokers
def test_producer_ids(broker: Conversation) -> None:
    for version in range(6):
        producer = ToldProducer(broker, f"id-{version}")
        producer.says("first").init(version)
        producer.says("second").init(version)
        for timeout_ms in (0, -1, 900_000, 900_001):
            producer.says(f"timeout {timeout_ms}").init(version, transaction_timeout_ms=timeout_ms)
        broker.ask(InitProducerIdRequest(transactional_id=""), version, "empty")
        broker.ask(InitProducerIdRequest(transactional_id=None), version, "none")


@compare_brokers
def test_claims(broker: Conversation) -> None:
    for version in range(3, 6):
        producer = second_epoch(broker, f"id-{version}", 2)
        claims = {
            "itself": {},
            "itself again": {},
            **wrongs(producer),
            "no epoch": {"producer_epoch": -1},
            "no producer": {"producer_id": -1},
            "much newer": {"producer_epoch": producer.epoch + 7},
        }
        own: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        for what, claim in claims.items():
            producer.says(what).init(version, **(own | claim))
            # What is wrong is measured at the producer as it was.
            producer.take(own["producer_id"], own["producer_epoch"])
        half = {"transactional_id": None, "producer_id": own["producer_id"], "producer_epoch": own["producer_epoch"]}
        broker.ask(InitProducerIdRequest(**half), version, "a claim without a name")


@pytest.mark.parametrize("level", [1, 2])
@compare_brokers
def test_claims_while_a_transaction_is_open(broker: Conversation, level: int) -> None:
    broker.create("t")
    for version in range(3, 6):
        producer = second_epoch(broker, f"id-{version}", level)
        producer.write(broker.topic("t"), "a")
        own: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        producer.says("itself").init(version, **own)
        producer.says("as it was").init(version, **own)
        producer.write(broker.topic("t"), "b")
        producer.says("without a claim").init(version)
        producer.settle()


@compare_brokers
def test_adding_partitions(broker: Conversation) -> None:
    broker.create("t", 2)
    t = broker.topic("t")
    for version in range(6):
        producer = second_epoch(broker, f"id-{version}", 1)
        for what, wrong in wrongs(producer).items():
            producer.says(what).add((t, 0), version=version, **wrong)
        producer.says("one").add((t, 0), version=version)
        producer.says("again").add((t, 0), (t, 1), version=version)
        producer.says("another partition").add((t, 0), (t, 7), version=version)
        producer.says("another topic").add((t, 0), (broker.topic("none"), 0), version=version)
        producer.says("nothing").add(version=version)
        producer.says("internal").add(("__transaction_state", 0), version=version)
        for what, wrong in wrongs(producer).items():
            producer.says(f"{what}, open").add((t, 0), version=version, **wrong)
        producer.end(commit=False)
        producer.settle()


@compare_brokers
def test_several_transactions_in_one_request(broker: Conversation) -> None:
    broker.create("t", 2)
    topics = (AddPartitionsToTxnTopic(name=broker.topic("t"), partitions=(0, 1)),)
    for version in (4, 5):
        first, second = (ToldProducer(broker, f"{name}-{version}", level=1) for name in ("one", "two"))
        for producer in (first, second):
            producer.begin()
        first.add((broker.topic("t"), 1))
        for verify in (True, False, True):
            asked = tuple(
                AddPartitionsToTxnTransaction(
                    transactional_id=producer.transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    verify_only=verify,
                    topics=topics,
                )
                for producer in (first, second)
            )
            broker.ask(AddPartitionsToTxnRequest(transactions=asked), version, f"verify: {verify}")
        for producer in (first, second):
            producer.end(commit=True)
            producer.settle()


@compare_brokers
def test_records(broker: Conversation) -> None:
    broker.create("t", 2)
    t = broker.topic("t")
    for version in range(3, 13):
        producer = second_epoch(broker, f"id-{version}", 2 if version > 11 else 1)
        producer.says("not added").produce(t, "a", version=version, partition=1)
        if producer.level == 1:
            producer.add((t, 0))
        for what, wrong in wrongs(producer).items():
            producer.says(what).produce(t, "a", version=version, **wrong)
        producer.says("good").produce(t, "a", version=version)
        producer.says("again").produce(t, "a", version=version, base_sequence=0)
        producer.says("a gap").produce(t, "b", version=version, base_sequence=7)
        producer.says("no such partition").produce(t, "a", version=version, partition=7)
        producer.says("no transactional batch").produce(t, "a", version=version, transactional=False)
        for what, wrong in wrongs(producer).items():
            producer.says(f"{what}, open").produce(t, "c", version=version, **wrong)
        producer.end(commit=True)
        producer.settle()
        producer.says("after the end").produce(t, "c", version=version, base_sequence=1)
        producer.init()


@compare_brokers
def test_adding_groups(broker: Conversation) -> None:
    broker.response(FindCoordinatorRequest(key="g"), 3)
    for version in range(5):
        producer = second_epoch(broker, f"id-{version}", 1)
        for what, wrong in wrongs(producer).items():
            producer.says(what).add_offsets("g", version, **wrong)
        for group in ("g", "g", ""):
            producer.says(group).add_offsets(group, version)
        for what, wrong in wrongs(producer).items():
            producer.says(f"{what}, open").add_offsets("g", version, **wrong)
        producer.end(commit=False)
        producer.settle()


@compare_brokers
def test_offsets(broker: Conversation) -> None:
    broker.create("t", 2)
    t, group = broker.topic("t"), broker.topic("g")
    broker.response(FindCoordinatorRequest(key=group), 3)
    for version in range(6):
        producer = second_epoch(broker, f"id-{version}", 2 if version > 4 else 1)
        good = {(t, 0): 5}
        producer.says("not added").commit_offsets(group, good, version=version)
        if producer.level == 1:
            producer.add_offsets(group)
        for what, wrong in wrongs(producer).items():
            producer.says(what).commit_offsets(group, good, version=version, **wrong)
        producer.says("good").commit_offsets(group, good, version=version)
        others = {(t, 0): 6, (t, 7): 5, (broker.topic("none"), 0): 5}
        producer.says("what there is not").commit_offsets(group, others, version=version)
        producer.says("no group").commit_offsets("", good, version=version)
        if version >= 3:
            members: dict[str, dict[str, Any]] = {
                "a member": {"member_id": "unknown", "generation_id": 1},
                "a generation alone": {"generation_id": 1},
                "a member alone": {"member_id": "unknown"},
                "a static member": {"group_instance_id": "unknown"},
            }
            for what, member in members.items():
                producer.says(what).commit_offsets(group, good, version=version, **member)
        long = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 5000)
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
            topics=(TxnOffsetCommitRequestTopic(name=t, partitions=(long,)),),
        )
        broker.ask(request, version, "long metadata")
        producer.says("nothing").commit_offsets(group, {}, version=version)
        producer.end(commit=True)
        producer.settle()


@pytest.mark.parametrize("level", [1, 2])
@compare_brokers
def test_ends(broker: Conversation, level: int) -> None:
    """With the producer's own versions, and with all others: a client may be old or new."""

    broker.create("t")
    for version in range(6):
        for commit in (True, False):
            producer = second_epoch(broker, f"id-{version}-{commit}", level)
            for what, wrong in wrongs(producer).items():
                producer.says(f"{what}, empty").end(commit=commit, version=version, **wrong)
            producer.says("empty").end(commit=True, version=version)
            producer.write(broker.topic("t"), "a")
            for what, wrong in wrongs(producer).items():
                producer.says(f"{what}, open").end(commit=commit, version=version, **wrong)
            ended = producer.says("open").end(commit=commit, version=version)
            producer.settle()
            producer.says("again").end(commit=commit, version=version)
            producer.says("otherwise").end(commit=not commit, version=version)
            if version >= 5 and ended.error_code == 0:
                producer.take(ended.producer_id, ended.producer_epoch)
                producer.says("nothing to commit").end(commit=True, version=version)
                producer.settle()
                producer.says("nothing to abort").end(commit=False, version=version)
                producer.settle()
