"""Topic names."""

import pytest

from spark_kafka_native.protocol.topic import TopicPartition, by_topic, topic_name_problem


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_legal_names(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        (".", "cannot be"),
        ("..", "cannot be"),
        ("x" * 250, "250 characters"),
        ("a b", "other than"),
        ("é", "other"),
    ],
)
def test_illegal_names(name: str, problem: str) -> None:
    assert problem in (topic_name_problem(name) or "")


def test_topic_partitions_have_kafkas_form() -> None:
    assert str(TopicPartition("events", 3)) == "events-3"


def test_partitions_by_topic() -> None:
    mixed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert by_topic(mixed) == {"b": [mixed[0], mixed[2]], "a": [mixed[1]]}
    assert by_topic([]) == {}
