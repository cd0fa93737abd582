from uuid import UUID

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver


def part(index: int, offset: int, metadata: str | None = "") -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)


def commit(
    broker: BrokerDriver, *parts: OffsetCommitRequestPartition, topic: str = "t", version: int = 8, **others: object
) -> list[int]:
    named = OffsetCommitRequestTopic(name=topic, partitions=parts)
    request = OffsetCommitRequest(group_id="g", topics=(named,), **others)  # type: ignore[arg-type]  # by name
    return [found.error_code for found in broker.ask(request, version).topics[0].partitions]


def committed(broker: BrokerDriver, partition: int = 0, topic: str = "t") -> int | None:
    image = broker.broker.image.topics[topic]
    value = broker.broker.groups.offsets.committed("g", TopicPartition(topic, partition), image.topic_id)
    return None if value is None else value.offset


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_in_every_version_with_names(broker: BrokerDriver, version: int) -> None:
    broker.create("t", partitions=2)
    assert commit(broker, part(0, 5), part(1, 6, metadata=None), version=version) == [0, 0]
    assert [committed(broker, index) for index in (0, 1)] == [5, 6]


def test_offsets_in_versions_of_old_brokers(broker: BrokerDriver) -> None:
    broker.passing_for("0.9")
    broker.run(broker.broker.topic_lifecycle.require("t"))
    assert commit(broker, part(0, 5), version=0) == [0]
    assert committed(broker) == 5
    stamped = OffsetCommitRequestPartition(partition_index=0, committed_offset=6, commit_timestamp=77)
    assert commit(broker, stamped, version=1) == [0]
    value = broker.broker.groups.offsets.all_committed("g")[TopicPartition("t", 0)]
    assert (value.offset, value.commit_timestamp) == (6, 77)
    codes = commit(broker, stamped, version=1, generation_id_or_member_epoch=3, member_id="m")
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_offsets_by_topic_id(broker: BrokerDriver) -> None:
    broker.create("t")
    topic_id = broker.topic_id("t")
    topics = tuple(
        OffsetCommitRequestTopic(topic_id=wanted, partitions=(part(0, 5), part(9, 5)))
        for wanted in (topic_id, UUID(int=5))
    )
    known, unknown = broker.ask(OffsetCommitRequest(group_id="g", topics=topics), 10).topics
    assert (known.topic_id, unknown.topic_id) == (topic_id, UUID(int=5))
    assert [found.error_code for found in known.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [found.error_code for found in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
    assert committed(broker) == 5


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_committed_offsets_survive_a_restart(broker: BrokerDriver, how: str) -> None:
    broker.create("t", partitions=2)
    for offset in range(20):
        commit(broker, part(0, offset), part(1, 2 * offset, "note"))
    getattr(broker, how)()
    assert [committed(broker, index) for index in (0, 1)] == [19, 38]
    commit(broker, part(0, 77))
    getattr(broker, how)()
    assert [committed(broker, index) for index in (0, 1)] == [77, 38]


def test_unknown_partitions_and_long_metadata_are_refused_and_other_offsets_stored(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    assert commit(broker, part(0, 5), part(7, 5), part(1, 5, "x" * 4097)) == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert commit(broker, part(0, 5), topic="u") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [committed(broker, index) for index in (0, 1)] == [5, None]


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_commits_of_unknown_members_are_refused(broker: BrokerDriver, version: int, code: ErrorCode) -> None:
    broker.create("t")
    codes = commit(broker, part(0, 5), part(9, 5), version=version, generation_id_or_member_epoch=3, member_id="m")
    assert codes == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert committed(broker) is None


def test_old_versions_may_set_the_retention_time(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    commit(broker, part(0, 5), version=2, retention_time_ms=1000)
    commit(broker, part(1, 6), version=5)
    broker.clock.advance(1000)
    broker.run(broker.broker.groups.expire())
    assert [committed(broker, index) for index in (0, 1)] == [None, 6]
    broker.clock.advance(10_080 * 60_000)
    broker.run(broker.broker.groups.expire())
    assert committed(broker, 1) is None
    broker.restart()
    assert broker.broker.groups.offsets.all_committed("g") == {}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_time_beyond_all_clocks_keeps_the_offset(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    assert commit(broker, part(0, 5), version=version, retention_time_ms=2**63 - 1) == [ErrorCode.NONE]
    broker.restart()
    broker.clock.advance(2**40)
    broker.run(broker.broker.groups.expire())
    assert committed(broker) == 5


def test_a_commit_too_large_for_the_log_is_refused_as_a_whole(broker: BrokerDriver) -> None:
    broker.restart({"message.max.bytes": 300})
    broker.create("t", partitions=2)
    assert commit(broker, part(0, 5, "x" * 300), part(1, 5)) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert commit(broker, part(1, 5)) == [0]


def test_committed_offsets_of_a_deleted_topic_are_deleted(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.create("u")
    commit(broker, part(0, 5))
    commit(broker, part(0, 6), topic="u")
    broker.delete("t")
    broker.create("t")
    for _ in range(2):
        assert (committed(broker), committed(broker, topic="u")) == (None, 6)
        broker.restart()


def test_deleting_the_offsets_topic_forgets_all(broker: BrokerDriver) -> None:
    broker.create("t")
    commit(broker, part(0, 5))
    broker.delete("__consumer_offsets")
    assert committed(broker) is None
    assert commit(broker, part(0, 7)) == [0]
    broker.restart()
    assert committed(broker) == 7


def test_commits_that_wait_for_the_disk(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    broker.create("t")
    assert commit(broker, part(0, 5)) == [0]
    assert committed(broker) == 5
