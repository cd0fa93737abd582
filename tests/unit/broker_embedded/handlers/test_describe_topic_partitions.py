import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.broker.driver import BrokerDriver


def page(
    broker: BrokerDriver, *names: str, limit: int = 2000, start: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    cursor = None if start is None else Cursor(topic_name=start[0], partition_index=start[1])
    topics = tuple(TopicRequest(name=name) for name in names)
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    return broker.ask(request, 0)


def summary(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    """Topics and their partitions, then where the next page starts."""
    assert all(topic.error_code == 0 for topic in response.topics)
    found = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return found if cursor is None else [*found, (f"next {cursor.topic_name}", [cursor.partition_index])]


@pytest.fixture(autouse=True)
def _topics(broker: BrokerDriver) -> None:
    """The topics a, b and c, with 1, 3 and 2 partitions."""
    for name, partitions in (("c", 2), ("a", 1), ("b", 3)):
        broker.create(name, partitions=partitions)


def test_a_topic_whole(broker: BrokerDriver) -> None:
    (topic,) = page(broker, "b").topics
    image = broker.broker.image.topics["b"]
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (image.topic_id, False, 3576)
    part = topic.partitions[1]
    assert (part.error_code, part.partition_index, part.leader_id, part.leader_epoch) == (0, 1, 1, 0)
    assert (part.replica_nodes, part.isr_nodes, part.offline_replicas) == ((1,), (1,), ())
    assert (part.eligible_leader_replicas, part.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    ("names", "limit", "start", "expected"),
    [
        ((), 2000, None, [("a", [0]), ("b", [0, 1, 2]), ("c", [0, 1])]),
        (("c", "a", "c"), 2000, None, [("a", [0]), ("c", [0, 1])]),
        ((), 1, None, [("a", [0]), ("next b", [0])]),
        ((), 0, None, [("a", [0]), ("next b", [0])]),
        ((), -1, None, [("a", [0]), ("next b", [0])]),
        ((), 2, None, [("a", [0]), ("b", [0]), ("next b", [1])]),
        ((), 4, None, [("a", [0]), ("b", [0, 1, 2]), ("next c", [0])]),
        ((), 6, None, [("a", [0]), ("b", [0, 1, 2]), ("c", [0, 1])]),
        (("b",), 2, ("b", 1), [("b", [1, 2])]),
        (("b", "c"), 2, ("b", 1), [("b", [1, 2]), ("next c", [0])]),
        (("b",), 2, ("b", 9), [("b", [])]),
        ((), 2, ("b", 2), [("b", [2]), ("c", [0]), ("next c", [1])]),
        ((), 9, ("bb", 7), [("c", [0, 1])]),
        ((), 9, ("z", 0), []),
    ],
)
def test_topic_partitions_in_pages_with_a_cursor(
    broker: BrokerDriver,
    names: tuple[str, ...],
    limit: int,
    start: tuple[str, int] | None,
    expected: list[tuple[str, list[int]]],
) -> None:
    assert summary(page(broker, *names, limit=limit, start=start)) == expected


def test_the_broker_has_a_limit_too(broker: BrokerDriver) -> None:
    broker.restart({"max.request.partition.size.limit": 2})
    assert summary(page(broker)) == [("a", [0]), ("b", [0]), ("next b", [1])]


def test_topics_that_are_not_there_take_no_room(broker: BrokerDriver) -> None:
    response = page(broker, "b", "a/b", "aa", limit=1)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0),
    ]
    assert response.next_cursor == Cursor(topic_name="b", partition_index=1)


@pytest.mark.parametrize("start", [("c", 0), ("z", 0), ("a", -1)])
def test_an_invalid_cursor_fails_the_request(broker: BrokerDriver, start: tuple[str, int]) -> None:
    response = page(broker, "a", "b", start=start)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert page(broker, start=("a", -1)).topics == ()
