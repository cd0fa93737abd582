from uuid import UUID

import pytest

from spark_kafka_native._protocol.ids import format_id, new_id, parse_id
from spark_kafka_native._protocol.nearest import did_you_mean, nearest_name
from spark_kafka_native._protocol.topic import TopicPartition, by_topic, listed, topic_name_problem


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


TOPIC_ID = UUID("62cec22a-8b0d-4d4f-9c3f-5d2f2d8c1a77")


def test_ids_have_kafkas_base64_form() -> None:
    assert format_id(TOPIC_ID) == "Ys7CKosNTU-cP10vLYwadw"
    assert parse_id("Ys7CKosNTU-cP10vLYwadw") == TOPIC_ID
    assert format_id(UUID(int=0)) == "A" * 22


@pytest.mark.parametrize("text", ["", "abc", "a", "A" * 21, "A" * 23])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no base64 id of 16 bytes"):
        parse_id(text)


def test_new_ids_do_not_look_like_options() -> None:
    assert not any(format_id(new_id()).startswith("-") for _ in range(200))


@pytest.mark.parametrize(
    ("name", "expected"), [("--lst", "--list"), ("--TOPICS", "--topic"), ("FECTH", None), ("", None)]
)
def test_the_nearest_known_name(name: str, expected: str | None) -> None:
    assert nearest_name(name, ["--list", "--topic"]) == expected
    assert did_you_mean(name, ["--list", "--topic"]) == ("" if expected is None else f"; did you mean {expected}?")


def test_a_name_keeps_its_case() -> None:
    assert did_you_mean("includeheader", ["includeHeaders"]) == "; did you mean includeHeaders?"


def test_long_lists_are_cut_and_counted() -> None:
    partitions = [TopicPartition("t", partition) for partition in range(11, -1, -1)]
    assert listed(partitions[-2:]) == "t-0, t-1"
    assert listed(partitions) == "t-0, t-1, t-2, t-3, t-4, t-5, t-6, t-7 and 4 more"
