from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from tests.support.broker.driver import BrokerDriver, commit_offset
from tests.support.broker.members import join_request
from tests.support.requests.consumer_group import first_heartbeat
from tests.support.requests.of_topic import offset_delete, offset_fetch

SETTINGS = {"group.consumer.assignment.interval.ms": 0, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerDriver]:
    with BrokerDriver(tmp_path / "data", SETTINGS) as driver:
        driver.create("t", 4)
        yield driver


def beat(
    broker: BrokerDriver, member_id: str, epoch: int, *, version: int = 1, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        **{"group_id": "g", "member_id": member_id, "member_epoch": epoch, **fields}
    )
    return broker.ask(request, version)


def join(broker: BrokerDriver, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    version = fields.pop("version", 1)
    return broker.ask(first_heartbeat(member_id, **fields), version)


def numbers(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert response.assignment is not None
    return [number for topic in response.assignment.topic_partitions for number in topic.partitions]


def commit(broker: BrokerDriver, member_id: str, epoch: int, version: int = 9) -> int:
    return commit_offset(broker, 5, version=version, generation_id_or_member_epoch=epoch, member_id=member_id)


def test_members_share_the_partitions(broker: BrokerDriver) -> None:
    first = join(broker, "a")
    assert (first.error_code, first.member_id, first.member_epoch, first.heartbeat_interval_ms) == (0, "a", 2, 5000)
    assert numbers(first) == [0, 1, 2, 3]
    assert numbers(join(broker, "b")) == []
    kept = numbers(beat(broker, "a", 2))
    assert len(kept) == 2
    topic_id = broker.topic_id("t")
    done = beat(broker, "a", 2, topic_partitions=(TopicPartitions(topic_id=topic_id, partitions=tuple(kept)),))
    assert done.member_epoch == 3
    assert sorted(kept + numbers(beat(broker, "b", 3))) == [0, 1, 2, 3]


def test_a_member_without_an_id_is_given_one_in_version_0(broker: BrokerDriver) -> None:
    response = join(broker, "", version=0)
    assert response.error_code == 0
    assert response.member_id
    assert beat(broker, response.member_id, response.member_epoch, version=0).error_code == 0


def test_refused_heartbeats_have_an_error_message(broker: BrokerDriver) -> None:
    response = join(broker, "")
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    response = join(broker, "a", server_assignor="magic")
    assert response.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    response = beat(broker, "a", 3)
    assert (response.error_code, response.member_id) == (ErrorCode.GROUP_ID_NOT_FOUND, None)
    assert response.error_message
    response = join(broker, "a", subscribed_topic_regex="(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert broker.broker.groups.get("g") is None


@pytest.mark.parametrize(("release", "code"), [("3.9", ErrorCode.UNSUPPORTED_VERSION), ("4.0", ErrorCode.NONE)])
def test_older_releases_have_the_protocol_off(tmp_path: Path, release: str, code: ErrorCode) -> None:
    with BrokerDriver(tmp_path / "old", {"as.version": release}) as broker:
        broker.create("t", 1)
        assert join(broker, "a", version=0).error_code == code


@pytest.mark.parametrize("restart", ["restart", "crash"])
def test_a_group_survives_a_restart(broker: BrokerDriver, restart: str) -> None:
    join(broker, "a", instance_id="i", rack_id="r")
    join(broker, "b", subscribed_topic_regex="t|u")
    broker.advance(0)
    before = broker.broker.groups.get("g")
    getattr(broker, restart)()
    assert broker.broker.groups.get("g") == before
    assert beat(broker, "a", 2).error_code == 0


def test_the_sessions_of_silent_members_expire(broker: BrokerDriver) -> None:
    join(broker, "a")
    broker.advance(44_999)
    assert beat(broker, "a", 2).error_code == 0
    broker.advance(45_000)
    assert beat(broker, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_sessions_continue_after_a_restart(broker: BrokerDriver) -> None:
    join(broker, "a")
    broker.restart()
    assert beat(broker, "b", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.advance(45_000)
    assert beat(broker, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_topics_that_change_reach_the_members(broker: BrokerDriver) -> None:
    join(broker, "a", subscribed_topic_names=("t", "u"))
    broker.create("u", 1)
    assert len(numbers(beat(broker, "a", 2))) == 5
    broker.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 4)
    assert numbers(beat(broker, "a", 3)) == [0]


def test_regular_expressions_are_looked_up_soon(broker: BrokerDriver) -> None:
    assert numbers(join(broker, "a", subscribed_topic_names=None, subscribed_topic_regex="t.*")) == []
    broker.advance(0)
    assert numbers(beat(broker, "a", 1)) == [0, 1, 2, 3]


def test_other_apis_know_the_group(broker: BrokerDriver) -> None:
    join(broker, "a")
    (listed,) = broker.ask(ListGroupsRequest(types_filter=("consumer",)), 5).groups
    assert (listed.group_id, listed.group_state) == ("g", "Stable")
    assert listed.protocol_type == listed.group_type == "consumer"
    assert broker.ask(ListGroupsRequest(types_filter=("classic",)), 5).groups == ()
    (described,) = broker.ask(DescribeGroupsRequest(groups=("g",)), 6).groups
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    (deleted,) = broker.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP


def test_an_empty_group_can_be_deleted(broker: BrokerDriver) -> None:
    join(broker, "a")
    beat(broker, "a", -1)
    (listed,) = broker.ask(ListGroupsRequest(), 5).groups
    assert listed.group_state == "Empty"
    (deleted,) = broker.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results
    assert deleted.error_code == 0
    assert broker.ask(ListGroupsRequest(), 5).groups == ()
    broker.restart()
    assert broker.ask(ListGroupsRequest(), 5).groups == ()


def test_members_commit_at_their_epoch(broker: BrokerDriver) -> None:
    join(broker, "a")
    assert commit(broker, "a", 2) == 0
    assert commit(broker, "a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(broker, "x", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(broker, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(broker, "a", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [(None, -1, 0), ("a", 2, 0), ("a", 9, ErrorCode.STALE_MEMBER_EPOCH), ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_members_fetch_committed_offsets_at_their_epoch(
    broker: BrokerDriver, member_id: str | None, epoch: int, code: int
) -> None:
    join(broker, "a")
    commit(broker, "a", 2)
    (group,) = broker.ask(offset_fetch("t", version=9, member_id=member_id, member_epoch=epoch), 9).groups
    assert group.error_code == code
    if not code:
        assert group.topics[0].partitions[0].committed_offset == 5


def test_committed_offsets_of_subscribed_topics_cannot_be_deleted(broker: BrokerDriver) -> None:
    join(broker, "a")
    commit(broker, "a", 2)
    request = offset_delete("t")
    assert broker.ask(request, 0).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    beat(broker, "a", 2, subscribed_topic_names=("u",))
    assert broker.ask(request, 0).topics[0].partitions[0].error_code == 0


def test_offsets_of_a_simple_group_stay_with_the_consumer_group(broker: BrokerDriver) -> None:
    assert commit(broker, "", -1) == 0
    join(broker, "a")
    broker.restart()
    found = broker.broker.groups.get("g")
    assert found is not None
    assert found.group_type == "consumer"
    assert len(broker.broker.groups.offsets.all_committed("g")) == 1


def test_a_classic_member_joins_and_the_group_goes_back_when_it_is_left(broker: BrokerDriver) -> None:
    join(broker, "a")
    response = broker.ask(join_request(), 3)
    assert (response.error_code, response.generation_id) == (0, 3)
    beat(broker, "a", -1)
    broker.restart()
    (described,) = broker.ask(DescribeGroupsRequest(groups=("g",)), 6).groups
    assert (described.group_state, [member.member_id for member in described.members]) == (
        "Stable",
        [response.member_id],
    )


def test_a_group_may_have_settings_of_its_own(broker: BrokerDriver) -> None:
    configs = broker.broker.configs
    broker.run(configs.change(lambda now: now.with_group("g", {"consumer.heartbeat.interval.ms": "7000"})))
    assert join(broker, "a").heartbeat_interval_ms == 7000
    broker.restart()
    assert beat(broker, "a", 2).heartbeat_interval_ms == 7000
