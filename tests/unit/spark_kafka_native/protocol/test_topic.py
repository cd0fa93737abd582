"""Topic names."""

import pytest

from spark_kafka_native.protocol.topic import TopicPartition, by_topic, validate_topic_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_legal_names(name: str) -> None:
    validate_topic_name(name)


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
    with pytest.raises(ValueError, match=problem):
        validate_topic_name(name)


def test_topic_partitions_are_spelt_as_kafka_does() -> None:
    assert str(TopicPartition("events", 3)) == "events-3"


def test_partitions_by_topic() -> None:
    mixed = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert by_topic(mixed) == {"b": [mixed[0], mixed[2]], "a": [mixed[1]]}
    assert by_topic([]) == {}
