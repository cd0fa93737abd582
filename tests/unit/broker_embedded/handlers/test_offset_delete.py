from typing import Any

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_delete import OffsetDeleteResponse
from tests.support.broker.driver import BrokerDriver, commit_offset
from tests.support.broker.members import stable
from tests.support.requests.of_topic import offset_delete


@pytest.fixture
def filled(broker: BrokerDriver) -> BrokerDriver:
    """Group g has committed in t and u."""
    for topic in ("t", "u"):
        broker.create(topic, partitions=2)
        for partition in (0, 1):
            commit_offset(broker, 5, partition, topic=topic)
    return broker


def delete(broker: BrokerDriver, *topics: str, **others: Any) -> OffsetDeleteResponse:
    return broker.ask(offset_delete(*topics, **others), 0)


def codes(response: OffsetDeleteResponse) -> dict[tuple[str, int], int]:
    assert response.error_code == 0
    return {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }


def left(broker: BrokerDriver) -> set[str]:
    return set(map(str, broker.broker.groups.offsets.all_committed("g")))


def test_committed_offsets_are_deleted(filled: BrokerDriver) -> None:
    response = delete(filled, "t", "missing", partitions=(0, 7))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == {("t", 0): 0, ("t", 7): missing, ("missing", 0): missing, ("missing", 7): missing}
    for _ in range(2):
        assert left(filled) == {"t-1", "u-0", "u-1"}
        filled.crash()
    assert codes(delete(filled, "t")) == {("t", 0): 0}, "an offset that was never committed is no error"


def test_committed_offsets_of_subscribed_topics_are_not_deleted(filled: BrokerDriver) -> None:
    stable(filled)  # it reads t
    assert codes(delete(filled, "t", "u")) == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): 0}
    assert left(filled) == {"t-0", "t-1", "u-1"}


@pytest.mark.parametrize(
    ("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("unknown", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_group_that_is_not_there(filled: BrokerDriver, group_id: str, code: ErrorCode) -> None:
    response = delete(filled, "t", group_id=group_id)
    assert (response.error_code, response.topics) == (code, ())


def test_a_group_whose_members_are_no_consumers(filled: BrokerDriver) -> None:
    stable(filled, protocol_type="connect", protocols={"compatible": b"url"})
    assert delete(filled, "t").error_code == ErrorCode.NON_EMPTY_GROUP
