"""The bundled broker answers as Apache Kafka does: the same questions to both, good and bad, answer by answer."""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_native._protocol.messages import create_partitions as widening
from spark_kafka_native._protocol.messages import create_topics as creation
from spark_kafka_native._protocol.messages import delete_topics as deletion
from spark_kafka_native._protocol.messages import fetch as fetching
from spark_kafka_native._protocol.messages import offset_commit as committing
from spark_kafka_native._protocol.messages import offset_fetch as committed
from spark_kafka_native._protocol.messages import produce as producing
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from spark_kafka_native._records.batch import seal
from tests.support.broker.driver import batch, fetch_request, idempotent, produce_request
from tests.support.requests.conversation import Conversation
from tests.support.requests.of_topic import list_offsets
from tests.support.requests.same_responses import compare_brokers

pytestmark = pytest.mark.interop

UNKNOWN_ID = UUID(int=5)
TIMEOUT_MS = 10_000


def changed(change: Callable[[bytearray], None], *, sealed: bool = True) -> bytes:
    records = batch(b"x" * 100)
    change(records)
    if sealed:
        seal(records)
    return bytes(records)


def set_attribute(bits: int) -> Callable[[bytearray], None]:
    def change(records: bytearray) -> None:
        records[22] |= bits

    return change


def flip(records: bytearray) -> None:
    records[100] ^= 1


OLD_FORMAT = b"\0" * 8 + b"\0\0\0\x30" + b"\0" * 4 + b"\x01" + b"\0" * 43
NO_FORMAT = b"\0" * 8 + b"\0\0\0\x32" + b"\0" * 4 + b"\x07" + b"\0" * 45


@compare_brokers
def test_versions(broker: Conversation) -> None:
    broker.ask(ApiVersionsRequest(), 3, "without a name")
    # Of the response to a version that is not known, only the error: KIP-511 leaves the rest to the broker.
    for what, data in (
        ("Produce v2", struct.pack(">ihhih", 10, 0, 2, 1, -1)),
        ("JoinGroup v99", struct.pack(">ihhih", 10, 11, 99, 1, -1)),
        ("API 999", struct.pack(">ihhih", 10, 999, 0, 1, -1)),
        ("half a header", struct.pack(">ih", 2, 3)),
    ):
        broker.send_raw(data, what)


@compare_brokers
def test_metadata(broker: Conversation) -> None:
    broker.create("t", 2)
    named = MetadataRequestTopic(name=broker.topic("t"))
    for version in range(14):
        broker.ask(MetadataRequest(topics=(named,)), version)
    broker.ask(MetadataRequest(topics=(named, named)), 12, "twice")
    broker.ask(MetadataRequest(topics=()), 12, "none")
    broker.ask(
        MetadataRequest(
            topics=(named,), include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        ),
        9,
        "operations",
    )
    for name in ("missing", "a/b", "", ".", "x" * 250):
        wanted = (MetadataRequestTopic(name=name),)
        broker.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12, repr(name[:10]))
    ids = tuple(MetadataRequestTopic(name=None, topic_id=wanted) for wanted in (broker.topic_id("t"), UNKNOWN_ID))
    for version in (10, 11, 12, 13):
        broker.ask(MetadataRequest(topics=ids), version, "by id")


@compare_brokers
def test_produce(broker: Conversation) -> None:
    broker.create("t", 2)
    name = broker.topic("t")
    for version in range(3, 13):
        broker.ask(produce_request(name, batch(b"x", b"y")), version)
    by_id = tuple(
        producing.TopicProduceData(
            topic_id=wanted, partition_data=(producing.PartitionProduceData(index=0, records=batch(b"x")),)
        )
        for wanted in (broker.topic_id("t"), UNKNOWN_ID)
    )
    broker.ask(producing.ProduceRequest(acks=-1, timeout_ms=100, topic_data=by_id), 13)
    for acks in (2, -2):
        broker.ask(produce_request(name, batch(b"x"), acks=acks), 9, f"acks {acks}")
    for what, records, version in (
        ("empty", b"", 9),
        ("cut", bytes(batch(b"x"))[:-1], 9),
        ("two batches", bytes(batch(b"x")) * 2, 9),
        ("a flipped bit", changed(flip, sealed=False), 9),
        ("transactional", changed(set_attribute(0x10)), 9),
        ("control", changed(set_attribute(0x20)), 9),
        ("zstd too early", changed(set_attribute(4)), 6),
        ("old format", OLD_FORMAT, 9),
        ("no format", NO_FORMAT, 9),
        ("no time", bytes(batch(b"x", timestamp_ms=-1)), 9),
        ("too large", bytes(batch(b"x" * 1_100_000)), 9),
    ):
        broker.ask(produce_request(name, records), version, what)
    broker.ask(produce_request(name, batch(b"x"), 9), 9, "missing partition")
    broker.ask(produce_request("missing", batch(b"x")), 9, "missing topic")
    broker.ask(produce_request("missing", batch(b"x"), acks=0), 9, "missing topic, acks 0")


@compare_brokers
def test_idempotent_producers(broker: Conversation) -> None:
    broker.create("t", 2)
    for what, sequence, epoch in (
        ("first", 0, 0),
        ("gap", 5, 0),
        ("next", 2, 0),
        ("old but unknown", 1, 0),
        ("epoch up, wrong sequence", 4, 1),
        ("epoch up", 0, 1),
        ("old epoch", 4, 0),
    ):
        records = idempotent(batch(b"x", b"y"), producer_id=77, sequence=sequence, epoch=epoch)
        broker.ask(produce_request(broker.topic("t"), records), 9, what)
    unknown = idempotent(batch(b"x"), producer_id=78, sequence=5)
    broker.ask(produce_request(broker.topic("t"), unknown, 1), 9, "unknown producer in the middle")
    for version in range(6):
        broker.ask(InitProducerIdRequest(transactional_id=None), version)
    broker.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), 4, "empty id")


@compare_brokers
def test_fetch(broker: Conversation) -> None:
    broker.create("t", 2)
    name = broker.topic("t")
    for value in (b"a", b"b" * 1000, b"c"):
        broker.ask(produce_request(name, batch(value)), 9)
    for version in range(4, 13):
        broker.ask(fetch_request(name, max_wait_ms=10), version)
    for offset in (-1, 1, 3, 4, 100):
        broker.ask(fetch_request(name, offset), 11, f"offset {offset}")
    for limits in ({"max_bytes": 1}, {"max_partition": 1}, {"max_partition": 100}, {"max_bytes": 100}):
        broker.ask(fetch_request(name, **limits), 11, str(limits))
    for session_id, epoch in ((0, 1), (77, 1), (77, -1), (0, 5)):
        question = fetch_request(name, session_id=session_id, session_epoch=epoch)
        broker.ask(question, 11, f"session {session_id}, epoch {epoch}")
    broker.ask(fetch_request(name, isolation_level=1), 11, "read committed")
    broker.ask(fetch_request(name, replica_id=99), 11, "an unknown follower")
    broker.ask(fetch_request(name, partition=9), 11, "missing partition")
    broker.ask(fetch_request("missing"), 11, "missing topic")
    part = fetching.FetchPartition(partition=0, partition_max_bytes=1000)
    topics = tuple(fetching.FetchTopic(topic_id=id_, partitions=(part,)) for id_ in (broker.topic_id("t"), UNKNOWN_ID))
    for version in range(13, 19):
        broker.ask(fetching.FetchRequest(topics=topics), version, "by id")
    for epoch in (0, 1, -2):
        part = fetching.FetchPartition(partition=0, partition_max_bytes=1000, current_leader_epoch=epoch)
        topic = fetching.FetchTopic(topic=name, partitions=(part,))
        broker.ask(fetching.FetchRequest(topics=(topic,)), 12, f"leader epoch {epoch}")


@compare_brokers
def test_list_offsets(broker: Conversation) -> None:
    broker.create("t", 2)
    name = broker.topic("t")
    for timestamp_ms in (1000, 3000, 2000):
        broker.ask(produce_request(name, batch(b"x", b"y", timestamp_ms=timestamp_ms)), 9)
    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 1000, 1001, 3000, 3001):
            broker.ask(list_offsets(name, timestamp), version, f"time {timestamp}")
    for timestamp in (-1, -2, -3, 5):
        broker.ask(list_offsets(name, timestamp, 1), 9, f"empty, time {timestamp}")
    for epoch in (0, 1, -2):
        broker.ask(list_offsets(name, -1, epoch=epoch), 9, f"leader epoch {epoch}")
    broker.ask(list_offsets(name, -1, 0, 0), 9, "twice")
    broker.ask(list_offsets("missing", -1), 9, "missing topic")


@compare_brokers
def test_making_topics(broker: Conversation) -> None:
    def hand(*replicas: tuple[int, tuple[int, ...]]) -> tuple[creation.CreatableReplicaAssignment, ...]:
        return tuple(
            creation.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in replicas
        )

    def config(key: str, value: str | None) -> tuple[creation.CreatableTopicConfig, ...]:
        return (creation.CreatableTopicConfig(name=key, value=value),)

    broker.create("t")
    broker.create("dot.ted")

    def wanted(name: str = "new", partitions: int = -1, replicas: int = -1, **others: object) -> None:
        topic = creation.CreatableTopic(
            name=broker.topic(name) if name else "",
            num_partitions=partitions,
            replication_factor=replicas,
            **others,  # type: ignore[arg-type]  # by name
        )
        note = f"{name!r} {partitions} {replicas} {others}"
        request = creation.CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=True)
        broker.ask(request, 7, note)

    for name in ("new", "t", "a/b", "", "dot_ted"):
        wanted(name)
    for partitions, replicas in ((0, 1), (-2, 1), (10_001, 1), (1, 0), (1, -2), (1, 3)):
        wanted(partitions=partitions, replicas=replicas)
    for key, value in (("no.such", "1"), ("retention.ms", "x"), ("retention.ms", None), ("retention.ms", "5")):
        wanted(configs=config(key, value))
    wanted(assignments=hand((0, (1,))), replicas=1)
    wanted(assignments=hand((0, (1,))), partitions=1)
    for assignments in (
        hand((1, (1,)), (0, (1,))),
        hand((0, (9,))),
        hand((0, (1,)), (0, (1,))),
        hand((1, (1,))),
        hand((0, ())),
        hand((0, (1, 1))),
    ):
        wanted(assignments=assignments)
    twice = creation.CreatableTopic(name=broker.topic("twice"), num_partitions=1, replication_factor=1)
    broker.ask(creation.CreateTopicsRequest(topics=(twice, twice), timeout_ms=TIMEOUT_MS), 7, "twice")


@compare_brokers
def test_widening_and_deleting_topics(broker: Conversation) -> None:
    broker.create("t", 2)
    broker.create("doomed")

    def widen(name: str, count: int, *brokers: tuple[int, ...], by_hand: bool = False, times: int = 1) -> None:
        hand = tuple(widening.CreatePartitionsAssignment(broker_ids=each) for each in brokers)
        topic = widening.CreatePartitionsTopic(
            name=broker.topic(name), count=count, assignments=hand if by_hand else None
        )
        request = widening.CreatePartitionsRequest(topics=(topic,) * times, timeout_ms=TIMEOUT_MS)
        broker.ask(request, 3, f"{name} to {count}, {brokers}, {times} times")

    for count in (2, 1, 0):
        widen("t", count)
    widen("missing", 3)
    widen("t", 4, (1,), by_hand=True)
    widen("t", 3, (9,), by_hand=True)
    widen("t", 3, by_hand=True)
    widen("t", 5, times=2)
    widen("t", 3)

    def delete(note: str, *states: deletion.DeleteTopicState) -> None:
        broker.ask(deletion.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), 6, note)

    named = deletion.DeleteTopicState(name=broker.topic("t"))
    delete("nothing named", deletion.DeleteTopicState())
    delete("both named", deletion.DeleteTopicState(name=named.name, topic_id=broker.topic_id("t")))
    delete("unknown id", deletion.DeleteTopicState(topic_id=UNKNOWN_ID))
    delete("unknown name", deletion.DeleteTopicState(name="missing"))
    delete("twice", named, named)
    delete("by id", deletion.DeleteTopicState(topic_id=broker.topic_id("doomed")))
    broker.ask(deletion.DeleteTopicsRequest(topic_names=("missing",), timeout_ms=TIMEOUT_MS), 1, "old form")


def commit(broker: Conversation, version: int, note: str = "", **others: Any) -> None:
    """Ask to commit offset 5 of t-0 for the group, but for what ``others`` say."""
    part = committing.OffsetCommitRequestPartition(
        partition_index=others.pop("index", 0), committed_offset=5, committed_metadata=others.pop("metadata", "note")
    )
    topic = committing.OffsetCommitRequestTopic(name=others.pop("topic", broker.topic("t")), partitions=(part,))
    who = {"group_id": broker.topic("group"), **others}
    broker.ask(committing.OffsetCommitRequest(**who, topics=(topic,)), version, f"{note} {who.keys()}")


@compare_brokers
def test_commits_without_membership(broker: Conversation) -> None:
    broker.create("t", 2)
    for version in range(4):
        broker.ask(FindCoordinatorRequest(key=broker.topic("group")), version)
    for version in range(4, 7):
        broker.ask(FindCoordinatorRequest(coordinator_keys=(broker.topic("group"),)), version)
    for version in range(2, 10):
        commit(broker, version)
    commit(broker, 8, "no note", metadata=None)
    commit(broker, 8, "long note", metadata="x" * 4097)
    commit(broker, 8, "missing topic", topic="missing")
    commit(broker, 8, "missing partition", index=9)
    commit(broker, 8, "no group id", group_id="")
    for version in (8, 9):
        commit(broker, version, "a member", generation_id_or_member_epoch=3, member_id="m")
        commit(broker, version, group_id="unknown", generation_id_or_member_epoch=3, member_id="m")
    commit(broker, 8, "a name without generation", member_id="m")
    part = committing.OffsetCommitRequestPartition(partition_index=0, committed_offset=6)
    topics = tuple(
        committing.OffsetCommitRequestTopic(topic_id=wanted, partitions=(part,))
        for wanted in (broker.topic_id("t"), UNKNOWN_ID)
    )
    broker.ask(committing.OffsetCommitRequest(group_id=broker.topic("group"), topics=topics), 10, "by id")


@compare_brokers
def test_committed_offsets(broker: Conversation) -> None:
    def old_form(broker: Conversation, group: str) -> None:
        topics = (committed.OffsetFetchRequestTopic(name=broker.topic("t"), partition_indexes=(0, 1, 9)),)
        for version in range(1, 8):
            broker.ask(committed.OffsetFetchRequest(group_id=group, topics=topics), version)
        for version in range(2, 8):
            broker.ask(committed.OffsetFetchRequest(group_id=group, topics=None), version, "all topics")

    def new_form(broker: Conversation, group: str) -> None:
        for version in range(8, 11):
            ids = (broker.topic_id("t"), UNKNOWN_ID) if version >= 10 else (UNKNOWN_ID,)
            topics = tuple(
                committed.OffsetFetchRequestTopics(name=broker.topic("t"), topic_id=id_, partition_indexes=(0, 1, 9))
                for id_ in ids
            )
            for wanted, note in ((topics, ""), (None, "all topics")):
                asked = committed.OffsetFetchRequestGroup(group_id=group, topics=wanted)
                broker.ask(committed.OffsetFetchRequest(groups=(asked,)), version, note)

    broker.create("t", 2)
    commit(broker, 8)
    for group in (broker.topic("group"), "unknown"):
        old_form(broker, group)
        new_form(broker, group)
