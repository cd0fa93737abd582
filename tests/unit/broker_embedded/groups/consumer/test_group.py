from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.group import Group
from broker_embedded._groups.records import OffsetCommitValue
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver, topic_id
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    """``a`` has both partitions at epoch 2 and is revoking one of them for ``b``."""
    group = ConsumerDriver(t=2)
    group.join("a", topics=["t"], holds_on=True)
    group.join("b", topics=["t"])
    group.beat("a")
    return group


def code_of(check: Callable[[], object]) -> ErrorCode:
    try:
        check()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def commit(group: ConsumerDriver, *partitions: int, version: int = 9, **fields: Any) -> ErrorCode:
    parts = tuple(OffsetCommitRequestPartition(partition_index=number) for number in partitions)
    topic = OffsetCommitRequestTopic(topic_id=topic_id("t"), name="" if version >= 10 else "t", partitions=parts)
    request = OffsetCommitRequest(group_id="g", topics=(topic,), **fields)
    return code_of(lambda: group.consumer_group.check_commit(request, version))


def fetch(group: ConsumerDriver, member_id: str | None, epoch: int) -> ErrorCode:
    return code_of(lambda: group.consumer_group.check_fetch(member_id, epoch))


def test_a_consumer_group_implements_group(group: ConsumerDriver) -> None:
    found: Group = group.consumer_group
    assert (found.group_id, found.group_type, found.protocol_type) == ("g", "consumer", "consumer")
    assert found.released(ErrorCode.NOT_COORDINATOR) == ()


def test_a_group_goes_from_reconciling_to_stable(group: ConsumerDriver) -> None:
    assert group.state == "Reconciling"
    group.give_back("a")
    group.settle()
    assert group.state == "Stable"
    group.config = replace(group.config, assignment_interval_ms=60_000)
    group.join("c", topics=["t"])
    assert group.state == "Assigning"
    for name in "abc":
        group.leave(name)
    assert (group.state, group.consumer_group.is_empty) == ("Empty", True)


def test_a_member_commits_at_its_epoch(group: ConsumerDriver) -> None:
    assert commit(group, 0, 1, member_id="a-id", generation_id_or_member_epoch=2) is ErrorCode.NONE
    assert commit(group, 0, member_id="b-id", generation_id_or_member_epoch=3) is ErrorCode.NONE


def test_a_member_of_an_older_epoch_commits_partitions_that_it_has_owned_since(group: ConsumerDriver) -> None:
    group.give_back("a")
    group.beat("b")
    (kept,) = {int(name[2:]) for name in group.owned("a")}
    assert group.member("a").member_epoch == 3
    for version in (9, 10):
        assert commit(group, kept, version=version, member_id="a-id", generation_id_or_member_epoch=2) is ErrorCode.NONE
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group, kept, member_id="a-id", generation_id_or_member_epoch=1) is stale
    assert commit(group, 0, 1, member_id="a-id", generation_id_or_member_epoch=2) is stale, "one is not its own"
    assert commit(group, kept, member_id="a-id", generation_id_or_member_epoch=4) is stale


def test_a_member_commits_what_it_is_about_to_give_back(group: ConsumerDriver) -> None:
    members = {**group.consumer_group.members, "a-id": replace(group.member("a"), member_epoch=3)}
    group.group = replace(group.consumer_group, members=members)
    assert commit(group, 0, 1, member_id="a-id", generation_id_or_member_epoch=2) is ErrorCode.NONE


def test_commits_of_other_members_and_of_simple_consumers(group: ConsumerDriver) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, 0, member_id="x", generation_id_or_member_epoch=2) is unknown
    assert commit(group, 0, generation_id_or_member_epoch=-1) is unknown, "it has members; they commit for it"
    assert (
        commit(group, 0, member_id="a-id", generation_id_or_member_epoch=2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    )
    for name in "ab":
        group.leave(name)
    assert commit(group, 0, generation_id_or_member_epoch=-1) is ErrorCode.NONE
    assert commit(group, 0, member_id="a-id", generation_id_or_member_epoch=2) is unknown


def test_transactional_commits_by_member_and_epoch(group: ConsumerDriver) -> None:
    def commit_in_transaction(*partitions: int, topic: str = "t", **fields: Any) -> ErrorCode:
        parts = tuple(TxnOffsetCommitRequestPartition(partition_index=number) for number in partitions)
        topics = (TxnOffsetCommitRequestTopic(name=topic, partitions=parts),)
        request = TxnOffsetCommitRequest(topics=topics, **fields)
        return code_of(lambda: group.consumer_group.check_commit_in_transaction(request))

    assert commit_in_transaction(0) is ErrorCode.NONE, "old clients do not say who they are"
    assert commit_in_transaction(0, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(0, member_id="x", generation_id=2) is ErrorCode.UNKNOWN_MEMBER_ID
    group.give_back("a")
    group.beat("b")
    (kept,) = {int(name[2:]) for name in group.owned("a")}
    assert commit_in_transaction(0, 1, member_id="a-id", generation_id=3) is ErrorCode.NONE
    assert commit_in_transaction(kept, member_id="a-id", generation_id=2) is ErrorCode.NONE, "it has had that one since"
    for wrong in (
        commit_in_transaction(0, 1, member_id="a-id", generation_id=2),
        commit_in_transaction(kept, member_id="a-id", generation_id=4),
        commit_in_transaction(kept, member_id="a-id"),
        commit_in_transaction(kept, topic="gone", member_id="a-id", generation_id=2),
    ):
        assert wrong is ErrorCode.ILLEGAL_GENERATION
    for name in "ab":
        group.leave(name)
    assert commit_in_transaction(0, member_id="any") is ErrorCode.NONE
    assert commit_in_transaction(0, member_id="a-id", generation_id=2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offset_fetch_by_member_and_epoch(group: ConsumerDriver) -> None:
    assert fetch(group, None, -1) is ErrorCode.NONE
    assert fetch(group, "a-id", 2) is ErrorCode.NONE
    assert fetch(group, "a-id", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(group, "a-id", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(group, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(group, None, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_the_classic_protocol_get_its_error_code(group: ConsumerDriver) -> None:
    old = ClassicClient(topics=("t",))
    group.classic_join(old)
    stale = ErrorCode.ILLEGAL_GENERATION
    for epoch in (old.generation + 1, old.generation - 1):
        assert commit(group, 0, member_id=old.member_id, generation_id_or_member_epoch=epoch, version=8) is stale
        assert fetch(group, old.member_id, epoch) is stale
    assert commit(group, 0, member_id=old.member_id, generation_id_or_member_epoch=old.generation, version=8) is (
        ErrorCode.NONE
    )


def test_committed_offsets_of_subscribed_topics_stay(group: ConsumerDriver) -> None:
    found = group.consumer_group
    found.check_offset_delete()
    assert (found.is_subscribed("t"), found.is_subscribed("u")) == (True, False)
    start = found.retention_start()
    assert start is not None
    assert start(OffsetCommitValue(offset=1, metadata="", commit_timestamp=5)) == 5


def test_an_empty_group_is_deleted_with_all_its_records(group: ConsumerDriver) -> None:
    assert refused(group.consumer_group.check_delete).code is ErrorCode.NON_EMPTY_GROUP
    for name in "ab":
        group.leave(name)
    group.consumer_group.check_delete()
    group.log += group.consumer_group.tombstones()
    group.restart()
    assert group.group is None


def test_groups_compare_by_what_is_written_down(group: ConsumerDriver) -> None:
    found = group.consumer_group
    assert replace(found, must_rejoin=frozenset({"x"}), looked_at=None) == found
    assert replace(found, epoch=9) != found
    assert isinstance(found, ConsumerGroup)
