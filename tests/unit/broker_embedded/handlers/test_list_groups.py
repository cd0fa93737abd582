"""ListGroups, version by version."""

import pytest

from spark_kafka_native.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from spark_kafka_native.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_driver import BrokerDriver
from tests.support.members import begin_join, join_request, stable


@pytest.fixture
def filled(broker: BrokerDriver) -> BrokerDriver:
    """A group in each of several states: simple, stable, and one that is about to rebalance."""
    broker.create("t")
    parts = (OffsetCommitRequestPartition(partition_index=0, committed_offset=5),)
    topics = (OffsetCommitRequestTopic(name="t", partitions=parts),)
    broker.ask(OffsetCommitRequest(group_id="simple", topics=topics), 8)
    stable(broker, group_id="stable")
    stable(broker, group_id="connect", protocol_type="connect", protocols={"compatible": b"url"})
    begin_join(broker, join_request("joining"), 0).cancel()
    return broker


def listed(broker: BrokerDriver, version: int = 5, **filters: tuple[str, ...]) -> dict[str, ListedGroup]:
    answer = broker.ask(ListGroupsRequest(**filters), version)
    assert answer.error_code == 0
    return {group.group_id: group for group in answer.groups}


@pytest.mark.parametrize("version", range(6))
def test_all_groups(filled: BrokerDriver, version: int) -> None:
    found = listed(filled, version)
    assert {name: group.protocol_type for name, group in found.items()} == {
        "simple": "",
        "stable": "consumer",
        "connect": "connect",
        "joining": "consumer",
    }
    states = {name: group.group_state for name, group in found.items()}
    types = {group.group_type for group in found.values()}
    assert types == ({"classic"} if version >= 5 else {""})
    if version >= 4:
        assert states == {
            "simple": "Empty",
            "stable": "Stable",
            "connect": "Stable",
            "joining": "PreparingRebalance",
        }
    else:
        assert set(states.values()) == {""}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ("Stable",)}, {"stable", "connect"}),
        ({"states_filter": (" sTaBle ", "empty")}, {"stable", "connect", "simple"}),
        ({"states_filter": ("Dead",)}, set()),
        ({"types_filter": ("Classic",)}, {"simple", "stable", "connect", "joining"}),
        ({"types_filter": ("consumer",)}, set()),
        ({"types_filter": ("nonsense",)}, set()),
        ({"states_filter": ("PreparingRebalance",), "types_filter": ("classic", "consumer")}, {"joining"}),
    ],
)
def test_filters(filled: BrokerDriver, filters: dict[str, tuple[str, ...]], names: set[str]) -> None:
    assert set(listed(filled, 5, **filters)) == names


def test_a_broker_without_groups(broker: BrokerDriver) -> None:
    assert listed(broker) == {}
