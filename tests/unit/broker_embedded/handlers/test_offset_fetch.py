from uuid import UUID

import pytest

from broker_embedded._groups.offsets import OffsetCommit
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import BrokerDriver, commit_offset
from tests.support.requests.of_topic import offset_fetch

ONE_GROUP = range(1, 8)
MANY_GROUPS = range(8, 10)


@pytest.fixture
def filled(broker: BrokerDriver) -> BrokerDriver:
    """Group g has committed 5 for t-0, with a note, and 7 for u-0."""
    broker.create("t", partitions=2)
    broker.create("u")
    for name, offset, note in (("t", 5, "note"), ("u", 7, "")):
        commit_offset(broker, offset, topic=name, leader_epoch=0, metadata=note)
    return broker


def flat(group: OffsetFetchResponseGroup) -> dict[tuple[str, int], tuple[int, int, str | None, int]]:
    return {
        (topic.name, part.partition_index): (
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata,
            part.error_code,
        )
        for topic in group.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", ONE_GROUP)
def test_old_versions_have_one_group(filled: BrokerDriver, version: int) -> None:
    wanted = (
        OffsetFetchRequestTopic(name="t", partition_indexes=(0, 1, 9)),
        OffsetFetchRequestTopic(name="missing", partition_indexes=(0,)),
    )
    response = filled.ask(OffsetFetchRequest(group_id="g", topics=wanted), version)
    assert response.error_code == 0
    epoch = 0 if version >= 5 else -1
    assert {
        (topic.name, part.partition_index): (part.committed_offset, part.committed_leader_epoch, part.metadata)
        for topic in response.topics
        for part in topic.partitions
    } == {("t", 0): (5, epoch, "note"), ("t", 1): (-1, -1, ""), ("t", 9): (-1, -1, ""), ("missing", 0): (-1, -1, "")}
    assert {part.error_code for topic in response.topics for part in topic.partitions} == {0}


@pytest.mark.parametrize("version", MANY_GROUPS)
def test_several_groups_in_new_versions(filled: BrokerDriver, version: int) -> None:
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0, 1)),)
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=topics) for name in ("g", "unknown"))
    response = filled.ask(OffsetFetchRequest(groups=groups), version)
    assert [(group.group_id, group.error_code) for group in response.groups] == [("g", 0), ("unknown", 0)]
    assert flat(response.groups[0]) == {("t", 0): (5, 0, "note", 0), ("t", 1): (-1, -1, "", 0)}
    assert flat(response.groups[1]) == {("t", 0): (-1, -1, "", 0), ("t", 1): (-1, -1, "", 0)}


def test_topics_by_id(filled: BrokerDriver) -> None:
    topic_id = filled.topic_id("t")
    topics = tuple(
        OffsetFetchRequestTopics(topic_id=wanted, partition_indexes=(0,)) for wanted in (topic_id, UUID(int=5))
    )
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    known, unknown = filled.ask(request, 10).groups[0].topics
    assert (known.topic_id, known.partitions[0].committed_offset, known.partitions[0].error_code) == (topic_id, 5, 0)
    assert (unknown.topic_id, unknown.partitions[0].committed_offset, unknown.partitions[0].error_code) == (
        UUID(int=5),
        -1,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_null_is_all_topics_in_old_versions(filled: BrokerDriver, version: int) -> None:
    response = filled.ask(OffsetFetchRequest(group_id="g", topics=None), version)
    assert {(topic.name, topic.partitions[0].committed_offset) for topic in response.topics} == {("t", 5), ("u", 7)}
    assert filled.ask(OffsetFetchRequest(group_id="unknown", topics=None), version).topics == ()


@pytest.mark.parametrize("version", range(8, 11))
def test_null_is_all_topics_in_new_versions(filled: BrokerDriver, version: int) -> None:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    (group,) = filled.ask(request, version).groups
    ids = {topic.topic_id: name for name, topic in filled.broker.image.topics.items()}
    found = {(topic.name or ids[topic.topic_id], topic.partitions[0].committed_offset) for topic in group.topics}
    assert found == {("t", 5), ("u", 7)}


def test_offsets_of_a_topic_made_again_are_not_its_own(filled: BrokerDriver) -> None:
    # The tombstones that deleting writes are lost here, as when the broker is killed in between.
    topic = filled.broker.image.topics["t"]
    filled.run(filled.broker.topics.delete(topic))
    filled.create("t", partitions=2)
    asked = OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
    for topics in ((asked,), None):
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
        assert flat(filled.ask(request, 8).groups[0]).get(("t", 0), (-1, -1, "", 0)) == (-1, -1, "", 0)


def commit_in_transaction(broker: BrokerDriver, topic: str, partition: int, offset: int) -> None:
    meant = broker.broker.image.topics[topic]
    where = TopicPartition(topic, partition)
    wanted = OffsetCommit(partition=where, topic_id=meant.topic_id, offset=offset, leader_epoch=0, metadata="")
    request = TxnOffsetCommitRequest(group_id="g", producer_id=7, producer_epoch=0)
    broker.run(broker.broker.groups.commit_in_transaction(request, [wanted], verified=True))


UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize("version", range(8, 11))
@pytest.mark.parametrize("require_stable", [False, True])
def test_require_stable_answers_unstable_offset_commit_for_pending_offsets(
    filled: BrokerDriver, version: int, require_stable: bool
) -> None:
    commit_in_transaction(filled, "t", 0, 9)
    commit_in_transaction(filled, "t", 1, 9)
    ids = {name: topic.topic_id for name, topic in filled.broker.image.topics.items()}
    wanted = tuple(
        OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=indexes)
        for name, indexes in (("t", (0, 1)), ("u", (0,)))
    )
    found = []
    for topics in (wanted, None):
        groups = (OffsetFetchRequestGroup(group_id="g", topics=topics),)
        response = filled.ask(OffsetFetchRequest(groups=groups, require_stable=require_stable), version)
        found.append([part for topic in response.groups[0].topics for part in topic.partitions])
    named, everything = found
    codes = [ErrorCode.UNSTABLE_OFFSET_COMMIT if require_stable else 0] * 2
    assert [part.error_code for part in named] == [*codes, 0]
    assert [part.committed_offset for part in named] == ([-1, -1, 7] if require_stable else [5, -1, 7])
    assert [(part.error_code, part.committed_offset) for part in everything] == [
        (codes[0], -1 if require_stable else 5),
        (0, 7),
    ]


def test_require_stable_in_its_first_version(filled: BrokerDriver) -> None:
    commit_in_transaction(filled, "t", 0, 9)
    for require_stable, expected in ((True, UNSTABLE), (False, (5, 0, "note", 0))):
        request = offset_fetch("t", 0, 1, version=7, require_stable=require_stable)
        (topic,) = filled.ask(request, 7).topics
        first, second = topic.partitions
        assert (first.committed_offset, first.committed_leader_epoch, first.metadata, first.error_code) == expected
        assert (second.committed_offset, second.error_code) == (-1, 0)


def test_the_oldest_version_has_an_error_for_a_missing_offset(filled: BrokerDriver) -> None:
    filled.passing_for("0.9")
    for version, absent in ((0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, ErrorCode.NONE)):
        (topic,) = filled.ask(offset_fetch("t", 0, 1, version=version), version).topics
        assert [(part.committed_offset, part.error_code) for part in topic.partitions] == [(5, 0), (-1, absent)]


def test_old_versions_have_the_error_of_the_group_in_each_partition(filled: BrokerDriver) -> None:
    filled.passing_for("0.9")

    async def fails() -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    filled.broker.groups.make_ready = fails  # type: ignore[method-assign]  # the log of groups cannot be made
    for version in (0, 1):
        (topic,) = filled.ask(offset_fetch("t", 0, 1, version=version), version).topics
        assert {part.error_code for part in topic.partitions} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
