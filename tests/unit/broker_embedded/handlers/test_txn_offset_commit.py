import asyncio
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.members import stable

OLD_VERSIONS, ADDING_VERSION = range(5), 5


class Producer:
    """A transactional producer in few words; ``commit`` is a TxnOffsetCommit for partitions of t."""

    def __init__(self, broker: BrokerDriver, transactional_id: str = "tx") -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.init()

    def init(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        response = self.broker.ask(request, 4)
        assert response.error_code == 0
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return response

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_offsets(self, group: str = "g") -> int:
        return self.broker.ask(AddOffsetsToTxnRequest(**self.fields, group_id=group), 3).error_code

    def request(
        self, *offsets: tuple[int, int], topic: str = "t", metadata: str | None = "", **others: Any
    ) -> TxnOffsetCommitRequest:
        parts = tuple(
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index, offset in offsets
        )
        topics = (TxnOffsetCommitRequestTopic(name=topic, partitions=parts),)
        return TxnOffsetCommitRequest(**({"group_id": "g", "topics": topics} | self.fields | others))

    def commit(self, *offsets: tuple[int, int], version: int = ADDING_VERSION, **others: Any) -> list[int]:
        (topic,) = self.broker.ask(self.request(*offsets, **others), version).topics
        return [part.error_code for part in topic.partitions]

    def end(self, *, commit: bool = True, version: int = 3) -> None:
        response = self.broker.ask(EndTxnRequest(**self.fields, committed=commit), version)
        assert response.error_code == 0
        if version >= ADDING_VERSION:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch


def committed(broker: BrokerDriver, partition: int = 0, group: str = "g") -> int | None:
    topic_id = broker.topic_id("t")
    value = broker.broker.groups.offsets.committed(group, TopicPartition("t", partition), topic_id)
    return None if value is None else value.offset


@pytest.fixture
def producer(broker: BrokerDriver) -> Producer:
    """A transactional producer; there is a topic t with two partitions."""
    broker.create("t", partitions=2)
    return Producer(broker)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_offsets_in_versions_with_add_offsets_to_txn(broker: BrokerDriver, producer: Producer, version: int) -> None:
    missing = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert producer.commit((0, 5), (1, 6), (9, 7), version=version) == [missing, missing, 3]
    assert producer.add_offsets() == 0
    assert producer.commit((0, 5), (1, 6), (9, 7), version=version) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [committed(broker, index) for index in (0, 1)] == [None, None]
    producer.end()
    assert [committed(broker, index) for index in (0, 1)] == [5, 6]


def test_offsets_in_the_version_that_adds_their_partition(broker: BrokerDriver, producer: Producer) -> None:
    for offset, commit, found in ((5, True, 5), (6, False, 5), (7, True, 7)):
        assert producer.commit((0, offset)) == [0]
        producer.end(commit=commit, version=5)
        assert committed(broker) == found
    broker.restart()
    assert committed(broker) == 7


def test_unknown_partitions_and_long_metadata_are_refused_and_other_offsets_stored(
    broker: BrokerDriver, producer: Producer
) -> None:
    assert producer.commit((0, 5), topic="u") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.add_offsets() == 0  # nothing began before this
    assert producer.commit((1, 5), metadata="x" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert producer.commit((0, 5), (7, 5), metadata=None) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    producer.end()
    assert [committed(broker, index) for index in (0, 1)] == [5, None]


def test_verification_can_be_disabled(broker: BrokerDriver) -> None:
    broker.restart({"transaction.partition.verification.enable": False})
    broker.create("t", partitions=2)
    producer = Producer(broker)
    assert producer.commit((0, 5), version=4) == [0]
    assert producer.commit((0, 5), version=5, group_id="h", transactional_id="unknown") == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ]


def test_a_transaction_that_is_open_in_the_log_needs_no_verification(broker: BrokerDriver, producer: Producer) -> None:
    assert producer.commit((0, 5)) == [0]
    assert producer.commit((1, 6), transactional_id="not looked at") == [0]
    producer.end(version=5)
    assert [committed(broker, index) for index in (0, 1)] == [5, 6]
    assert producer.commit((1, 7), transactional_id="not looked at") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize("version", [4, 5])
def test_wrong_ids_and_epochs(broker: BrokerDriver, producer: Producer, version: int) -> None:
    producer.add_offsets()
    for others, code in (
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"transactional_id": "unknown"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 7}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"generation_id": 1, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
    ):
        assert producer.commit((0, 5), version=version, **others) == [code], others
    assert not broker.broker.groups.all


def test_a_fenced_producer_commits_no_offset(broker: BrokerDriver, producer: Producer) -> None:
    producer.commit((0, 5))
    zombie = dict(producer.fields)
    producer.init()
    assert producer.commit((0, 6), **zombie) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert committed(broker) is None
    assert producer.commit((0, 7)) == [0]
    producer.end(version=5)
    assert committed(broker) == 7


def test_members_commit_for_their_group(broker: BrokerDriver, producer: Producer) -> None:
    member_id = stable(broker)  # of group g
    assert producer.commit((0, 5), member_id="unknown", generation_id=1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert producer.commit((0, 5), member_id=member_id, generation_id=2) == [ErrorCode.ILLEGAL_GENERATION]
    assert producer.commit((0, 5), member_id=member_id, generation_id=1) == [0]
    assert producer.commit((1, 6)) == [0]  # as clients did before they said who they are
    producer.end(version=5)
    assert [committed(broker, index) for index in (0, 1)] == [5, 6]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("flush", [False, True])
def test_concurrent_commits_and_the_end_are_serialized(broker: BrokerDriver, version: int, flush: bool) -> None:
    """Commits that succeed are before the marker, and refused ones are not in the log."""
    if flush:
        broker.restart({"log.flush.interval.messages": 1})
    broker.create("t", partitions=2)
    producers = [Producer(broker, f"tx-{number}") for number in range(4)]
    for producer in producers:
        assert producer.add_offsets() == 0
    commits = [broker.begin(producer.request((0, 5), group_id="g"), version) for producer in producers]
    ends = [broker.begin(EndTxnRequest(**producer.fields, committed=True), 3) for producer in producers]
    commits += [broker.begin(producer.request((1, 6), group_id="g"), 4) for producer in producers]
    responses = broker.run(asyncio.gather(*commits))
    assert {response.error_code for response in broker.run(asyncio.gather(*ends)) if response} == {0}
    early, late = responses[:4], responses[4:]
    assert {part.error_code for response in early if response for part in response.topics[0].partitions} == {0}
    codes = {part.error_code for response in late if response for part in response.topics[0].partitions}
    refusals = {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE}
    assert codes <= {ErrorCode.NONE, *refusals}
    topic_id = broker.topic_id("t")
    assert [committed(broker, index) for index in (0, 1)] == [5, 6 if ErrorCode.NONE in codes else None]
    for index in (0, 1):
        assert not broker.broker.groups.offsets.is_unstable("g", TopicPartition("t", index), topic_id)


def test_a_commit_whose_client_has_left_is_carried_out(broker: BrokerDriver, producer: Producer) -> None:
    task = broker.begin(producer.request((0, 5)), 5)

    async def leave_half_way() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await broker.broker.shielded_tasks.wait()

    broker.run(leave_half_way())
    producer.end(version=5)
    assert committed(broker) == 5


def test_transactions_that_were_open_at_a_kill_can_be_continued(broker: BrokerDriver, producer: Producer) -> None:
    producer.commit((0, 5))
    broker.crash()
    assert committed(broker) is None
    assert producer.commit((1, 6)) == [0]
    producer.end(version=5)
    for _ in range(2):
        assert [committed(broker, index) for index in (0, 1)] == [5, 6]
        broker.crash()
